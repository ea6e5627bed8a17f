//! `stash push`: saves the changes in a stash, and resets the worktree to HEAD.

use bstr::BString;
use sapwood::{
    Error, StashError,
    stash::push::{self, Objects, Prepared, Reason, Stash},
};

use super::{
    common::{no_commit_yet, open},
    options::{Request, Untracked},
};
use crate::{
    commands::paths,
    session::{Session, invocation::Invocation},
    term::{
        args::{Parsed, Set},
        console::{self, text},
        failure::Failure,
    },
};

/// Runs a parsed command line. Returns the exit code.
pub(super) fn run(run: &Invocation, parsed: Parsed<Set<Request>>) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = parsed.store(&mut request)?;
    let paths = rest.strip_prefix(&[BString::from("--")]).unwrap_or(&rest);
    push(run, request, paths)
}

/// Stashes the changes of these paths, or of all. Returns the exit code.
pub(super) fn push(run: &Invocation, request: Request, paths: &[BString]) -> Result<u8, Failure> {
    let (repo, settings) = open(run)?;
    let apart = request.staged.then_some("--staged");
    let pathspecs = request.pathspec_file.or(paths::parse(run, &repo, paths)?, apart, run, &repo)?;
    if request.staged && request.untracked != Untracked::Stay {
        console::eprint_line("Can't use --staged and --include-untracked or --all at the same time");
        return Ok(1);
    }
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let Request { keep_index, staged, quiet, untracked, message, .. } = request;
    let request = push::Request {
        pathspecs,
        untracked,
        staged,
        keep_index,
        message,
        keep: run.original_cwd(&repo),
        reflog_action: run.variable("GIT_REFLOG_ACTION").map(Into::into),
    };
    match push::prepare(session.context(run), Objects::new(&repo, &settings), request)? {
        Prepared::Nothing(nothing) => {
            let reason = nothing.reason;
            nothing.finish()?;
            Ok(report_nothing(reason, quiet))
        }
        Prepared::Stash(stash) => save(*stash, quiet),
    }
}

/// Prints why there is nothing to stash. Returns the exit code.
fn report_nothing(reason: Reason, quiet: bool) -> u8 {
    match reason {
        Reason::NoCommit => return no_commit_yet(quiet),
        Reason::NoChanges if !quiet => console::out("No local changes to save"),
        Reason::NothingStaged if !quiet => console::eprint_line("No staged changes"),
        Reason::NoChanges | Reason::NothingStaged => {}
    }
    u8::from(reason == Reason::NothingStaged)
}

/// Records the entry and resets the worktree. Returns the exit code.
fn save(stash: Stash<'_, '_>, quiet: bool) -> Result<u8, Failure> {
    let mut steps = stash.record().map_err(|error| not_recorded(error, quiet))?;
    if !quiet {
        console::out(text!("Saved working directory and index state ", steps.saved().message));
    }
    if !steps.remove_untracked()? {
        return Ok(1);
    }
    let cleaned = steps.remove_directories();
    if matches!(cleaned, Ok(true)) {
        console::out("Refusing to remove current working directory");
    }
    let code = u8::from(!steps.reset()?);
    cleaned?;
    Ok(code)
}

/// Returns the failure of an entry that is not recorded. With `--quiet` Git hides the last line.
fn not_recorded(error: Error, quiet: bool) -> Failure {
    match error {
        Error::Stash(error) if quiet => match *error {
            StashError::NotRecorded(source) => {
                console::error(source.to_string());
                Failure::Reported(1).advised(source.advice())
            }
            error => Error::from(error).into(),
        },
        error => error.into(),
    }
}
