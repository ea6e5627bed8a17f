//! Unmounting a workspace: its files are no longer visible, and its changes stay.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::unmount};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! unmount::plan(&repository, unmount::Request { name: "agent-1".into() })?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use bstr::{BString, ByteSlice as _};
use engine::workspace::record::{self, Workspace};

use super::mounts;
use crate::{Error, Events, PlanError, Repository, RunError, locks, worktree::records::Worktrees};

/// The workspace to unmount.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its name.
    pub name: BString,
}

/// The result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// False if the directory itself has the files, so that they stay visible.
    pub is_unmounted: bool,
}

/// A workspace that can be unmounted, unless a process uses it.
pub struct Plan<'r> {
    repository: &'r Repository,
    workspace: Workspace,
}

/// Finds the workspace. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let workspace = super::find(&worktrees, request.name.as_bstr())?;
    Ok(Plan { repository, workspace })
}

impl Plan<'_> {
    /// Unmounts the workspace, if it is mounted.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        unmount(&worktrees, &self.workspace)?;
        Ok(Report { is_unmounted: self.workspace.record.backend.has_upper() })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unmount workspace '{}'", self.workspace.name.display())
    }
}

/// Unmounts a workspace.
pub fn unmount(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    workspace.refuse_begun()?;
    let _lock = workspace.lock(&worktrees.repo.trust())?;
    // Another command may have changed the record before this one got the lock.
    let workspace = record::find(&worktrees.common, &workspace.name)?;
    workspace.refuse_begun()?;
    mounts::unmount(worktrees, &workspace)
}
