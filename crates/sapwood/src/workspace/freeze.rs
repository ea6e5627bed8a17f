//! Freezing and thawing a workspace.
//!
//! A frozen workspace cannot be mounted and runs no process, so nothing changes it by accident. It
//! keeps its branch and its changes.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::freeze};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = freeze::Request { name: "agent-1".into(), activity: freeze::Activity::Frozen };
//! freeze::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{fmt, os::unix::ffi::OsStrExt as _};

use bstr::{BString, ByteSlice as _};
pub use engine::workspace::record::Activity;
use engine::workspace::record::Workspace;

use super::{mounts, relocate};
use crate::{
    Error, Events, PlanError, Repository, RunError, locks, settings::Settings, text,
    worktree::records::Worktrees,
};

/// The options.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name of the workspace.
    pub name: BString,
    /// [`Activity::Frozen`] freezes it, [`Activity::Active`] thaws and mounts it.
    pub activity: Activity,
}

impl Default for Request {
    fn default() -> Request {
        Request { name: BString::default(), activity: Activity::Frozen }
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The workspace.
    pub workspace: Workspace,
}

/// A workspace that can be frozen or thawed.
pub struct Plan<'r> {
    repository: &'r Repository,
    workspace: Workspace,
    activity: Activity,
}

/// Finds the workspace. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&crate::Silent), Vec::new());
    let workspace = super::find(&worktrees, request.name.as_bstr())?;
    check(&workspace)?;
    Ok(Plan { repository, workspace, activity: request.activity })
}

impl Plan<'_> {
    /// Freezes or thaws the workspace.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, workspace, activity } = self;
        let worktrees = Worktrees::of(repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        Ok(Report { workspace: set(&worktrees, &repository.settings, &workspace, activity)? })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.activity == Activity::Frozen { "freeze" } else { "thaw" };
        write!(formatter, "{verb} workspace '{}'", self.workspace.name.display())
    }
}

fn check(workspace: &Workspace) -> Result<(), Error> {
    if workspace.record.backend.has_upper() {
        return Ok(());
    }
    let name = workspace.name.as_bytes();
    let reason = "' has no upper layer; only a workspace that is mounted can be frozen";
    Err(Error::Failed(text!("the workspace '", name, reason)))
}

/// Freezes a workspace, or thaws and mounts it. A change of it that was killed is completed first.
/// Returns its new record.
pub fn set(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
    activity: Activity,
) -> Result<Workspace, Error> {
    check(workspace)?;
    workspace.refuse_begun()?;
    let _lock = workspace.lock(&worktrees.repo.trust())?;
    let mut workspace = relocate::recover(worktrees, settings, workspace)?;
    workspace.refuse_begun()?;
    if activity == Activity::Frozen {
        mounts::unmount(worktrees, &workspace)?;
    }
    workspace.record.activity = activity;
    workspace.store(&settings.fsync)?;
    if activity == Activity::Active {
        mounts::mount(worktrees, &workspace)?;
    }
    Ok(workspace)
}
