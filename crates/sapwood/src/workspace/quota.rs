//! The quota of a workspace: what it uses of the disk, and the most that it may use.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::quota};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = quota::Request { name: "agent-1".into(), limit: 2 << 30 };
//! let quota = quota::plan(&repository, request)?.run(&Silent)?;
//! println!("{} of {} bytes", quota.used, quota.limit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/workspace-quota.md.

use std::{fmt, io, path::Path};

use bstr::{BString, ByteSlice as _};
pub use engine::workspace::quota::{Error, Quota};
use engine::workspace::record::{self, Workspace};
use repo::{Repository, keys};

use crate::{Events, PlanError, RunError, Silent, worktree::records::Worktrees};

/// The limit to set.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The name of the workspace.
    pub name: BString,
    /// The most bytes that it may have on the disk; 0 for no limit.
    pub limit: u64,
}

/// A workspace that has a quota.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    workspace: Workspace,
    limit: u64,
}

/// Finds the workspace. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let worktrees = Worktrees::of(repository.context(&Silent), Vec::new());
    let workspace = super::find(&worktrees, request.name.as_bstr())?;
    of(&workspace)?;
    Ok(Plan { repository, workspace, limit: request.limit })
}

impl Plan<'_> {
    /// Sets the limit. Returns the quota as it is then.
    pub fn run(self, events: &impl Events) -> Result<Quota, RunError> {
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        Ok(change(&worktrees, &self.workspace, self.limit)?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.workspace.name.display();
        write!(formatter, "limit workspace '{name}' to {} bytes", self.limit)
    }
}

/// Returns the quota of a workspace, which must have one.
pub fn of(workspace: &Workspace) -> Result<Quota, crate::Error> {
    let found = find(workspace).map_err(|source| Error::Io {
        action: "examine",
        path: workspace.place().to_owned(),
        source,
    });
    let found = found.and_then(|found| found.ok_or_else(|| Error::None(workspace.name.clone())));
    Ok(found.map_err(record::Error::from)?)
}

/// Returns the quota of a workspace; `None` if it has none.
pub fn find(workspace: &Workspace) -> io::Result<Option<Quota>> {
    workspace.project()?.map(|project| project.quota()).transpose()
}

/// Sets the limit of a workspace that has a quota. Returns the quota as it is then.
pub fn change(worktrees: &Worktrees<'_>, workspace: &Workspace, limit: u64) -> Result<Quota, crate::Error> {
    let _lock = workspace.lock(&worktrees.repo.trust())?;
    let workspace = record::find(&worktrees.common, &workspace.name)?;
    let place = || workspace.place().to_owned();
    let project = workspace.project();
    let project = project.map_err(|source| Error::Io { action: "examine", path: place(), source });
    let project = project.and_then(|project| project.ok_or_else(|| Error::None(workspace.name.clone())));
    let limited = project.and_then(|project| project.limit_to(limit));
    limited.map_err(record::Error::from)?;
    of(&workspace)
}

/// Returns the limit that a new workspace gets unless its maker says another one: that of
/// `sapwood.workspaceQuota`; `None` for no quota.
pub(super) fn configured(repo: &Repository) -> Result<Option<u64>, crate::Error> {
    Ok(repo.config(&keys::sapwood::WORKSPACE_QUOTA)?)
}

/// Returns the limit of the workspace in which a repository was opened; `None` elsewhere.
pub fn inherited(repo: &Repository) -> Option<u64> {
    let found = current(repo)?;
    find(&found).ok().flatten().map(|quota| quota.limit)
}

/// Returns false if there is plenty of space in a directory, by one system call.
pub fn may_be_full(dir: &Path) -> bool {
    sys::quota::space_left(dir).is_ok_and(|left| left <= Quota::PLENTY)
}

/// Returns the workspace in which a repository was opened, and its quota, if hardly anything is
/// left of it.
pub fn full(repo: &Repository) -> Option<(Workspace, Quota)> {
    let workspace = current(repo)?;
    let quota = find(&workspace).ok().flatten().filter(Quota::is_full)?;
    Some((workspace, quota))
}

fn current(repo: &Repository) -> Option<Workspace> {
    record::of_git_dir(&repo.real_common_dir(), repo.git_dir()).ok().flatten()
}
