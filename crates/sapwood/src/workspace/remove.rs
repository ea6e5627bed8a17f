//! Removing a workspace.
//!
//! Order: a list of the layers; the check for unsaved work; the unmount of the submodules and of
//! the workspace; the check that nothing was written since that list; the files, through the trash;
//! the administrative directory; then the trash is emptied.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, workspace::remove};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = remove::Request { name: "agent-1".into(), force: false };
//! remove::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    collections::HashSet,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use engine::{
    base_transfer::pulled,
    diff,
    pathspec::Pathspecs,
    trash::Trash,
    workspace::{
        backend::{Busy, Mounted},
        inner::Inner,
        record::{self, Activity, Workspace},
        remove::{self as files, Checked},
        upper,
    },
    worktree::admin::Found,
};
use format::ObjectId;
use repo::{Repository, Worktree, WorktreeHead, WorktreeHeadKind, submodule::Ignore};
use sys::{Dir, Stat, by_path};

use super::{durable, inner, mounts, view};
use crate::{
    Error, Events, Notice, PlanError, RunError,
    events::Notices,
    locks,
    settings::Settings,
    sparse_index,
    status::{self, Source, Untracked},
    text, trash,
    worktree::{
        records::{Worktrees, open_worktree},
        remove::{hides_untracked, refuse_changes},
    },
};

/// The workspace to remove.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its name.
    pub name: BString,
    /// Loses unsaved work.
    pub force: bool,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The directory of the workspace, which is gone.
    pub path: PathBuf,
    /// False if its record could not be removed. A notice says why.
    pub is_complete: bool,
}

/// A workspace that may be removed.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    workspace: Workspace,
    /// Its state, which another process may replace.
    meant: Found,
    force: Force,
    notices: Vec<Notice>,
}

/// Finds the workspace, and checks that nothing would be lost if its files are visible here.
/// Changes nothing: the run examines a workspace that is sealed or not mounted.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let found = record::find(&worktrees.common, sys::os_str(&request.name));
    let workspace = found.map_err(Error::from)?;
    let meant = Found::at(&workspace.state);
    let force = if request.force { Force::Yes } else { Force::No };
    refuse_being_made(&workspace)?;
    if let (Some(worktree), Force::No) = (workspace.linked_worktree(worktrees.repo), force)
        && mounts::state(&workspace)? == Mounted::Here
    {
        refuse_unsaved(&worktrees, &workspace, &worktree)?;
    }
    Ok(Plan { repository, workspace, meant, force, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Checks that nothing would be lost, and removes the workspace.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        if !self.meant.is_at(&self.workspace.state) {
            return Err(changed_meanwhile(&self.workspace).into());
        }
        let is_complete = remove(&worktrees, &self.workspace, self.force)?;
        Ok(Report { path: self.workspace.record.dir, is_complete })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "remove workspace '{}'", self.workspace.name.display())
    }
}

/// The treatment of unsaved work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Unsaved work keeps the workspace from being removed.
    No,
    /// Unsaved work is lost.
    Yes,
    /// There is no work: a killed command left the workspace. A file in it keeps it.
    Remains,
}

/// Returns an error if another process is creating the workspace.
fn refuse_being_made(workspace: &Workspace) -> Result<(), Error> {
    match workspace.refuse_begun() {
        Err(error @ record::Error::Begun { pid, .. }) if pid != u64::from(std::process::id()) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

pub(super) fn changed_meanwhile(workspace: &Workspace) -> Error {
    Error::Failed(text!("the workspace '", workspace.name.as_bytes(), "' was changed meanwhile; try again"))
}

/// Removes a workspace, unless another command has moved it. Waits for its lock. Returns false if
/// its record stays; the reason was reported.
pub fn remove(worktrees: &Worktrees<'_>, workspace: &Workspace, force: Force) -> Result<bool, Error> {
    refuse_being_made(workspace)?;
    let _lock = workspace.lock(&worktrees.repo.trust())?;
    remove_locked(worktrees, workspace, force, &|| Ok(()))
}

/// The result of an attempt to remove a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is gone.
    Removed,
    /// Its record stays. The reason was reported.
    RecordStays,
    /// Another command has its lock. Nothing was changed.
    Locked,
}

/// Like [`remove`], if `premise` holds, and without waiting. The premise is asked under the lock of
/// the workspace. With [`Force::Remains`] it is asked again when nobody can write there any more.
pub fn remove_if(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    force: Force,
    premise: &dyn Fn() -> Result<(), Error>,
) -> Result<Attempt, Error> {
    refuse_being_made(workspace)?;
    let Some(_lock) = workspace.try_lock(&worktrees.repo.trust())? else { return Ok(Attempt::Locked) };
    let is_complete = remove_locked(worktrees, workspace, force, premise)?;
    Ok(if is_complete { Attempt::Removed } else { Attempt::RecordStays })
}

/// Like [`remove_if`]. The caller holds the lock.
fn remove_locked(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    force: Force,
    premise: &dyn Fn() -> Result<(), Error>,
) -> Result<bool, Error> {
    let trust = worktrees.repo.trust();
    if record::find(&worktrees.common, &workspace.name)?.record != workspace.record {
        return Err(changed_meanwhile(workspace));
    }
    premise()?;
    trust.check_mount_point(&workspace.record.dir)?;
    let worktree = workspace.linked_worktree(worktrees.repo);
    let found = worktree.as_ref().map(|worktree| Found::at(&worktree.git_dir));
    let busy = if force == Force::Yes { Busy::Detach } else { Busy::Refuse };
    // An unmount by force detaches all mounts inside. Without an unmount, they would stay in the
    // way.
    let refuse_mounts = || match force {
        Force::Yes if workspace.record.backend.has_upper() => Ok(()),
        _ => mounts::refuse_mounts_inside(workspace),
    };
    let has_submodules = inner::exist(workspace)?;
    if !has_submodules {
        refuse_mounts()?;
    }
    let mut before = Before::default();
    if force == Force::No {
        before = Before::check(worktrees, workspace, worktree.as_ref())?;
    }
    let is_unchanged = || match force {
        Force::No => before.is_unchanged(worktrees, workspace, worktree.as_ref()),
        Force::Yes => true,
        Force::Remains => premise().is_ok(),
    };
    if has_submodules {
        let unmounted = inner::unmount(worktrees, workspace, busy).and_then(|()| refuse_mounts());
        let removed = unmounted.and_then(|()| remove_files(worktrees, workspace, busy, &is_unchanged));
        if removed.is_err() && matches!(mounts::state(workspace), Ok(Mounted::Here)) {
            let _ = inner::mount(worktrees, workspace);
        }
        removed?;
    } else {
        remove_files(worktrees, workspace, busy, &is_unchanged)?;
    }
    if let Some(found) = found
        && !worktrees.delete_admin(&workspace.name, &found)?
    {
        return Ok(false);
    }
    worktrees.drop_empty_list();
    trash::empty(&worktrees.common, worktrees.events.program().as_deref());
    Ok(true)
}

/// A workspace before the check for unsaved work.
#[derive(Default)]
struct Before {
    /// Its upper layer, and those of its submodules.
    layers: Vec<Checked>,
    admin: Option<Admin>,
    state: Option<view::State>,
}

impl Before {
    /// Returns an error if a removal would lose something. All lists are made before the checks, so
    /// that a change during a check is found after the unmount.
    fn check(
        worktrees: &Worktrees<'_>,
        workspace: &Workspace,
        worktree: Option<&Worktree>,
    ) -> Result<Before, Error> {
        let submodules = Inner::all(workspace)?;
        let checked = submodules.iter().map(|inner| Checked::submodule_before_check(workspace, inner));
        let checked = checked.chain([Checked::before_check(workspace)]);
        let layers: Result<Vec<Option<Checked>>, upper::Error> = checked.collect();
        let layers = layers.map_err(|error| {
            unknown_changes(workspace.name.as_bytes(), Some(Error::failed(error.to_string())))
        })?;
        let mut before = Before {
            layers: layers.into_iter().flatten().collect(),
            admin: worktree.map(|worktree| Admin::of(worktrees, worktree)),
            state: None,
        };
        if workspace.record.sealed.is_some() {
            before.state = view::refuse_unsaved(worktrees, workspace)?;
        }
        if let Some(worktree) = worktree {
            if !submodules.is_empty() {
                inner::refuse_own_objects(&worktree.git_dir, workspace)?;
            }
            refuse_unsaved(worktrees, workspace, worktree)?;
        }
        Ok(before)
    }

    fn is_unchanged(
        &self,
        worktrees: &Worktrees<'_>,
        workspace: &Workspace,
        worktree: Option<&Worktree>,
    ) -> bool {
        let is_now =
            |state: &view::State| view::State::read(worktrees, workspace).is_ok_and(|now| now == *state);
        self.layers.iter().all(Checked::is_still_there)
            && self.admin == worktree.map(|worktree| Admin::of(worktrees, worktree))
            && self.state.as_ref().is_none_or(is_now)
    }
}

/// The work that the administrative directory of a worktree holds: a commit that no branch has, and
/// an index whose content no file has, of the worktree and of its submodules.
#[derive(PartialEq, Eq)]
struct Admin {
    head: WorktreeHead,
    index: Option<Stat>,
    submodules: Vec<Submodule>,
}

/// The repository of a submodule.
#[derive(PartialEq, Eq)]
struct Submodule {
    dir: PathBuf,
    /// The stat data of HEAD, of the index, and of the directories that get the first object.
    stats: [Option<Stat>; 4],
}

impl Admin {
    fn of(worktrees: &Worktrees<'_>, worktree: &Worktree) -> Admin {
        let stat = |path: PathBuf| by_path::stat(&path).ok().flatten();
        let submodules = inner::repositories(&worktree.git_dir).into_iter().map(|dir| {
            let stats = ["HEAD", "index", "objects", "objects/pack"].map(|name| stat(dir.join(name)));
            Submodule { dir, stats }
        });
        Admin {
            head: worktrees.repo.head_of(worktree),
            index: stat(worktree.git_dir.join("index")),
            submodules: submodules.collect(),
        }
    }
}

/// Unmounts a workspace and removes its files and its state. If it is not as it was before the
/// check, it is mounted again and stays.
fn remove_files(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    busy: Busy,
    is_unchanged: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let shared = worktrees.shared_or_default();
    let mut discarded = Trash::new(&worktrees.common, shared, sys::cores(), worktrees.interrupt);
    let remove = || files::remove(worktrees.repo, workspace, busy, is_unchanged, &mut discarded);
    let removed = mounts::after_maintenance(worktrees, remove, |error| match error {
        files::Error::Backend(error) => Some(error),
        _ => None,
    });
    match removed {
        Err(Error::RemoveWorkspace(error)) if matches!(*error, files::Error::Changed) => {
            mounts::mount(worktrees, workspace)?;
            return Err(changed_meanwhile(workspace));
        }
        removed => removed?,
    }
    mounts::release_base(workspace);
    Ok(())
}

/// Returns an error if a removal would lose changes, or commits that no ref reaches and no base
/// brought.
pub(super) fn refuse_unsaved(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    worktree: &Worktree,
) -> Result<(), Error> {
    let name = workspace.name.as_bytes().as_bstr();
    let head = worktrees.repo.head_of(worktree);
    if head.kind == WorktreeHeadKind::Detached {
        refuse_unreachable(worktrees.repo, workspace, head.oid)?;
    }
    if workspace.record.backend.has_upper() {
        refuse_changes_inside(worktrees, workspace, worktree)
    } else {
        refuse_changes(worktrees, worktree, name)
    }
}

/// Returns those of `oids` that no ref reaches and no base brought. An object that is no
/// commit is reached only if it is the value of a ref.
pub(super) fn unreachable(repo: &Repository, oids: &HashSet<ObjectId>) -> Result<HashSet<ObjectId>, Error> {
    let tips: HashSet<ObjectId> = repo.refs("refs/")?.into_iter().map(|(_, tip)| tip).collect();
    let mut left = oids - &tips;
    left.retain(|oid| !pulled::has_commit(repo.common_dir(), oid));
    if left.is_empty() {
        return Ok(left);
    }
    let commits = tips.into_iter().filter_map(|tip| repo.peel_to_commit(tip).ok().flatten());
    let commits: Vec<ObjectId> = commits.collect();
    Ok(&left - &repo.reachable_tips(&commits, &left)?)
}

fn refuse_unreachable(repo: &Repository, workspace: &Workspace, oid: ObjectId) -> Result<(), Error> {
    if unreachable(repo, &HashSet::from([oid]))?.is_empty() {
        return Ok(());
    }
    let short = repo.abbreviate(oid)?;
    Err(Error::failed(text!(
        "'",
        workspace.name.as_bytes(),
        "' is at commit ",
        short,
        ", which no branch or tag contains; make a branch, or use --force to lose it"
    )))
}

/// Returns an error if a workspace has changes, after mounting it.
fn refuse_changes_inside(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    worktree: &Worktree,
) -> Result<(), Error> {
    let name = workspace.name.as_bytes();
    if let Err(error) = mounts::mount(worktrees, workspace) {
        if workspace.record.activity == Activity::Frozen {
            return Err(error);
        }
        // The files of a base are no work of the user's.
        if is_empty(workspace) && !has_staged_changes(worktrees, workspace, worktree) {
            return Ok(());
        }
        return Err(unknown_changes(name, Some(error)));
    }
    let has_changes = match mounts::state(workspace)? {
        Mounted::Here => {
            has_changes(worktrees, worktree).map_err(|error| unknown_changes(name, Some(error)))?
        }
        _ => has_changes_inside(worktrees, workspace)?,
    };
    if has_changes {
        Err(Error::failed(text!(
            "'",
            name,
            "' contains modified or untracked files, use --force to delete it"
        )))
    } else {
        Ok(())
    }
}

/// Returns true if a status of the workspace, which is visible here, shows something. It examines
/// only changes if a monitor is configured.
fn has_changes(worktrees: &Worktrees<'_>, worktree: &Worktree) -> Result<bool, Error> {
    let repo = open_worktree(worktrees.repo, worktree)?;
    let settings = Settings::read(&repo, worktrees.events)?;
    let root = Dir::open(&worktree.path)
        .map_err(|source| Error::CannotOpen { path: worktree.path.clone(), source })?;
    let request = status::Request {
        untracked: if hides_untracked(&repo) { Untracked::No } else { Untracked::Normal },
        submodules: Some(Ignore::None),
        ..status::Request::default()
    };
    let context = worktrees.context(&repo, &settings);
    let status = status::examine(context, &root, &request, Source::File)?.status;
    Ok(!status.changes.is_empty() || !status.untracked.is_empty())
}

/// Runs `status` inside the workspace, whose files only its own processes see.
fn has_changes_inside(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<bool, Error> {
    let name = workspace.name.as_bytes();
    let Some(program) = worktrees.events.program() else { return Err(unknown_changes(name, None)) };
    let options = worktrees.repo.options_at(&workspace.record.dir);
    let mut child = Command::new(&program);
    child.env_clear().envs(&options.env);
    let before = worktrees.repo.env().bytes("GIT_CONFIG_PARAMETERS");
    if let Some(parameters) = repo::config_parameters(before, &options.config) {
        child.env("GIT_CONFIG_PARAMETERS", parameters);
    }
    child.current_dir(&workspace.record.dir).args(["workspace", "exec"]).arg(&workspace.name);
    child.arg("--").arg(&program).arg("--no-optional-locks");
    child.args(["status", "--porcelain", "--ignore-submodules=none"]);
    worktrees.events.before_program();
    sys::interrupt::install();
    let output = child.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| Error::failed(format!("cannot run status in the workspace: {error}")))?;
    worktrees.events.notice(Notice::Program(output.stderr.into()));
    if output.status.success() { Ok(!output.stdout.is_empty()) } else { Err(unknown_changes(name, None)) }
}

/// Returns the error after the changes of a workspace could not be examined. Without a `cause`, it
/// was reported.
pub(super) fn unknown_changes(name: &[u8], cause: Option<Error>) -> Error {
    match cause {
        Some(Error::Interrupted) => Error::Interrupted,
        cause => Error::UnknownChanges { name: name.into(), cause: cause.map(Box::new) },
    }
}

/// Returns true if a workspace contains no file of the user.
pub fn is_empty(workspace: &Workspace) -> bool {
    // Without an upper layer, the user's files cannot be distinguished from those of a checkout.
    let dir =
        if workspace.record.backend.has_upper() { workspace.upper() } else { workspace.record.dir.clone() };
    match by_path::list(&dir) {
        Ok(names) => names.iter().all(|(name, _)| name.as_bytes() == b".git"),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Returns true if the index of a worktree may differ from its HEAD.
fn has_staged_changes(worktrees: &Worktrees<'_>, workspace: &Workspace, worktree: &Worktree) -> bool {
    let compare = || -> Result<bool, Error> {
        let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, workspace)?;
        let tree = repo.tree_of(worktrees.repo.head_of(worktree).oid)?;
        let read = store::index::ReadOptions { verify: true, ..store::index::ReadOptions::default() };
        let mut index = store::index::load(&repo.index_path(), repo.hash(), &read)?;
        sparse_index::expand(&repo, &mut index)?;
        let path = Path::new(&worktree.git_dir);
        let root = Dir::open(path).map_err(|source| Error::CannotOpen { path: path.to_owned(), source })?;
        let all = Pathspecs::default();
        let staged = diff::staged(&repo, &root, &index, Some(tree), &all, Some(Ignore::None), None)?;
        Ok(!staged.is_empty())
    };
    compare().unwrap_or(true)
}
