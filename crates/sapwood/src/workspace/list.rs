//! The workspaces of a repository.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::list};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! for found in list::plan(&repository, list::Request::default())?.run(&Silent)?.workspaces {
//!     println!("{}: {:?} changes", found.workspace.record.dir.display(), found.changes);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;

use bstr::BString;
pub use engine::workspace::{backend::Mounted, record::Workspace};
use repo::{WorktreeHead, WorktreeHeadKind};
use sys::{Dir, FileType, MountTable};

use super::{
    all,
    class::{Class, Look, classify},
    land, missing, mounts,
    quota::{self, Quota},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, events::Notices, worktree::records::Worktrees,
};

/// The most files whose sizes are added.
const MOST_FILES: usize = 1 << 24;

/// The options of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Class the workspaces.
    pub classes: bool,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The workspaces, in the order of their names.
    pub workspaces: Vec<Found>,
}

/// A list that is complete.
#[derive(Debug)]
pub struct Plan(Report, Vec<Notice>);

/// Examines the workspaces. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    Ok(Plan(examine(&worktrees, request)?, notices.into_vec()))
}

/// Examines the workspaces.
pub fn examine(worktrees: &Worktrees<'_>, request: Request) -> Result<Report, Error> {
    let all = all(worktrees)?;
    let table = MountTable::default();
    let looks: Vec<Look<'_>> = all.iter().map(|workspace| Look::at(worktrees, workspace)).collect();
    let found = looks.iter().map(|look| Found::at(worktrees, look, &table));
    let mut workspaces = found.collect::<Result<Vec<Found>, Error>>()?;
    if request.classes {
        for (found, class) in workspaces.iter_mut().zip(classify(worktrees, &looks)?) {
            found.class = Some(class);
        }
    }
    Ok(Report { workspaces })
}

impl Plan {
    /// Reports the notices, and returns the workspaces.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.1.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.0)
    }
}

/// A workspace, and its state.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its record.
    pub workspace: Workspace,
    /// The branch without `refs/heads/`; `None` if HEAD is detached.
    pub branch: Option<BString>,
    /// The commit of HEAD; null for an unborn branch.
    pub commit: Option<String>,
    /// Where its files are visible.
    pub mounted: Mounted,
    /// False if the base is gone, so that the workspace cannot be mounted again.
    pub has_base: bool,
    /// False if the directory is gone, where the workspace would be mounted.
    pub has_directory: bool,
    /// The number of changed paths in the upper layer; `None` if the backend has no upper layer, or
    /// if the layer cannot be read.
    pub changes: Option<usize>,
    /// The size of the upper layer and the administrative directory on disk, in bytes.
    pub size: u64,
    /// Its quota; `None` without one.
    pub quota: Option<Quota>,
    /// Its classes, if they were requested.
    pub class: Option<Class>,
}

impl Found {
    /// Examines a workspace.
    pub fn of(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<Found, Error> {
        Found::at(worktrees, &Look::at(worktrees, workspace), &MountTable::default())
    }

    fn at(worktrees: &Worktrees<'_>, look: &Look<'_>, table: &MountTable) -> Result<Found, Error> {
        let workspace = look.workspace;
        let is_begun = workspace.refuse_begun().is_err();
        let (branch, commit) = match (&workspace.record.sealed, &look.head) {
            (Some(_), _) if is_begun => (None, None),
            (Some(_), _) => head_of_sealed(worktrees, workspace),
            (None, Some(head)) => (branch_of(head), Some(head.oid.to_string())),
            (None, None) => (None, None),
        };
        let changes = match &look.list {
            _ if is_begun => None,
            Some(Ok(all)) => Some(all.changes()),
            Some(Err(error)) => {
                worktrees.events.notice(Notice::UnreadableLayer(error.to_string()));
                None
            }
            None => None,
        };
        Ok(Found {
            branch: branch.map(|name| name.strip_prefix(b"refs/heads/").unwrap_or(&name).into()),
            commit,
            mounted: mounts::state_in(workspace, table)?,
            has_base: mounts::layers(workspace).is_ok(),
            has_directory: !missing::lacks_directory(workspace),
            changes,
            size: size_of(workspace),
            quota: quota::find(workspace).ok().flatten(),
            workspace: workspace.clone(),
            class: None,
        })
    }
}

/// Returns the bytes of the upper layer and the Git directory of a workspace.
pub(super) fn size_of(workspace: &Workspace) -> u64 {
    let has_upper = workspace.record.backend.has_upper();
    let upper = if has_upper { bytes_below(&workspace.upper()) } else { 0 };
    if workspace.record.sealed.is_none() {
        return upper + bytes_below(&workspace.git_dir());
    }
    if has_upper && workspace.git_dir().starts_with(workspace.upper()) {
        return upper;
    }
    upper + land::open_foreign(workspace).map_or(0, |git| bytes_in(&git))
}

/// Returns the full name of the branch of a linked worktree.
fn branch_of(head: &WorktreeHead) -> Option<BString> {
    match &head.kind {
        WorktreeHeadKind::Branch(name) => Some(name.clone()),
        _ => None,
    }
}

/// Returns the full name of the branch of a repository that nobody trusts, and its commit. A HEAD
/// that cannot be read is reported.
fn head_of_sealed(worktrees: &Worktrees<'_>, workspace: &Workspace) -> (Option<BString>, Option<String>) {
    match land::foreign_tip(worktrees, workspace) {
        Ok(tip) => (tip.branch, tip.commit.map(|commit| commit.to_string())),
        Err(error) => {
            let name = workspace.name.to_string_lossy();
            worktrees.events.notice(Notice::UnreadableLayer(format!("'{name}': {error}")));
            (None, None)
        }
    }
}

/// Returns the size in bytes of the files below `dir`, except shared indexes and packs, which
/// workspaces link. Skips directories that cannot be read.
pub(super) fn bytes_below(dir: &Path) -> u64 {
    Dir::open(dir).map_or(0, |dir| bytes_in(&dir))
}

/// Like [`bytes_below`], for an open directory, which anybody may change. Follows no link. The
/// longest path of the system limits the depth.
fn bytes_in(top: &Dir) -> u64 {
    let (mut bytes, mut count) = (0_u64, 0);
    let mut pending = vec![Vec::new()];
    while let Some(above) = pending.pop() {
        let dir = if above.is_empty() { top.try_clone() } else { top.open_dir(&above) };
        let Ok(dir) = dir else { continue };
        for (name, kind) in dir.list().unwrap_or_default() {
            count += 1;
            if count > MOST_FILES {
                return bytes;
            }
            match kind {
                FileType::Directory if above.is_empty() => pending.push(name),
                FileType::Directory => pending.push([&above[..], b"/", &name].concat()),
                _ if name.starts_with(b"sharedindex.") || above.ends_with(b"objects/pack") => {}
                _ => {
                    let size = dir.stat(&name).ok().flatten().map_or(0, |stat| stat.size);
                    bytes = bytes.saturating_add(size);
                }
            }
        }
    }
    bytes
}
