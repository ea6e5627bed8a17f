//! Hooks: the configured ones (`hook.<name>.event`, `.command`), then the one in the hooks
//! directory. Source: githooks(5), git-hook(1).
//!
//! The output of a hook goes to standard error, as in Git. Its standard input is empty.

use std::{
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys};
use signal_hook::consts::{SIGINT, SIGPIPE, SIGQUIT};
use sys::by_path;

use crate::{Error, context::Context, events::Events, notice::Notice, text};

/// The kind of change that the index write completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// The worktree, updated by a merge of trees.
    Worktree,
    /// The index alone, by `reset`.
    IndexAlone,
    /// Some paths.
    #[default]
    Paths,
}

/// Runs `post-checkout`. Returns its exit code, 0 without a hook.
pub fn post_checkout(
    context: Context<'_>,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    branch_changed: bool,
) -> Result<u8, Error> {
    if context.repo.work_tree().is_none() {
        return Ok(0);
    }
    let name = |oid: Option<ObjectId>| oid.unwrap_or(ObjectId::null(context.repo.hash())).to_string();
    let args = [name(old), name(new), u8::from(branch_changed).to_string()];
    Hooks::new(context).run("post-checkout", &args)
}

/// Like [`post_checkout`], for a new worktree at `top`: the hook discovers its repository itself.
pub fn post_checkout_of_new(context: Context<'_>, top: &Path, new: ObjectId) -> Result<u8, Error> {
    let args = [ObjectId::null(context.repo.hash()).to_string(), new.to_string(), "1".to_owned()];
    Hooks { dir: top, ..Hooks::new(context) }.run("post-checkout", &args)
}

/// Runs a line for the shell in another worktree, at `top`, with arguments. Returns its exit code.
pub fn in_shell_at(context: Context<'_>, top: &Path, line: &BStr, args: &[String]) -> u8 {
    context.events.before_program();
    let hooks = Hooks { dir: top, ..Hooks::new(context) };
    match started(in_a_shell(line, args), |command| hooks.variant(command).args(args).status()) {
        Ok(status) => exit_code(status, line, context.events),
        Err(error) => {
            not_started(line, &error, context.events);
            1
        }
    }
}

/// Runs `post-merge` after a fast-forward. Its exit code has no effect.
pub fn post_merge(context: Context<'_>) -> Result<(), Error> {
    Hooks::new(context).run("post-merge", &["0".to_owned()]).map(drop)
}

/// Runs `post-index-change`, whose exit code has no effect.
pub fn post_index_change(context: Context<'_>, changed: Changed) -> Result<(), Error> {
    let flag = |is: bool| u8::from(is).to_string();
    let args = [flag(changed == Changed::Worktree), flag(changed == Changed::IndexAlone)];
    Hooks::new(context).run("post-index-change", &args).map(drop)
}

/// Returns true if an executable hook `reference-transaction` exists.
pub fn has_reference_transaction(context: Context<'_>) -> Result<bool, Error> {
    Ok(Hooks::new(context).in_directory(REFERENCE_TRANSACTION)?.is_some())
}

/// Runs `reference-transaction` with the edits on its standard input. Returns its exit code.
pub fn reference_transaction(context: Context<'_>, stage: &str, edits: &[u8]) -> Result<u8, Error> {
    let hooks = Hooks::new(context);
    let Some(path) = hooks.in_directory(REFERENCE_TRANSACTION)? else { return Ok(0) };
    context.events.before_program();
    let ended = started(Command::new(&path), |command| {
        let mut child = hooks.variant(command).arg(stage).stdin(Stdio::piped()).spawn()?;
        // The hook may end before it has read the whole input.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(edits);
        }
        child.wait()
    });
    let shown = path.as_os_str().as_bytes().as_bstr();
    match ended {
        Ok(status) => Ok(exit_code(status, shown, context.events)),
        Err(error) => {
            not_started(shown, &error, context.events);
            Ok(1)
        }
    }
}

/// The hook that is told of each stage of a change of refs.
pub(crate) const REFERENCE_TRANSACTION: &str = "reference-transaction";

/// Returns the standard output of `command` (a program, or a line for the shell), or `None` if it
/// fails. The command inherits standard input. It only answers: Git may ask it once more.
pub fn output_of(context: Context<'_>, command: &BStr, args: &[String]) -> Option<Vec<u8>> {
    context.events.before_program();
    let hooks = Hooks::new(context);
    let finished = start(in_a_shell(command, args), |command| {
        let dressed = hooks.variant(command).args(args);
        dressed.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::inherit()).output()
    });
    match finished {
        Ok(output) => (exit_code(output.status, command, context.events) == 0).then_some(output.stdout),
        Err(error) => {
            not_started(command, &error, context.events);
            None
        }
    }
}

/// Reports a program that could not be started, in Git's words.
pub fn not_started(command: &BStr, error: &io::Error, events: &dyn Events) {
    let (command, reason) = (command.to_owned(), sys::reason(error).to_string());
    events.notice(if command.contains(&b'/') {
        Notice::CannotExecute(command, reason)
    } else {
        Notice::CannotRun(command, reason)
    });
}

/// Reports the signal that ended a program, as [`exit_code`] does.
pub fn report_signal(status: ExitStatus, command: &BStr, events: &dyn Events) {
    exit_code(status, command, events);
}

/// Returns the exit code that a shell would report. Prints the signal that ended the program,
/// except signals that the user or the reader of the output may have sent.
pub fn exit_code(status: ExitStatus, command: &BStr, events: &dyn Events) -> u8 {
    let Some(signal) = status.signal() else { return status.code().map_or(1, |code| code as u8) };
    if ![SIGINT, SIGQUIT, SIGPIPE].contains(&signal) {
        events.notice(Notice::DiedOfSignal(command.to_owned(), signal));
    }
    u8::try_from(128 + signal).unwrap_or(1)
}

/// Returns the commands configured for `event`. The shim ensures that there is at most one.
pub fn configured(repo: &Repository, event: &str) -> Vec<BString> {
    let names = repo.config_names().filter_map(|key| key.strip_prefix(b"hook.")?.strip_suffix(b".event"));
    let names = names.filter_map(|name| name.to_str().ok());
    let is_off = |name: &str| matches!(repo.config(&keys::hook::ENABLED.of(name)), Ok(false));
    let meant = names.filter(|name| {
        let events = repo.config_all(&keys::hook::EVENT.of(name));
        events.iter().any(|value| value == event) && !is_off(name)
    });
    let commands = meant.filter_map(|name| repo.config_str(&keys::hook::COMMAND.of(name)));
    if is_off(event) { Vec::new() } else { commands.collect() }
}

/// The environment of the hooks of a commit.
#[derive(Clone, Copy)]
pub struct CommitHooks<'a> {
    /// Variables in addition to those that every child program gets.
    pub variables: &'a [(&'static str, BString)],
    /// The file that holds the index of the commit.
    pub index: &'a Path,
    /// True if no editor opens the message.
    pub no_editor: bool,
    /// True if none of the hooks before the commit exists: [`CommitHooks::run_before`] looks for
    /// none.
    pub none_before: bool,
}

impl CommitHooks<'_> {
    /// Returns all variables that these hooks get in addition.
    pub fn variables(&self) -> Vec<(&'static str, BString)> {
        let mut variables = self.variables.to_vec();
        variables.push(("GIT_INDEX_FILE", self.index.as_os_str().as_bytes().into()));
        if self.no_editor {
            variables.push(("GIT_EDITOR", ":".into()));
        }
        variables
    }

    /// Runs a hook. Returns its exit code, 0 without a hook.
    pub fn run(&self, context: Context<'_>, name: &str, args: &[String]) -> Result<u8, Error> {
        Hooks { variables: self.variables(), ..Hooks::new(context) }.run(name, args)
    }

    /// Runs one of the hooks before the commit. Returns its exit code; `None` without a hook.
    pub fn run_before(&self, context: Context<'_>, name: &str, args: &[String]) -> Result<Option<u8>, Error> {
        if self.none_before {
            return Ok(None);
        }
        Hooks { variables: self.variables(), ..Hooks::new(context) }.run_any(name, args)
    }

    /// Runs `post-rewrite` after a commit has replaced another one. Its exit code has no effect.
    pub fn post_rewrite(&self, context: Context<'_>, old: ObjectId, new: ObjectId) -> Result<(), Error> {
        let input = format!("{old} {new}\n").into_bytes();
        let hooks = Hooks { variables: self.variables.to_vec(), input, ..Hooks::new(context) };
        hooks.run("post-rewrite", &["amend".to_owned()]).map(drop)
    }
}

/// Returns true if a hook called `name` would run.
pub fn exists(context: Context<'_>, name: &str) -> Result<bool, Error> {
    Ok(!configured(context.repo, name).is_empty() || Hooks::new(context).in_directory(name)?.is_some())
}

struct Hooks<'a> {
    context: Context<'a>,
    /// The directory to run in: the root of the worktree, or of a new one.
    dir: &'a Path,
    variables: Vec<(&'static str, BString)>,
    /// The bytes for their standard input.
    input: Vec<u8>,
}

impl<'a> Hooks<'a> {
    fn new(context: Context<'a>) -> Self {
        Hooks { context, dir: context.repo.child_dir(), variables: Vec::new(), input: Vec::new() }
    }

    /// Like [`Hooks::run_any`]. Returns 0 without a hook.
    fn run(&self, name: &str, args: &[String]) -> Result<u8, Error> {
        Ok(self.run_any(name, args)?.unwrap_or(0))
    }

    /// Runs all hooks of this name and combines their exit codes. Stops at a hook that cannot be
    /// started. Returns `None` without a hook.
    fn run_any(&self, name: &str, args: &[String]) -> Result<Option<u8>, Error> {
        let mut commands: Vec<(Command, BString)> = configured(self.context.repo, name)
            .into_iter()
            .map(|command| (in_a_shell(command.as_bstr(), args), command))
            .collect();
        if let Some(path) = self.in_directory(name)? {
            commands.push((Command::new(&path), path.as_os_str().as_bytes().into()));
        }
        let mut code: Option<u8> = None;
        for (command, shown) in commands {
            self.context.events.before_program();
            let before = code.unwrap_or(0);
            match started(command, |command| self.finished(self.variant(command).args(args))) {
                Ok(status) => code = Some(before | exit_code(status, shown.as_bstr(), self.context.events)),
                Err(error) => {
                    not_started(shown.as_bstr(), &error, self.context.events);
                    return Ok(Some(before | 1));
                }
            }
        }
        Ok(code)
    }

    /// Runs a hook and waits for it. A hook need not read its input.
    fn finished(&self, command: &mut Command) -> io::Result<ExitStatus> {
        if self.input.is_empty() {
            return command.status();
        }
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = io::Write::write_all(&mut stdin, &self.input);
        }
        child.wait()
    }

    fn is_elsewhere(&self) -> bool {
        self.dir != self.context.repo.child_dir()
    }

    /// Returns the executable hook in the hooks directory, with its path relative to the directory
    /// that it runs in.
    fn in_directory(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let path = match self.context.repo.config_path(&keys::core::HOOKS_PATH)? {
            // An empty string names no directory, and therefore no hook: nothing in the worktree is
            // run.
            Some(dir) if dir.as_bytes().is_empty() => return Ok(None),
            Some(dir) => dir.with(name),
            None => self.context.repo.display_common_file("hooks").join(name).into(),
        };
        let Ok(place) = path.resolve(self.context.repo.child_dir()) else { return Ok(None) };
        match by_path::may_be_run(&place) {
            Ok(()) => Ok(Some(if self.is_elsewhere() { place } else { PathBuf::from(path.as_os_str()) })),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                if self.context.advises(keys::advice::IGNORED_HOOK)? {
                    self.context.events.notice(Notice::IgnoredHook(path.to_string()));
                }
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    /// Sets the directory and environment as Git does.
    fn variant<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.dir)
            .env_clear()
            .envs(self.context.repo.child_env())
            .envs(self.variables.iter().map(|(name, value)| (name, sys::os_str(value))))
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        if self.is_elsewhere() {
            command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        }
        command
    }
}

/// Runs `command`, which may change something. A file that the kernel cannot execute is run as a
/// shell script, as in Git.
pub fn started<T>(command: Command, run: impl Fn(&mut Command) -> io::Result<T>) -> io::Result<T> {
    sys::changes::note();
    start(command, run)
}

fn start<T>(mut command: Command, run: impl Fn(&mut Command) -> io::Result<T>) -> io::Result<T> {
    const EXEC_FORMAT_ERROR: i32 = 8;
    sys::interrupt::install();
    match run(&mut command) {
        Err(error) if error.raw_os_error() == Some(EXEC_FORMAT_ERROR) => {
            run(Command::new("/bin/sh").arg(command.get_program()))
        }
        result => result,
    }
}

/// Returns a configured command as Git starts it: directly if it is one word, else in a shell that
/// passes the arguments on.
pub fn in_a_shell(text: &BStr, args: &[String]) -> Command {
    let bytes = sys::os_str(text);
    if !text.iter().any(|byte| b"|&;<>()$`\\\"' \t\n*?[#~=%".contains(byte)) {
        return Command::new(bytes);
    }
    let mut command = Command::new("/bin/sh");
    let script = if args.is_empty() { text.to_owned() } else { text!(text, " \"$@\"") };
    command.arg("-c").arg(sys::os_str(&script)).arg(bytes);
    command
}
