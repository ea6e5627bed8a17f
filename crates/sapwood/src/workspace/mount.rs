//! Mounting a workspace: its files become visible. A move or rebase of it that was killed is
//! completed first.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::mount};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! mount::plan(&repository, mount::Request { name: "agent-1".into() })?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use bstr::{BString, ByteSlice as _};
pub use engine::workspace::backend::Mounted;
use engine::workspace::record::Workspace;

use super::{mounts, relocate};
use crate::{
    Error, Events, PlanError, Repository, RunError, locks, settings::Settings, worktree::records::Worktrees,
};

/// The workspace to mount.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its name.
    pub name: BString,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where the files are visible now.
    pub mounted: Mounted,
}

/// A workspace that can be mounted.
pub struct Plan<'r> {
    repository: &'r Repository,
    workspace: Workspace,
}

/// Finds the workspace. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let workspace = super::find(&worktrees, request.name.as_bstr())?;
    workspace.refuse_begun().map_err(Error::from)?;
    mounts::refuse_frozen(&workspace)?;
    Ok(Plan { repository, workspace })
}

impl Plan<'_> {
    /// Mounts the workspace, unless it is mounted.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let workspace = mount(&worktrees, &self.repository.settings, &self.workspace)?;
        Ok(Report { mounted: mounts::state(&workspace)? })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "mount workspace '{}'", self.workspace.name.display())
    }
}

/// Mounts a workspace. Returns its record, which the completion of a killed command may have
/// changed.
pub fn mount(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<Workspace, Error> {
    workspace.refuse_begun()?;
    let _lock = workspace.lock(&worktrees.repo.trust())?;
    let workspace = relocate::recover(worktrees, settings, workspace)?;
    workspace.refuse_begun()?;
    mounts::mount(worktrees, &workspace)?;
    Ok(workspace)
}
