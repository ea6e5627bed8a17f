//! Shared code of commands that write files for a whole object directory: a subcommand that options
//! may precede, and `--object-dir`.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::object_files::ObjectDir;

use super::{
    obstacles::{grafts, partial},
    reason::Reason,
    record::Candidate,
};
use crate::{
    session::invocation::Invocation,
    term::{args::Survey, failure::Failure, text::os_error},
};

/// Returns a reason for a word that is not a subcommand in `served`, and for options of another
/// subcommand. Options that all subcommands share may precede the word.
pub(super) fn subcommand(
    survey: &Survey,
    args: &[BString],
    served: &[&str],
    options: fn(&str) -> &'static [&'static str],
) -> Option<Reason> {
    let name = match &survey.rest[..] {
        [name] if served.iter().any(|served| name == served) => name.to_str_lossy(),
        [name] => return Some(Reason::CommandLine(format!("subcommand '{name}'"))),
        _ => return Some(Reason::command_line("a wrong number of arguments")),
    };
    let at = args.iter().position(|arg| **arg == *name.as_bytes())?;
    let is_shared =
        |arg: &BString| arg.starts_with(b"--object-dir=") || arg == "--progress" || arg == "--no-progress";
    if !args[..at].iter().all(is_shared) {
        return Some(Reason::command_line("options before the subcommand"));
    }
    let is_known = |name: &str| {
        matches!(name, "--object-dir" | "--progress") || options(name_of(survey)).contains(&name)
    };
    let foreign = survey.options.iter().find(|given| !is_known(given.name));
    foreign.map(|given| Reason::Option(given.name.to_owned()))
}

/// Returns the subcommand of a command line that [`subcommand`] accepts.
fn name_of(survey: &Survey) -> &str {
    survey.rest.first().and_then(|name| name.to_str().ok()).unwrap_or_default()
}

/// Detects partial clones and grafts.
pub(super) fn repository(candidate: &Candidate<'_>) -> Vec<Reason> {
    let mut found = partial(candidate.repo());
    found.extend(grafts(candidate.repo()));
    found
}

/// Returns the object directory that `--object-dir` names, or the repository's own.
pub(super) fn object_dir(
    run: &Invocation,
    repo: &Repository,
    given: Option<&BStr>,
) -> Result<ObjectDir, Failure> {
    let Some(given) = given else { return Ok(ObjectDir::own(repo)) };
    ObjectDir::named(repo, &run.path(given)?)
        .map_err(|error| Failure::fatal(format!("Invalid path '{given}': {}", os_error(&error))))
}
