//! Unlocking a worktree.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::unlock};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = unlock::Request { worktree: "../disk".into() };
//! unlock::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fmt, path::PathBuf};

use bstr::ByteSlice as _;
use engine::{workspace::record::LOCK_REASON, worktree::admin};
use sys::by_path;

use super::{
    lock::Lock,
    records::{Given, Worktrees, lock_reason},
};
use crate::{Error, Events, Notice, PlanError, Repository, RunError, text};

/// The worktree to unlock.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its directory, relative to that from which the repository was opened, or the end of its
    /// path.
    pub worktree: PathBuf,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the worktree.
    pub path: PathBuf,
    /// False if the lock could not be removed. A notice says why.
    pub is_complete: bool,
}

/// A worktree that can be unlocked.
pub struct Plan<'r> {
    repository: &'r Repository,
    lock: Lock,
}

/// Finds the worktree. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let given = Given::of(repository, &request.worktree)?;
    let all = worktrees.repo.worktrees().map_err(Error::from)?;
    let worktree = worktrees.find(&all, given.shown.as_bstr(), Some(&given.path))?;
    let lock = Lock::of(worktree, given.shown.as_bstr())?;
    lock.check_locked()?;
    Ok(Plan { repository, lock })
}

impl Plan<'_> {
    /// Unlocks the worktree, if it is still locked.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        self.lock.check_locked()?;
        let is_complete = self.lock.remove(&worktrees)?;
        Ok(Report { path: self.lock.worktree.path, is_complete })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unlock worktree '{}'", self.lock.worktree.path.display())
    }
}

impl Lock {
    /// Returns an error if the worktree is not locked.
    pub fn check_locked(&self) -> Result<(), Error> {
        match lock_reason(&self.worktree)? {
            None => Err(Error::Failed(text!("'", self.shown, "' is not locked"))),
            Some(_) => Ok(()),
        }
    }

    /// Unlocks the worktree. The lock that keeps the real Git from pruning an unmounted workspace
    /// stays. Returns false if the lock could not be removed; the reason was reported.
    pub fn remove(&self, worktrees: &Worktrees<'_>) -> Result<bool, Error> {
        let Lock { worktree, .. } = self;
        let file = worktree.git_dir.join("locked");
        if worktrees.workspace(worktree)?.is_some() {
            admin::write(&file, LOCK_REASON.as_bytes())?;
            return Ok(true);
        }
        if let Err(error) = by_path::remove_file(&file) {
            let id = worktree.id.as_ref().expect("the main worktree was refused");
            let path = text!(worktrees.admin_shown(id), "/locked");
            let reason = sys::reason(&error).to_string();
            worktrees.events.notice(Notice::NotUnlinked { path, reason });
            return Ok(false);
        }
        Ok(true)
    }
}
