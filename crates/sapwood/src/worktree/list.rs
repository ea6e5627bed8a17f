//! The worktrees of a repository.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::list};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! for found in list::plan(&repository, list::Request::default())?.run(&Silent)?.worktrees {
//!     println!("{}", found.worktree.path.display());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use bstr::BString;
pub use engine::worktree::prune::Expire;
use repo::Repository;
pub use repo::{Worktree, WorktreeHead, WorktreeHeadKind};

use super::records::{lock_reason, prune_reason};
use crate::{
    Error, Events, PlanError, RunError,
    settings::refused::{self, Reader},
};

/// The options of a list.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The age from which a worktree that is gone counts as prunable.
    pub expire: Expire,
}

impl Default for Request {
    fn default() -> Request {
        Request { expire: Expire::Now }
    }
}

/// One worktree.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its places.
    pub worktree: Worktree,
    /// Its HEAD.
    pub head: WorktreeHead,
    /// The reason of its lock, which may be empty; `None` if it is not locked.
    pub locked: Option<BString>,
    /// The reason why it can be forgotten; `None` if it must be kept.
    pub prunable: Option<String>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The main worktree, then the others in the order of their paths.
    pub worktrees: Vec<Found>,
}

/// A list that is complete.
#[derive(Clone, Debug)]
pub struct Plan(Report);

/// Examines the worktrees. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan, PlanError> {
    Ok(Plan(examine(&repository.inner, request)?))
}

impl Plan {
    /// Returns the worktrees.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        Ok(self.0)
    }
}

/// Examines the worktrees.
pub fn examine(repo: &Repository, request: Request) -> Result<Report, Error> {
    refused::check(repo, &[Reader::Every, Reader::Refs])?;
    let mut worktrees = repo.worktrees()?;
    worktrees[1..].sort_by(|one, other| one.path.as_os_str().cmp(other.path.as_os_str()));
    let found = |worktree: Worktree| -> Result<Found, Error> {
        Ok(Found {
            head: repo.head_of(&worktree),
            locked: lock_reason(&worktree)?,
            prunable: prune_reason(&worktree, repo.common_dir(), request.expire),
            worktree,
        })
    };
    Ok(Report { worktrees: worktrees.into_iter().map(found).collect::<Result<_, _>>()? })
}
