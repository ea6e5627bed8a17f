//! Shared code of commands that write files for a whole object directory: a subcommand that options
//! may precede, and `--object-dir`.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sys::by_path;

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

/// An object directory.
#[derive(Clone, Debug)]
pub(super) struct ObjectDir {
    /// The absolute path.
    pub(super) path: PathBuf,
    /// Its path in messages.
    pub(super) shown: PathBuf,
    /// True for the repository's own directory, or one of its alternates.
    pub(super) is_of_repository: bool,
}

/// Returns the object directory that `--object-dir` names, or the repository's own.
pub(super) fn object_dir(
    run: &Invocation,
    repo: &Repository,
    given: Option<&BStr>,
) -> Result<ObjectDir, Failure> {
    let own = ObjectDir {
        path: repo.objects_dir().to_owned(),
        shown: repo.display_objects_dir(),
        is_of_repository: true,
    };
    let Some(given) = given else { return Ok(own) };
    let named = run.path(given)?;
    let real = |path: &Path| by_path::realpath(path).ok();
    let path = by_path::realpath(&named)
        .map_err(|error| Failure::fatal(format!("Invalid path '{given}': {}", os_error(&error))))?;
    if real(&own.path).is_some_and(|own| own == path) {
        return Ok(own);
    }
    let found = repo.objects().directories().skip(1).find(|dir| real(dir).is_some_and(|dir| dir == path));
    Ok(match found {
        Some(dir) => ObjectDir { path: dir.clone(), shown: dir.clone(), is_of_repository: true },
        None => ObjectDir { shown: path.clone(), path, is_of_repository: false },
    })
}
