//! Native or not: a function of the command line, the configuration and the repository.
//!
//! Order, cheapest first: the command's name (and, if Git has no such command, what it is an alias
//! of); the options and arguments; the configuration; the files; what the arguments mean; the index.
//! Nothing is printed or changed, and nothing is read from the standard input.

use bstr::{BStr, BString, ByteSlice as _};
use engine::clone::Kind;
use repo::Repository;
use sys::by_path;

use super::{
    Reason, obstacles,
    scope::{self, First, Scope},
    submodules, worktree,
};
use crate::{
    commands,
    git::{self, RealGit},
    session::{invocation::Invocation, submodules::asked},
    term::{args::Survey, failure::Failure},
};

/// `Ok` if the command is native in full. An alias in `run` is replaced by what it stands for, and the
/// repository is left open in it.
pub(super) fn decide(run: &mut Invocation, git: Option<&RealGit>) -> Result<(), Reason> {
    if run.paginate {
        return Err(Reason::Option("--paginate".into()));
    }
    let scope = match scope::of(run.command.as_bstr(), &run.args) {
        Some(scope) => scope,
        None if run.command.is_empty() => return Err(Reason::command_line("no command")),
        None if git::builtins::is_builtin(&run.command) => return Err(unknown(run)),
        None => alias(run, git)?,
    };
    let survey = commands::survey(run.command.as_bstr(), &run.args).ok_or_else(|| unknown(run))?;
    let survey = survey.map_err(|_| Reason::command_line("a wrong or a help option"))?;
    if let Some(reason) = scope.obstacle(&survey) {
        return Err(reason);
    }
    if scope.command == "ls-files" && commands::ls_files::is_handed_over(&run.args) {
        return Err(Reason::command_line("options or values that do not go together"));
    }
    match scope.first {
        First::Repository => clone(run, &survey),
        First::Revision | First::Path => in_a_repository(run, scope, &survey),
        First::Worktree => worktree::decide(run, scope, &survey),
    }
}

fn unknown(run: &Invocation) -> Reason {
    Reason::Command(run.command.to_string())
}

/// Replaces an alias that is nothing but a native command and some arguments. Programs called
/// `git-<name>` come before it, as with Git; whatever needs quotes, a shell or a second look is Git's.
fn alias(run: &mut Invocation, git: Option<&RealGit>) -> Result<&'static Scope, Reason> {
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
    // The newer spelling, `[alias "name"] command = ...`, is left to Git, which knows which one counts.
    let has_other = repo.config_names().any(|key| {
        key.strip_prefix(b"alias.")
            .is_some_and(|rest| rest.eq_ignore_ascii_case(format!("{name}.command").as_bytes()))
    });
    let value = repo.config_str(&format!("alias.{name}"));
    run.opened.set(Some(repo));
    let value = value.filter(|_| !has_other).ok_or_else(|| unknown(run))?;
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"'\"\\!".contains(byte) || b" \t".contains(byte);
    if !value.iter().all(plain) {
        return Err(Reason::command_line(format!("alias '{name}' is more than a command and plain words")));
    }
    let mut words = value.fields().map(BString::from);
    let command = words.next().unwrap_or_default();
    let args: Vec<BString> = words.chain(run.args.iter().cloned()).collect();
    let scope = scope::of(command.as_bstr(), &args)
        .ok_or_else(|| Reason::command_line(format!("alias '{name}' of '{value}'")))?;
    run.command = command;
    run.args = args;
    Ok(scope)
}

fn in_a_repository(run: &mut Invocation, scope: &Scope, survey: &Survey) -> Result<(), Reason> {
    // What cannot be opened Git refuses in its own words, or opens.
    let repo = open(run)?;
    first(obstacles::settings(scope.command, &repo, &run.env))?;
    if scope.command == "status" {
        first(obstacles::files_of_readers(&repo))?;
    } else if !obstacles::LOOKING.contains(&scope.command) {
        first(obstacles::files(&repo))?;
    }
    first(obstacles::place(scope.command, &repo))?;
    first(scope.obstacle_in(&repo, survey).into_iter().collect())?;
    scope.words(survey).try_for_each(|word| unambiguous(&repo, word))?;
    scope.words(survey).try_for_each(|word| known(&repo, word))?;
    if let Some(dress) = commands::diff::Dress::of(scope.command)
        && let Some(what) = commands::diff::obstacle(run, &repo, dress, &run.args)
    {
        return Err(Reason::command_line(what));
    }
    let asked = asked(survey).ok().flatten();
    first(obstacles::index(scope.command, &repo, &run.env))?;
    let merges = |arg: &BString| arg == "-m" || arg.starts_with(b"--reset") || arg.starts_with(b"--prefix");
    if scope.command == "read-tree" && !run.args.iter().any(merges) {
        // Git fetches what trees that are laid over each other hold: it makes sure that their union can be a tree.
        first(obstacles::partial(&repo))?;
    }
    if scope.command == "status"
        && let Some(reason) = commands::status::obstacle(run, &repo)
    {
        return Err(reason);
    }
    let lists_submodules = scope.command == "ls-files" && asked == Some(true);
    if lists_submodules {
        first(submodules::listed(&repo, &run.env))?;
    }
    if survey.options.iter().any(|given| given.name == "--with-tree") {
        first(obstacles::partial(&repo))?;
    }
    let recurses = submodules::go_along(scope.command, asked, &repo)?;
    if recurses {
        first(submodules::recursion(&repo, &run.env))?;
    }
    if let Some(name) = scope.merged_with(survey) {
        // Planning may have to fetch, and nothing is fetched before it is decided.
        first(obstacles::partial(&repo))?;
        if recurses {
            return Err(Reason::command_line("'--merge' with submodules that go along"));
        }
        mergeless(run, name)?;
    }
    run.opened.set(Some(repo));
    Ok(())
}

/// Opens the repository, unless that is worth a warning.
pub(super) fn open(run: &Invocation) -> Result<Repository, Reason> {
    let opened = run.opened.take().map_or_else(|| run.look_for_repository(), Ok);
    let repo = opened.map_err(|failure| Reason::repository(refusal(&failure)))?;
    first(obstacles::warnings(&repo))?;
    Ok(repo)
}

/// Its first line, without where to read more.
pub(super) fn refusal(failure: &Failure) -> String {
    match failure {
        Failure::Fatal(message) => {
            let message = message.to_str_lossy();
            let line = message.lines().next().unwrap_or_default();
            line.split(" (see ").next().unwrap_or_default().to_owned()
        }
        Failure::Warned(_, failure) => refusal(failure),
        _ => "the repository cannot be opened".to_owned(),
    }
}

pub(super) fn first(reasons: Vec<Reason>) -> Result<(), Reason> {
    reasons.into_iter().next().map_or(Ok(()), Err)
}

/// `-m` with nothing to merge is a plain switch. Whether it is, is planned in a repository opened for that
/// alone: what the command has to say it says once.
fn mergeless(run: &Invocation, name: &BStr) -> Result<(), Reason> {
    let looked = run.open().and_then(|repo| commands::branch::needs_a_merge(run, &repo, name));
    match looked {
        Ok(Some(false)) => Ok(()),
        Ok(Some(true)) => Err(Reason::repository("local changes have to be merged")),
        Ok(None) => Err(Reason::command_line("'--merge' with what may be no commit")),
        Err(_) => Err(Reason::repository("it cannot be told whether there is something to merge")),
    }
}

/// Git lists the objects that a short name may mean.
pub(super) fn unambiguous(repo: &Repository, word: &BStr) -> Result<(), Reason> {
    let end = word.iter().position(|byte| b"^~:".contains(byte)).unwrap_or(word.len());
    let end = word[..end].find("@{").filter(|&at| at > 0).unwrap_or(end);
    let base = word[..end].as_bstr();
    if base.is_empty() || base == "-" || base == "@" || base.starts_with(b"@{") {
        return Ok(());
    }
    let short = (4..repo.hash().hex_len()).contains(&base.len()) && base.iter().all(u8::is_ascii_hexdigit);
    if short && repo.resolve(base).is_err() {
        return Err(Reason::repository(format!("'{base}' may be more than one object")));
    }
    Ok(())
}

/// What begins with a colon is an entry of the index, a message's text, or a pathspec. If it names nothing, Git says what
/// may have been meant.
fn known(repo: &Repository, word: &BStr) -> Result<(), Reason> {
    let Some(rest) = word.strip_prefix(b":") else { return Ok(()) };
    // Git's regular expressions are not ours.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-,'".contains(byte);
    if rest.strip_prefix(b"/").is_some_and(|text| !text.iter().all(is_plain)) {
        return Err(Reason::command_line("a pattern for messages"));
    }
    match repo.resolve(word) {
        Ok(Some(_)) => Ok(()),
        _ => Err(Reason::repository(format!("'{word}' may be no object"))),
    }
}

/// Only from a repository that is plainly there, and another's business in no way; and only to a place
/// where nothing is. What Git refuses right away is refused here.
fn clone(run: &Invocation, survey: &Survey) -> Result<(), Reason> {
    if !(1..=2).contains(&survey.rest.len()) {
        return Err(Reason::command_line("a wrong number of arguments"));
    }
    let given = |name: &'static str| survey.options.iter().filter(move |given| given.name == name);
    if let Some(setting) = given("--config")
        .filter_map(|given| given.value.as_ref())
        .find(|value| obstacles::counts(value.as_bstr()))
    {
        return Err(Reason::Setting(setting.to_string()));
    }
    let outside = repo::Outside::load(&run.outside()).map_err(|error| Reason::repository(error.message))?;
    first(obstacles::settings("clone", &outside, &run.env))?;
    let looked = commands::clone::look(run).map_err(|failure| Reason::repository(refusal(&failure)))?;
    let Some(prepared) = looked else { return Ok(()) };
    let parameters: Vec<_> = given("--config").filter_map(|given| given.value.as_ref()).collect();
    first(obstacles::remote(&prepared.remote(&outside), &outside, &parameters))?;
    if given("--shallow-since").next().is_some() && !prepared.copies_files() {
        return Err(Reason::Option("--shallow-since".into()));
    }
    match &prepared.source().kind {
        Kind::Repository { git_dir } => {
            let source = Repository::open_source(&run.outside(), git_dir)
                .map_err(|error| Reason::repository(error.message))?;
            first(obstacles::source(&source))?;
        }
        Kind::File { .. } => {}
        Kind::Bundle { path } if engine::clone::is_complete_bundle(path) => {}
        Kind::Bundle { .. } => return Err(Reason::repository("the bundle needs commits that it lacks")),
    }
    if prepared.copies_files() {
        if given("--upload-pack").next().is_some() {
            return Err(Reason::Option("--upload-pack".into()));
        }
    } else {
        first(obstacles::transport(&outside, &parameters))?;
        // Objects that are there are not asked for again; and progress is counted in another way.
        let others = ["--reference", "--reference-if-able", "--progress"];
        if let Some(name) = others.into_iter().find(|&name| given(name).next().is_some()) {
            return Err(Reason::Option(name.into()));
        }
    }
    let template = prepared.template().map_err(|error| Reason::repository(error.to_string()))?;
    first(template.map_or_else(Vec::new, |dir| obstacles::template(&dir)))?;
    for place in prepared.work_tree().into_iter().chain([prepared.git_dir()]) {
        if by_path::list(place).is_ok_and(|names| !names.is_empty()) {
            return Err(Reason::repository(format!("'{}' is not empty", prepared.directory())));
        }
    }
    Ok(())
}

/// Whether Git would show hints in colour here: a terminal that has some. The native commands do not
/// ask for `color.ui`, and leave `color.advice` to Git.
pub(super) fn colours_hints(run: &Invocation) -> bool {
    use std::io::IsTerminal as _;
    std::io::stderr().is_terminal() && !matches!(run.variable("TERM"), None | Some(b"dumb"))
}
