//! The record of a workspace: its backend, base and directories.
//!
//! `<common directory>/sapwood/workspaces/<name>/record` is a file in Git's configuration format
//! with one section, `workspace`. It is replaced atomically. The name of a workspace is the name of
//! its administrative directory, `worktrees/<name>`.

use std::{
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId, config::Edit};
use repo::{Repository, Trust, Worktree};
use store::{Components, Fsync, Lock, LockOptions, SharedRepository};
use sys::{File, FileType, by_path};

use super::{
    backend::{Backend, Door},
    quota::{self, Project},
    session,
};

/// The reason in the `locked` file of a workspace's administrative directory.
pub const LOCK_REASON: &str = "sapwood workspace";

/// The prefix of that reason while the workspace is being created.
const INITIALIZING: &str = "sapwood workspace: initializing ";

/// Returns the reason in the `locked` file of a workspace that this process is creating at `top`.
pub fn initializing(top: &Path) -> Vec<u8> {
    let begin = format!("{INITIALIZING}{} ", std::process::id());
    [begin.as_bytes(), top.as_os_str().as_bytes()].concat()
}

/// Parses such a reason. Returns the process id and the directory of the workspace.
pub fn parse_initializing(reason: &[u8]) -> Option<(u64, PathBuf)> {
    let (pid, top) = reason.strip_prefix(INITIALIZING.as_bytes())?.split_once_str(" ")?;
    Some((pid.to_str().ok()?.parse().ok()?, sys::os_str(top).into()))
}

/// The file of the state with the path of `create --at`.
pub const AT: &str = "at";

/// The file of the state of a sealed workspace that exists since it has claimed its directory.
const CLAIMED: &str = "claimed";

/// The file of the state of a workspace in which a landing is checked. The process of the check
/// holds its lock. It is not the lock of the workspace: the command of the check may use it.
const CHECK: &str = "check";

/// The beginning of the file `.git` in the directory of an unmounted workspace. Git does not accept
/// this format, so it refuses to work there.
const NOT_MOUNTED: &[u8] = b"not mounted: ";

/// The text in that file if only processes in the workspace's own namespace see its files.
const ONLY_JOINED: &[u8] =
    b"Only processes that sapwood starts see the files of this workspace: sapwood workspace enter ";

/// The reason why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the record '{}' is damaged: {what}", .path.display())]
    Damaged { path: PathBuf, what: String },
    /// A later sapwood wrote it, and an earlier one must not act on a part of it.
    #[error(
        "the record '{}' has version {version}, and this sapwood reads version {VERSION}: use a newer sapwood",
        .path.display()
    )]
    Newer { path: PathBuf, version: String },
    #[error("this is a session of 'workspace exec --at': run the command outside of it")]
    InSession,
    #[error("a workspace '{}' exists already", .0.to_string_lossy())]
    Exists(OsString),
    #[error("'{}' is not a workspace; 'sapwood workspace list' names them", .0.to_string_lossy())]
    Missing(OsString),
    #[error("the workspace '{}' is sealed: '{action}' does not serve it", .name.to_string_lossy())]
    Sealed { name: OsString, action: &'static str },
    #[error("the workspace '{}' is being created by process {pid}", .name.to_string_lossy())]
    Begun { name: OsString, pid: u64 },
    #[error("the creation of the workspace '{}' was interrupted", .name.to_string_lossy())]
    Interrupted { name: OsString },
    #[error(transparent)]
    Quota(#[from] quota::Error),
    #[error(transparent)]
    Config(#[from] store::config::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Repository(#[from] repo::Error),
}

/// The durability of the upper layer after a crash of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// `fsync` works. Copying up a file waits for the disk.
    Synced,
    /// overlayfs ignores `fsync` (mount option `volatile`), and copying up a file does not wait.
    /// After a crash the upper layer is repaired ([`super::crash`]).
    #[default]
    Volatile,
}

/// The state of use of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// It is mounted on demand.
    #[default]
    Active,
    /// It stays unmounted, and so unchanged, until it is thawed.
    Frozen,
    /// The process with this number is creating it. If it is gone, nobody was told of the
    /// workspace.
    Begun(u64),
    /// The process with this number checks a landing in it ([`Workspace::is_being_checked`]). If it
    /// is gone, nobody needs the workspace.
    Check(u64),
}

/// The facts about a workspace that is a repository of its own, as they were at its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The full name of the branch of the repository that gets its commits.
    pub branch: BString,
    /// The commit on which it began.
    pub commit: ObjectId,
    /// The last landing by a rebase.
    pub landed: Option<Landed>,
}

/// A landing that wrote the commits of a workspace again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The commit of the workspace.
    pub tip: ObjectId,
    /// The commit of the repository that has its changes.
    pub new: ObjectId,
}

/// A reference to a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseRef {
    /// The base directory.
    pub dir: PathBuf,
    /// The name of the base in it.
    pub name: String,
}

/// The stored facts about a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The absolute path of the worktree: the mount point.
    pub dir: PathBuf,
    /// The backend that provides the files.
    pub backend: Backend,
    /// The base, if the backend has one.
    pub base: Option<BaseRef>,
    /// The layers above the base, from top to bottom: the newer one, and the frozen ones.
    pub layers: Vec<PathBuf>,
    /// The directory that contains `upper` and `work`, if it is not the workspace's state
    /// directory.
    pub place: Option<PathBuf>,
    /// The durability of the upper layer, if it does not follow `sapwood.workspaceSync`.
    pub durability: Option<Durability>,
    /// The state of use.
    pub activity: Activity,
    /// `None` for a linked worktree of the repository.
    pub sealed: Option<Sealed>,
    /// The maker of its mounts.
    pub door: Door,
    /// The project of the file system that [`quota::allot`] chose for the upper layer; `None`
    /// without a quota.
    pub project: Option<u32>,
}

/// A workspace of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its name.
    pub name: OsString,
    /// `<common directory>/sapwood/workspaces/<name>`
    pub state: PathBuf,
    /// The stored facts.
    pub record: Record,
}

impl Workspace {
    /// Returns the upper layer.
    pub fn upper(&self) -> PathBuf {
        self.place().join("upper")
    }

    /// Returns overlayfs' work directory.
    pub fn work(&self) -> PathBuf {
        self.place().join("work")
    }

    /// Returns the newer layer, if the record names it.
    pub fn newer(&self) -> PathBuf {
        self.place().join("newer")
    }

    /// Returns its Git directory. That of a sealed workspace is foreign: it is data to check.
    pub fn git_dir(&self) -> PathBuf {
        if self.record.sealed.is_none() {
            let common = self.state.ancestors().nth(3).unwrap_or(&self.state);
            return common.join("worktrees").join(&self.name);
        }
        match (self.bound_git_dir(), self.record.backend.has_upper()) {
            (Some(dir), _) => dir,
            (None, true) => self.upper().join(".git"),
            (None, false) => self.record.dir.join(".git"),
        }
    }

    /// Returns the Git directory that a mount shows as `.git` of the workspace: an overlay would
    /// ignore `fsync` there.
    pub fn bound_git_dir(&self) -> Option<PathBuf> {
        let is_overlay = matches!(self.record.backend, Backend::Image | Backend::Overlay);
        (self.record.sealed.is_some() && is_overlay).then(|| self.state.join("git"))
    }

    /// Refuses a sealed workspace. `action` is the command that does not serve it.
    pub fn refuse_sealed(&self, action: &'static str) -> Result<(), Error> {
        match self.record.sealed {
            Some(_) => Err(Error::Sealed { name: self.name.clone(), action }),
            None => Ok(()),
        }
    }

    /// Returns the linked worktree of `repo` that the workspace is; `None` for a sealed one. An
    /// ordinary worktree may have the name of a sealed workspace.
    pub fn linked_worktree(&self, repo: &Repository) -> Option<Worktree> {
        self.record.sealed.is_none().then(|| repo.linked_worktree(&self.name)).flatten()
    }

    /// Refuses a workspace that is not complete yet.
    pub fn refuse_begun(&self) -> Result<(), Error> {
        match self.record.activity {
            Activity::Begun(pid) if sys::is_running(pid) == Some(true) => {
                Err(Error::Begun { name: self.name.clone(), pid })
            }
            Activity::Begun(_) => Err(Error::Interrupted { name: self.name.clone() }),
            Activity::Active | Activity::Frozen | Activity::Check(_) => Ok(()),
        }
    }

    /// Records that the directory belongs to this workspace, which is being created.
    pub fn mark_claimed(&self) -> Result<(), Error> {
        let path = self.state.join(CLAIMED);
        let made = by_path::create_new(&path, 0o666).map(drop);
        made.map_err(|source| Error::Io { action: "create", path, source })
    }

    /// Returns true if the directory may belong to somebody else: the creation of this sealed
    /// workspace ended before it claimed the directory.
    pub fn is_unclaimed(&self) -> bool {
        let is_begun = self.record.sealed.is_some() && matches!(self.record.activity, Activity::Begun(_));
        is_begun && !matches!(by_path::stat(&self.state.join(CLAIMED)), Ok(Some(_)))
    }

    /// Returns true if a landing is checked in it, or was when the process was killed.
    pub fn is_check(&self) -> bool {
        matches!(self.record.activity, Activity::Check(_))
    }

    /// Returns true if the process that checks a landing in it still runs, or may run. Its number
    /// alone does not say so: it may be that of a process in another namespace.
    pub fn is_being_checked(&self) -> bool {
        let Activity::Check(pid) = self.record.activity else { return false };
        match by_path::open(&self.state.join(CHECK)).and_then(|file| sys::try_lock_shared(&file)) {
            Ok(is_free) => !is_free,
            // An older version has made it.
            Err(error) if error.kind() == ErrorKind::NotFound => sys::is_running(pid) != Some(false),
            Err(_) => true,
        }
    }

    /// Returns the layers of ignored files, from top to bottom.
    pub fn frozen(&self) -> Vec<PathBuf> {
        let newer = self.newer();
        self.record.layers.iter().filter(|layer| **layer != newer).cloned().collect()
    }

    /// Lets this user empty [`Workspace::work`].
    pub fn unseal_work(&self) {
        super::crash::mark::unseal(&self.work());
    }

    /// Returns the project of its quota; `None` if it has no quota. A copy of the repository has
    /// none, though its records name projects.
    pub fn project(&self) -> io::Result<Option<Project<'_>>> {
        self.record.project.map_or(Ok(None), |id| Project::at(self.place(), id))
    }

    /// Returns the directory with the upper and the work directory.
    pub fn place(&self) -> &Path {
        self.record.place.as_deref().unwrap_or(&self.state)
    }

    /// Returns the content of the file `.git` in the workspace's directory while it is not mounted:
    /// the path of its state, and a message for the user.
    pub fn unmounted_gitfile(&self) -> Vec<u8> {
        let (state, name) = (self.state.as_os_str().as_bytes(), self.name.as_bytes());
        let word: &[u8] = match self.record.backend {
            Backend::OverlayUser => ONLY_JOINED,
            _ => b"The files of this workspace are not mounted. To mount them: sapwood workspace mount ",
        };
        [NOT_MOUNTED, state, b"\n", word, name, b"\n"].concat()
    }

    /// Refuses a record that another user wrote: it decides what is mounted, moved and removed, and
    /// where.
    pub fn check(&self, trust: &Trust) -> Result<(), Error> {
        trust.check_file(&self.state)?;
        trust.check_file(&self.state.join("record"))?;
        if let Some(place) = &self.record.place {
            trust.check_dir(place)?;
        }
        Ok(self.record.layers.iter().try_for_each(|layer| trust.check_dir(layer))?)
    }

    /// Returns the path at which `exec` and `enter` show the workspace, if `create --at` gave one.
    pub fn at(&self) -> Result<Option<PathBuf>, Error> {
        let path = self.state.join(AT);
        let read = by_path::read(&path).map_err(|source| Error::Io { action: "read", path, source })?;
        Ok(read.map(|content| PathBuf::from(sys::os_str(content.strip_suffix(b"\n").unwrap_or(&content)))))
    }

    /// Takes the lock of the workspace against other commands that change it. Waits for them. The
    /// lock lasts until the file is closed. Refuses what [`Workspace::check`] refuses.
    pub fn lock(&self, trust: &Trust) -> Result<File, Error> {
        self.lock_by(trust, |file| sys::lock(file).map(|()| true)).map(|(file, _)| file)
    }

    /// Like [`Workspace::lock`], but returns `None` if another command has the lock.
    pub fn try_lock(&self, trust: &Trust) -> Result<Option<File>, Error> {
        self.lock_by(trust, sys::try_lock).map(|(file, is_locked)| is_locked.then_some(file))
    }

    fn lock_by(
        &self,
        trust: &Trust,
        lock: impl FnOnce(&File) -> io::Result<bool>,
    ) -> Result<(File, bool), Error> {
        if session::is_inside(&self.state) {
            return Err(Error::InSession);
        }
        self.check(trust)?;
        let path = self.state.join("lock");
        let failed = |source| Error::Io { action: "lock", path: path.clone(), source };
        let file = by_path::lock_file(&path, 0o666).map_err(failed)?;
        let is_locked = lock(&file).map_err(failed)?;
        Ok((file, is_locked))
    }

    /// Returns the path of the file that marks the workspace as being removed.
    pub fn removal(&self) -> PathBuf {
        self.state.join("removing")
    }

    /// Writes the record to disk. The caller holds the workspace's lock.
    pub fn store(&self, fsync: &Fsync) -> Result<(), Error> {
        clear_stale_lock(&self.state.join("record"));
        write(&self.state, &self.record, fsync)
    }
}

/// Removes a lock file of `path` that a killed process left behind. Every writer of `path` holds
/// the workspace's lock, and so does the caller. So no running process owns the lock file.
pub fn clear_stale_lock(path: &Path) {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let _ = by_path::remove_file(Path::new(&name));
}

/// Returns the directory that contains the states of all workspaces.
pub fn directory(common: &Path) -> PathBuf {
    common.join("sapwood").join("workspaces")
}

/// Returns the directory of the claims ([`store::claims`]) on locks of commands of worktrees.
pub fn claims(common: &Path) -> PathBuf {
    common.join("sapwood").join("locks")
}

/// Creates the state of a workspace, with empty upper and work directories. It appears under its
/// name in one step. If the record has a place for these directories, a number is appended to the
/// place while the path exists, because other repositories may have workspaces there. With a
/// `limit`, the upper layer gets a quota of so many bytes. Also returns the lock of a check, which
/// lasts until the file is closed; `None` for another workspace.
pub fn create(
    common: &Path,
    name: &OsStr,
    mut record: Record,
    limit: Option<u64>,
    shared: SharedRepository,
    fsync: &Fsync,
) -> Result<(Workspace, Option<File>), Error> {
    let all = directory(common);
    let mut staged_name = OsString::from(format!("{STAGED}{}-", std::process::id()));
    staged_name.push(name);
    let staged = all.join(staged_name);
    let state = all.join(name);
    let io = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    shared.create_dir_all(&all).or_else(present).map_err(io("create", &all))?;
    shared.create_dir_all(&staged).map_err(io("create", &staged))?;
    if let Some(wanted) = &record.place {
        record.place = Some(claim(wanted).map_err(io("create", wanted))?);
    }
    let place = record.place.clone().unwrap_or_else(|| staged.clone());
    let mut made = || -> Result<Option<File>, Error> {
        // Only what is made in the directory afterwards belongs to its project.
        record.project = limit.map(|limit| quota::allot(&place, limit)).transpose()?;
        for dir in [place.join("upper"), place.join("work")] {
            by_path::create_dir_all(&dir).map_err(io("create", &dir))?;
        }
        if record.project.is_some() {
            // With a full quota no file can be made, and the limit is changed under the lock.
            let lock = staged.join("lock");
            by_path::create_new(&lock, 0o666).map_err(io("create", &lock))?;
        }
        let check = match record.activity {
            Activity::Check(_) => Some(lock_check(&staged)?),
            Activity::Active | Activity::Frozen | Activity::Begun(_) => None,
        };
        write(&staged, &record, fsync)?;
        by_path::rename_new(&staged, &state).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => Error::Exists(name.to_owned()),
            _ => Error::Io { action: "create", path: state.clone(), source },
        })?;
        hardened(fsync).directory(Components::all(), &all).map_err(|source| {
            let _ = by_path::remove_dir_all(&state);
            Error::Io { action: "sync", path: all.clone(), source }
        })?;
        Ok(check)
    };
    match made() {
        Ok(check) => Ok((Workspace { name: name.to_owned(), state, record }, check)),
        Err(error) => {
            let _ = by_path::remove_dir_all(&staged);
            let _ = record.place.map(|place| by_path::remove_dir_all(&place));
            Err(error)
        }
    }
}

/// Takes the lock of a check in a state that nobody else knows.
fn lock_check(staged: &Path) -> Result<File, Error> {
    let path = staged.join(CHECK);
    let failed = |source| Error::Io { action: "lock", path: path.clone(), source };
    let file = by_path::lock_file(&path, 0o666).map_err(failed)?;
    sys::lock(&file).map_err(failed)?;
    Ok(file)
}

/// Creates a new directory with the path `wanted`, or that path with a number appended.
fn claim(wanted: &Path) -> io::Result<PathBuf> {
    if let Some(above) = wanted.parent() {
        by_path::create_dir_all(above).or_else(present)?;
    }
    let mut number = 0u32;
    loop {
        let mut name = wanted.as_os_str().to_owned();
        if number > 0 {
            name.push(format!("-{number}"));
        }
        match by_path::create_dir(Path::new(&name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| name.into()),
        }
    }
}

/// The prefix of an incomplete state directory. No workspace has such a name, because Git allows no
/// leading dot in a worktree's id.
const STAGED: &str = ".new-";
/// The prefix of a state directory that is being removed.
const TAKEN: &str = ".old-";

fn present(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    }
}

/// Renames the state of a workspace away from its name, in one step. Returns the new path. If this
/// process is killed, [`remove_abandoned`] removes it.
pub fn rename_away(workspace: &Workspace) -> Result<PathBuf, Error> {
    let mut name = OsString::from(format!("{TAKEN}{}-", std::process::id()));
    name.push(&workspace.name);
    let (from, to) = (&workspace.state, workspace.state.with_file_name(name));
    match by_path::rename(from, &to) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::Io { action: "rename", path: from.clone(), source: error })
        }
        _ => Ok(to),
    }
}

/// Removes the leftovers of killed processes that created or removed states.
pub fn remove_abandoned(common: &Path) -> Result<(), Error> {
    let dir = directory(common);
    let names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    for (name, _) in names {
        let rest = [STAGED, TAKEN].iter().find_map(|prefix| name.as_bytes().strip_prefix(prefix.as_bytes()));
        let owner = rest.and_then(|rest| rest.split_once_str("-"));
        let owner = owner.and_then(|(pid, _)| pid.to_str().ok()?.parse().ok());
        if owner.is_some_and(|pid| sys::is_running(pid) == Some(false)) {
            let path = dir.join(&name);
            by_path::remove_dir_all(&path).map_err(|source| Error::Io { action: "remove", path, source })?;
        }
    }
    Ok(())
}

/// Returns all workspaces of a repository, sorted by name. A damaged record yields an error as that
/// element.
pub fn all(common: &Path) -> Result<Vec<Result<Workspace, Error>>, Error> {
    let dir = directory(common);
    let mut names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    names.retain(|(name, _)| !name.as_bytes().starts_with(b"."));
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names.into_iter().filter_map(|(name, _)| load(common, &name).transpose()).collect())
}

/// Returns the workspace with this name.
pub fn find(common: &Path, name: &OsStr) -> Result<Workspace, Error> {
    load(common, name)?.ok_or_else(|| Error::Missing(name.to_owned()))
}

/// Returns the workspace of a Git directory, if it is that of a linked workspace.
pub fn of_git_dir(common: &Path, git_dir: &Path) -> Result<Option<Workspace>, Error> {
    let is_linked = git_dir.parent().is_some_and(|above| above.file_name() == Some(OsStr::new("worktrees")));
    match git_dir.file_name().filter(|_| is_linked) {
        Some(name) => of_worktree(common, name),
        None => Ok(None),
    }
}

/// Returns the workspace of a worktree's administrative directory, if it is a workspace's. A sealed
/// workspace with the same name has none.
pub fn of_worktree(common: &Path, id: &OsStr) -> Result<Option<Workspace>, Error> {
    Ok(load(common, id)?.filter(|workspace| workspace.record.sealed.is_none()))
}

/// Parses the `.git` file of an unmounted workspace at `dir`. Returns the common directory and the
/// name of the workspace. The file proves nothing: its owner and [`is_at`] must agree.
pub fn unmounted_at(dir: &Path) -> Option<(PathBuf, OsString)> {
    /// A larger file is no such file.
    const LIMIT: u64 = 1 << 16;
    let gitfile = dir.join(".git");
    // Reading a FIFO would block.
    let is_file = |stat: &sys::Stat| stat.file_type == FileType::File && stat.size <= LIMIT;
    by_path::stat(&gitfile).ok().flatten().filter(is_file)?;
    let content = by_path::read(&gitfile).ok().flatten()?;
    let state = content.strip_prefix(NOT_MOUNTED)?.split_once_str("\n")?.0;
    let state = Path::new(sys::os_str(state));
    let common = state.parent()?.parent()?.parent().filter(|common| common.is_absolute())?;
    Some((common.to_owned(), state.file_name()?.to_owned()))
}

/// Returns true if the repository says that the workspace `name` lies at `dir`: its record, the
/// mark of a move that was killed, or its administrative directory, which a killed removal leaves.
pub fn is_at(common: &Path, name: &OsStr, dir: &Path) -> Result<bool, Error> {
    let is_it = |named: &Path| by_path::realpath_forgiving(named) == by_path::realpath_forgiving(dir);
    if load(common, name)?.is_some_and(|workspace| is_it(&workspace.record.dir)) {
        return Ok(true);
    }
    let read = |path: &Path| by_path::read(path).ok().flatten().unwrap_or_default();
    let mark = read(&directory(common).join(name).join(MOVING));
    if mark.split(|byte| *byte == 0).any(|named| is_it(Path::new(sys::os_str(named)))) {
        return Ok(true);
    }
    // The administrative directory of a sealed workspace's name belongs to another worktree.
    if load(common, name)?.is_some_and(|workspace| workspace.record.sealed.is_some()) {
        return Ok(false);
    }
    let admin = common.join("worktrees").join(name);
    let gitdir = read(&admin.join("gitdir"));
    let gitfile = admin.join(sys::os_str(gitdir.trim_end()));
    Ok(!gitdir.is_empty() && gitfile.parent().is_some_and(is_it))
}

/// The file in the state of a workspace that names both directories while it moves: the old one, a
/// NUL, and the new one.
pub const MOVING: &str = "moving";

/// Returns true if the `.git` file of an unmounted workspace at `dir` says that only processes in
/// its own namespace see its files.
pub fn is_only_joined(dir: &Path) -> bool {
    let content = by_path::read(&dir.join(".git")).ok().flatten().unwrap_or_default();
    content.find(ONLY_JOINED).is_some()
}

fn load(common: &Path, name: &OsStr) -> Result<Option<Workspace>, Error> {
    let state = directory(common).join(name);
    let path = state.join("record");
    let Some(pairs) = repo::settings_in(&path)? else { return Ok(None) };
    let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.to_owned() };
    let all = |key: &str| -> Vec<&BString> {
        let wanted = format!("{SECTION}.{key}");
        pairs.iter().filter(|(found, _)| *found == wanted).map(|(_, value)| value).collect()
    };
    let one = |key: &str| all(key).last().copied();
    if let Some(version) = one("version").filter(|version| *version != VERSION) {
        return Err(Error::Newer { path: path.clone(), version: version.to_string() });
    }
    let path_of = |value: &BString| PathBuf::from(sys::os_str(value));
    let process = |pid: &BString| {
        let pid = pid.to_str().ok().and_then(|pid| pid.parse().ok());
        pid.ok_or_else(|| damaged("it names no process"))
    };
    let dir = one("dir").map(path_of).filter(|dir| dir.is_absolute());
    let backend = one("backend").and_then(|name| Backend::from_name(name));
    let base = match (one("basedir"), one("base")) {
        (Some(dir), Some(name)) => Some(BaseRef { dir: path_of(dir), name: name.to_string() }),
        (None, None) => None,
        _ => return Err(damaged("it names half a base")),
    };
    let record = Record {
        dir: dir.ok_or_else(|| damaged("it names no directory"))?,
        backend: backend.ok_or_else(|| damaged("it names no known backend"))?,
        base,
        layers: all("layer").into_iter().map(path_of).collect(),
        place: one("place").map(path_of),
        durability: one("volatile").map(|_| Durability::Volatile),
        activity: match (one("frozen"), one("begun"), one("check")) {
            (Some(_), ..) => Activity::Frozen,
            (None, Some(pid), _) => Activity::Begun(process(pid)?),
            (None, None, Some(pid)) => Activity::Check(process(pid)?),
            (None, None, None) => Activity::Active,
        },
        sealed: match one("sealed") {
            Some(commit) => {
                let object = |hex: &BString| {
                    let mut kinds = [HashKind::Sha1, HashKind::Sha256].into_iter();
                    let oid = kinds.find_map(|kind| ObjectId::from_hex(kind, hex));
                    oid.ok_or_else(|| damaged("it names no commit"))
                };
                let branch = one("branch").cloned().ok_or_else(|| damaged("it names no branch"))?;
                let landed = match (one("landed"), one("as")) {
                    (Some(tip), Some(new)) => Some(Landed { tip: object(tip)?, new: object(new)? }),
                    _ => None,
                };
                Some(Sealed { branch, commit: object(commit)?, landed })
            }
            None => None,
        },
        door: one("service").map_or(Door::Own, |socket| Door::Service(path_of(socket))),
        project: match one("project").map(|id| id.to_str().ok().and_then(|id| id.parse().ok())) {
            Some(None) => return Err(damaged("it names no project")),
            found => found.flatten(),
        },
    };
    Ok(Some(Workspace { name: name.to_owned(), state, record }))
}

const SECTION: &str = "workspace";
/// The version of the format. A record of this version does not name it.
const VERSION: &str = "1";

fn write(state: &Path, record: &Record, fsync: &Fsync) -> Result<(), Error> {
    let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
    let mut edits = Vec::new();
    let mut add = |key: &str, value: BString| {
        edits.push(Edit::Add { key: format!("{SECTION}.{key}").into(), value });
    };
    add("dir", bytes(&record.dir));
    add("backend", record.backend.name().into());
    if let Some(base) = &record.base {
        add("baseDir", bytes(&base.dir));
        add("base", base.name.as_str().into());
    }
    record.layers.iter().for_each(|layer| add("layer", bytes(layer)));
    if let Some(place) = &record.place {
        add("place", bytes(place));
    }
    if record.durability == Some(Durability::Volatile) {
        add("volatile", "true".into());
    }
    match record.activity {
        Activity::Active => {}
        Activity::Frozen => add("frozen", "true".into()),
        Activity::Begun(pid) => add("begun", pid.to_string().into()),
        Activity::Check(pid) => add("check", pid.to_string().into()),
    }
    if let Some(Sealed { branch, commit, landed }) = &record.sealed {
        add("sealed", commit.to_string().into());
        add("branch", branch.clone());
        if let Some(Landed { tip, new }) = landed {
            add("landed", tip.to_string().into());
            add("as", new.to_string().into());
        }
    }
    if let Door::Service(socket) = &record.door {
        add("service", bytes(socket));
    }
    if let Some(project) = record.project {
        add("project", project.to_string().into());
    }
    let content = format::config::edit(b"", &edits).map_err(store::config::Error::Key)?;
    let mut lock = Lock::take(&state.join("record"), &LockOptions::default())?;
    lock.write(&content)?;
    Ok(lock.commit_synced(&hardened(fsync), Components::all())?)
}

/// Returns the sync policy for records: they are synced unless syncing is disabled. If a user syncs
/// a file in the upper layer, the record that leads to it must be durable too.
fn hardened(fsync: &Fsync) -> Fsync {
    Fsync { components: Components::all(), ..*fsync }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            dir: "/a dir/\"quoted\"#".into(),
            backend: Backend::OverlayUser,
            base: Some(BaseRef { dir: "/bases".into(), name: "12ab".into() }),
            layers: vec!["/one;".into(), "/two\\".into()],
            place: Some("/elsewhere".into()),
            durability: Some(Durability::Volatile),
            activity: Activity::Frozen,
            sealed: Some(Sealed {
                branch: "refs/heads/one \"two\"".into(),
                commit: ObjectId::null(HashKind::Sha256),
                landed: Some(Landed {
                    tip: ObjectId::null(HashKind::Sha256),
                    new: ObjectId::null(HashKind::Sha256),
                }),
            }),
            door: Door::Service("/run/a socket".into()),
            project: Some(1 << 30),
        }
    }

    #[test]
    fn reads_back_every_field() {
        let common = tempfile::tempdir().expect("a directory for tests");
        let place = common.path().join("place");
        let record = Record { place: Some(place.clone()), project: None, ..record() };
        let make = || {
            let shared = SharedRepository::Umask;
            create(common.path(), "one".as_ref(), record.clone(), None, shared, &Fsync::default())
                .map(|(workspace, _)| workspace)
        };
        let made = make().expect("created");
        assert_eq!(find(common.path(), "one".as_ref()).expect("found"), made);
        assert!(matches!(by_path::stat(&place.join("upper")), Ok(Some(_))));
        assert!(matches!(make(), Err(Error::Exists(_))));
        // A workspace of another repository, with the same name and place.
        let other = tempfile::tempdir().expect("a directory for tests");
        let shared = SharedRepository::Umask;
        let second = create(other.path(), "one".as_ref(), record.clone(), None, shared, &Fsync::default());
        let (second, _) = second.expect("created");
        assert_ne!(second.upper(), made.upper());
        assert_eq!(by_path::list(common.path()).expect("listed").len(), 3, "two places, no leftover");
        let names: Vec<_> = all(common.path()).expect("listed").into_iter().flatten().collect();
        assert_eq!(names, [made]);
        assert!(matches!(find(common.path(), "two".as_ref()), Err(Error::Missing(_))));
    }

    #[test]
    fn reads_back_who_makes_a_workspace() {
        let reason = initializing(Path::new("/a b/c"));
        assert_eq!(parse_initializing(&reason), Some((std::process::id().into(), "/a b/c".into())));
        assert_eq!(parse_initializing(LOCK_REASON.as_bytes()), None);
        assert_eq!(parse_initializing(b"initializing"), None);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn recognises_an_unmounted_workspace() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let holding = |content: &[u8]| {
            std::fs::write(dir.path().join(".git"), content).expect("written");
            unmounted_at(dir.path())
        };
        let state = "/r/.git/sapwood/workspaces/w 1".into();
        let workspace = Workspace { name: "w 1".into(), state, record: record() };
        assert_eq!(holding(&workspace.unmounted_gitfile()), Some(("/r/.git".into(), "w 1".into())));
        assert_eq!(holding(b"gitdir: /r/.git/worktrees/w\n"), None);
        let fifo = dir.path().join("fifo");
        std::fs::create_dir(&fifo).expect("created");
        let made = std::process::Command::new("mkfifo").arg(fifo.join(".git")).status();
        assert!(made.expect("mkfifo runs").success());
        assert_eq!(unmounted_at(&fifo), None);
    }
}
