//! Locking a worktree: Git does not prune, move or remove it.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::lock};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = lock::Request { worktree: "../disk".into(), reason: "not plugged in".into() };
//! lock::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fmt, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::worktree::admin;
use repo::Worktree;

use super::records::{Given, Worktrees, lock_reason};
use crate::{Error, Events, PlanError, Repository, RunError, text};

/// The worktree to lock.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its directory, relative to that from which the repository was opened, or the end of its
    /// path.
    pub worktree: PathBuf,
    /// The reason, which may be empty.
    pub reason: BString,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the worktree.
    pub path: PathBuf,
}

/// A worktree that can be locked.
#[derive(Debug)]
pub struct Plan {
    lock: Lock,
    reason: BString,
}

/// Finds the worktree. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let given = Given::of(repository, &request.worktree)?;
    let all = worktrees.repo.worktrees().map_err(Error::from)?;
    let worktree = worktrees.find(&all, given.shown.as_bstr(), Some(&given.path))?;
    let lock = Lock::of(worktree, given.shown.as_bstr())?;
    lock.check()?;
    Ok(Plan { lock, reason: request.reason })
}

impl Plan {
    /// Locks the worktree, if it is not locked by now.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        self.lock.check()?;
        self.lock.write(self.reason.as_bstr())?;
        Ok(Report { path: self.lock.worktree.path })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lock worktree '{}'", self.lock.worktree.path.display())
    }
}

/// A worktree that can have a lock, so not the main one.
#[derive(Debug)]
pub struct Lock {
    pub(super) worktree: Worktree,
    pub(super) shown: BString,
}

impl Lock {
    /// Returns an error for the main worktree.
    pub fn of(worktree: Worktree, shown: &BStr) -> Result<Lock, Error> {
        if worktree.id.is_none() {
            return Err(Error::failed("The main working tree cannot be locked or unlocked"));
        }
        Ok(Lock { worktree, shown: shown.to_owned() })
    }

    /// Returns an error if the worktree is locked.
    pub fn check(&self) -> Result<(), Error> {
        match lock_reason(&self.worktree)? {
            Some(reason) if reason.is_empty() => {
                Err(Error::Failed(text!("'", self.shown, "' is already locked")))
            }
            Some(reason) => {
                Err(Error::Failed(text!("'", self.shown, "' is already locked, reason: ", reason)))
            }
            None => Ok(()),
        }
    }

    /// Locks the worktree.
    pub fn write(&self, reason: &BStr) -> Result<(), Error> {
        Ok(admin::write(&self.worktree.git_dir.join("locked"), reason)?)
    }
}
