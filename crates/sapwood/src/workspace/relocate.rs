//! Moving a workspace to another directory.
//!
//! Order: the unmount; a mark in the state that names both directories; the new directory; the
//! record; the links; the old directory; the mount. From the mark on, a killed move is completed:
//! [`recover`] repeats the steps.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::relocate};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = relocate::Request { name: "agent-1".into(), to: "../elsewhere".into() };
//! relocate::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    ffi::OsStr,
    fmt,
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    files::whole,
    guard::Removable,
    workspace::record::{self, Workspace},
    worktree::admin,
};
use sys::by_path;

use super::{mounts, rebase};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    locks,
    settings::Settings,
    text,
    worktree::records::{Given, Worktrees, refuse_submodules},
};

/// The options of a move.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The name of the workspace, which stays.
    pub name: BString,
    /// The new directory, which is missing or empty.
    pub to: PathBuf,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The workspace, with its new directory.
    pub workspace: Workspace,
}

/// A workspace that may be moved.
pub struct Plan<'r> {
    repository: &'r Repository,
    workspace: Workspace,
    to: Given,
    notices: Vec<Notice>,
}

/// Finds the workspace, and checks the new place. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let workspace = super::find(&worktrees, request.name.as_bstr())?;
    let to = Given::of(repository, &request.to)?;
    check(&worktrees, &workspace, &to)?;
    Ok(Plan { repository, workspace, to, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Checks the place again, and moves the workspace. It is mounted afterwards.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, workspace, to, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        check(&worktrees, &workspace, &to)?;
        let place = by_path::realpath_forgiving(&to.path);
        Ok(Report { workspace: relocate(&worktrees, &workspace, &place)? })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "move workspace '{}' to '{}'", self.workspace.name.display(), self.to.shown)
    }
}

/// Returns an error if the place is taken, or if the workspace contains submodules.
pub fn check(worktrees: &Worktrees<'_>, workspace: &Workspace, to: &Given) -> Result<(), Error> {
    worktrees.check_candidate(to, 0, &worktrees.repo.worktrees()?, "move")?;
    match workspace.linked_worktree(worktrees.repo) {
        Some(worktree) => refuse_submodules(worktrees.repo, &worktree),
        None => Ok(()),
    }
}

/// Moves a workspace to the directory `to`, which is missing or empty. Returns the updated
/// workspace.
pub fn relocate(worktrees: &Worktrees<'_>, workspace: &Workspace, to: &Path) -> Result<Workspace, Error> {
    workspace.refuse_sealed("workspace move")?;
    let trust = worktrees.repo.trust();
    let _lock = workspace.lock(&trust)?;
    trust.check_mount_point(&workspace.record.dir)?;
    let settings = Settings::read(worktrees.repo, worktrees.events)?;
    let workspace = recover(worktrees, &settings, workspace)?;
    if to == workspace.record.dir {
        return Ok(workspace);
    }
    if !workspace.record.backend.has_upper() {
        return rename(worktrees, &settings, &workspace, to);
    }
    mounts::unmount(worktrees, &workspace)?;
    let mark = [workspace.record.dir.as_os_str().as_bytes(), b"\0", to.as_os_str().as_bytes()].concat();
    record::clear_stale_lock(&mark_of(&workspace));
    let mut lock = store::Lock::take(&mark_of(&workspace), &store::LockOptions::default())?;
    lock.write(&mark)?;
    lock.commit_synced(&settings.fsync, store::Components::REFERENCE)?;
    let moved = finish(worktrees, &settings, &workspace)?;
    mounts::mount(worktrees, &moved)?;
    Ok(moved)
}

/// Completes a rebase and a move that were killed. The caller holds the workspace's lock. Returns
/// the updated workspace.
pub fn recover(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<Workspace, Error> {
    finish(worktrees, settings, &rebase::recover(worktrees, settings, workspace)?)
}

fn mark_of(workspace: &Workspace) -> PathBuf {
    workspace.state.join(record::MOVING)
}

/// Moves a workspace whose directory itself contains the files.
fn rename(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
    to: &Path,
) -> Result<Workspace, Error> {
    let from = &workspace.record.dir;
    let tree = Removable::of(worktrees.repo, from)?;
    whole::rename(tree, to).map_err(|error| {
        let (reason, to) = (sys::reason(&error).to_string(), to.as_os_str().as_bytes());
        Error::Failed(text!("failed to move '", from.as_os_str().as_bytes(), "' to '", to, "': ", reason))
    })?;
    worktrees.linker(None)?.link(to, &admin_of(worktrees, workspace))?;
    store(settings, workspace, to)
}

fn admin_of(worktrees: &Worktrees<'_>, workspace: &Workspace) -> PathBuf {
    worktrees.common.join("worktrees").join(&workspace.name)
}

fn store(settings: &Settings, workspace: &Workspace, to: &Path) -> Result<Workspace, Error> {
    let mut moved = workspace.clone();
    moved.record.dir = to.to_owned();
    moved.store(&settings.fsync)?;
    Ok(moved)
}

/// Completes a move from its mark on.
fn finish(worktrees: &Worktrees<'_>, settings: &Settings, workspace: &Workspace) -> Result<Workspace, Error> {
    let mark = mark_of(workspace);
    let failed = |path: &Path, error: &io::Error| {
        let reason = sys::reason(error).to_string();
        Error::Failed(text!("cannot move to '", path.as_os_str().as_bytes(), "': ", reason))
    };
    let Some(content) = by_path::read(&mark).map_err(|error| failed(&mark, &error))? else {
        return Ok(workspace.clone());
    };
    let (from, to) = content.split_once_str("\0").ok_or_else(|| {
        Error::failed(format!("'{}' is damaged: remove it, and repeat the move", mark.display()))
    })?;
    let (from, to) = (Path::new(sys::os_str(from)), Path::new(sys::os_str(to)));
    settings.locks.shared.create_dir_all(to).or_else(|error| match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        _ => Err(failed(to, &error)),
    })?;
    let moved = store(settings, workspace, to)?;
    let gitfile = workspace.upper().join(".git");
    for path in [&to.join(".git"), &gitfile, &admin_of(worktrees, workspace).join("gitdir")] {
        record::clear_stale_lock(path);
    }
    mounts::mark_unmounted(&moved)?;
    worktrees.linker(None)?.link_through(&gitfile, to, &admin_of(worktrees, workspace))?;
    leave(worktrees, &workspace.name, from);
    by_path::remove_file(&mark).map_err(|error| failed(&mark, &error))?;
    Ok(moved)
}

/// Removes the file that marks an unmounted workspace from its previous directory, and the
/// directory if it is empty then.
fn leave(worktrees: &Worktrees<'_>, name: &OsStr, dir: &Path) {
    let is_ours =
        record::unmounted_at(dir).is_some_and(|(common, id)| common == worktrees.common && id == *name);
    let is_begun = matches!(by_path::read(&dir.join(".git")), Ok(Some(content)) if content.is_empty());
    if is_ours || is_begun {
        let _ = whole::remove_gitfile(dir);
    }
    // The removal fails, as intended, if the directory has other entries.
    let _ = whole::remove_empty(dir);
}

/// Removes what a killed creation or removal has left of a workspace without a state: its directory
/// and the administrative directory `id`. Returns false if the latter stays; the reason was
/// reported.
pub fn forget(worktrees: &Worktrees<'_>, id: &OsStr, dir: &Path) -> Result<bool, Error> {
    let admin = worktrees.common.join("worktrees").join(id);
    let trust = worktrees.repo.trust();
    [&admin, &admin.join("locked"), &admin.join("gitdir")]
        .into_iter()
        .try_for_each(|path| trust.check_file(path))?;
    // A sealed workspace may have the name and the directory by now.
    let is_taken = record::find(&worktrees.common, id).is_ok_and(|found| found.record.dir == dir);
    if !is_taken {
        leave(worktrees, id, dir);
    }
    let found = admin::Found::at(&admin);
    worktrees.delete_admin(id, &found)
}
