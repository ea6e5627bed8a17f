//! Shared code of the subcommands.

use bstr::BStr;
use engine::{look::LookError, stash};
use format::ObjectId;
use repo::Repository;

use crate::{
    session::{
        Session,
        invocation::{Invocation, Program},
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::failure::Failure,
};

/// The ref of the stash. Its reflog contains the entries.
pub(super) const STASH: &str = "refs/stash";

/// Opens the repository of a subcommand. Git requires a worktree for all of them.
pub(super) fn open(run: &Invocation) -> Result<(Repository, Settings), Failure> {
    let repo = run.open()?;
    if repo.work_tree().is_none() {
        return Err(Failure::no_worktree());
    }
    refused::check(&repo, &[Reader::Plumbing, Reader::Refs, Reader::Hooks])?;
    let settings = Settings::read(run, &repo)?.for_recording();
    Ok((repo, settings))
}

/// Returns the newest entry, if any.
pub(super) fn newest(repo: &Repository) -> Result<Option<ObjectId>, Failure> {
    Ok(repo.find_ref(BStr::new(STASH))?)
}

/// Returns the failure for an error before anything was changed. Called as `git`, the command is
/// handed over to the real Git, which prints its error or does what sapwood does not support.
pub(super) fn failure_before_changes(session: Session<'_>, error: stash::Error) -> Failure {
    match error {
        stash::Error::Unsupported(what) | stash::Error::Look(LookError::Unsupported(what)) => {
            Failure::Unserved(what)
        }
        _ if session.invocation.program == Program::Git => Failure::Unserved("changes that cannot be read"),
        error => Failure::fatal(error.to_string()),
    }
}
