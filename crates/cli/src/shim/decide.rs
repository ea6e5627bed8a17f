//! The decision whether a command runs natively or is handed over to Git: a function of the command
//! line, the configuration and the repository.
//!
//! Order, cheapest check first: the command's name (and, if Git has no such command, the command
//! that it is an alias of); the options and arguments; the configuration; the files; the revisions
//! and paths that the arguments name; the index. Nothing is printed or changed, and standard input
//! is not read.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};

use crate::{
    commands::{
        self, obstacles,
        reason::Reason,
        record::{Candidate, Command, Home},
    },
    git::{self, RealGit},
    session::invocation::{Invocation, Place},
};

/// Returns `Ok` if the whole command is native. An alias in `run` is replaced by its command, and
/// `run` keeps the opened repository. `find_git` is called for an alias only.
pub(super) fn decide(run: &mut Invocation, find_git: impl FnOnce() -> Option<RealGit>) -> Result<(), Reason> {
    if run.paginate {
        return Err(Reason::Option("--paginate".into()));
    }
    let command = match served(run.command.as_bstr(), &run.args) {
        Some(command) => command,
        None if run.command.is_empty() => return Err(Reason::command_line("no command")),
        None if git::builtins::is_builtin(&run.command) => return Err(unknown(run)),
        None => alias(run, find_git().as_ref())?,
    };
    let (command, args) = command.leaf(&run.args).map_err(|_| unknown(run))?;
    let survey =
        command.syntax.survey(&args).map_err(|_| Reason::command_line("a wrong or a help option"))?;
    command.line_obstacle(&survey, &args).map_or(Ok(()), Err)?;
    let candidate = |home| Candidate { run, command, survey: Some(&survey), args: &args, home };
    if command.traits.outside {
        let outside = repo::StandaloneConfig::load(&run.outside())
            .map_err(|error| Reason::repository(error.to_string()))?;
        return first(candidate(Home::Outside(&outside)).reasons());
    }
    if command.traits.anywhere {
        let place = run.open_any().map_err(|failure| Reason::refused(&failure))?;
        match &place {
            Place::Repository(repo) => {
                first(obstacles::warnings(repo))?;
                first(candidate(Home::Repository(repo)).reasons())?;
            }
            Place::Outside(outside) => first(candidate(Home::Outside(outside)).reasons())?,
        }
        match place {
            Place::Repository(repo) => run.opened.set(Some(*repo)),
            Place::Outside(outside) => run.outside_config.set(Some(outside)),
        }
        return Ok(());
    }
    let repo = open(run)?;
    first(candidate(Home::Repository(&repo)).reasons())?;
    run.opened.set(Some(repo));
    Ok(())
}

/// Returns the command called `name`, if the shim may serve it with these arguments.
fn served(name: &BStr, args: &[BString]) -> Option<&'static Command> {
    let command = commands::find(name).filter(|command| command.is_gits())?;
    command.leaf(args).is_ok().then_some(command)
}

fn unknown(run: &Invocation) -> Reason {
    Reason::Command(run.command.to_string())
}

/// Expands an alias for a native command with plain arguments. A program called `git-<name>` takes
/// precedence, as in Git. Aliases with quotes or shell code are left to Git.
fn alias(run: &mut Invocation, git: Option<&RealGit>) -> Result<&'static Command, Reason> {
    let name = run.command.to_str().map_err(|_| unknown(run))?.to_owned();
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let exec_path = git.and_then(|git| git.exec_path(&run.env));
    let (Some(exec_path), true) = (exec_path, is_word) else { return Err(unknown(run)) };
    let program = format!("git-{name}");
    let path = run.env.get(std::ffi::OsStr::new("PATH")).cloned().unwrap_or_default();
    let mut dirs = std::iter::once(exec_path).chain(std::env::split_paths(&path));
    if dirs.any(|dir| git::identity(&run.cwd.join(dir).join(&program)).is_some()) {
        return Err(unknown(run));
    }
    let repo = run.look_for_repository().map_err(|_| unknown(run))?;
    // Git resolves the newer form, `[alias "name"] command = ...`, together with the older one.
    let has_other = repo.config_names().any(|key| {
        key.strip_prefix(b"alias.")
            .is_some_and(|rest| rest.eq_ignore_ascii_case(format!("{name}.command").as_bytes()))
    });
    let value = repo.config_str(&keys::alias::ONE.of(&name));
    run.opened.set(Some(repo));
    let value = value.filter(|_| !has_other).ok_or_else(|| unknown(run))?;
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"'\"\\!".contains(byte) || b" \t".contains(byte);
    if !value.iter().all(plain) {
        return Err(Reason::command_line(format!("alias '{name}' is more than a command and plain words")));
    }
    let mut words = value.fields().map(BString::from);
    let command = words.next().unwrap_or_default();
    let args: Vec<BString> = words.chain(run.args.iter().cloned()).collect();
    let record = served(command.as_bstr(), &args)
        .ok_or_else(|| Reason::command_line(format!("alias '{name}' of '{value}'")))?;
    run.command = command;
    run.args = args;
    Ok(record)
}

/// Opens the repository, unless Git would print a warning about it.
fn open(run: &Invocation) -> Result<Repository, Reason> {
    let opened = run.opened.take().map_or_else(|| run.look_for_repository(), Ok);
    let repo = opened.map_err(|failure| Reason::refused(&failure))?;
    first(obstacles::warnings(&repo))?;
    Ok(repo)
}

fn first(reasons: impl IntoIterator<Item = Reason>) -> Result<(), Reason> {
    reasons.into_iter().next().map_or(Ok(()), Err)
}

/// Returns true if Git would colour hints here: standard error is a terminal with colours. The
/// native commands do not read `color.ui`, and leave `color.advice` to Git.
pub(super) fn colours_hints(run: &Invocation) -> bool {
    use std::io::IsTerminal as _;
    std::io::stderr().is_terminal() && !matches!(run.variable("TERM"), None | Some(b"dumb"))
}
