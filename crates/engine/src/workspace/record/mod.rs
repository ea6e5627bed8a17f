//! The record of a workspace: its backend, base and directories.
//!
//! `<common directory>/sapwood/workspaces/<name>/record` is a file in Git's configuration format
//! with one section, `workspace`. It is replaced atomically. The name of a workspace is the name of
//! its administrative directory, `worktrees/<name>`.

mod directories;
mod search;
mod stored;

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, Trust, Worktree};
use store::Fsync;
use sys::{File, by_path};

pub use directories::{create, remove_abandoned, rename_away};
pub use search::{MOVING, all, find, is_at, is_only_joined, of_git_dir, of_worktree, unmounted_at};
use stored::VERSION;

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
            Err(error) if error.kind() == io::ErrorKind::NotFound => sys::is_running(pid) != Some(false),
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
        stored::write(&self.state, &self.record, fsync)
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

#[cfg(test)]
mod tests {
    use format::HashKind;
    use store::SharedRepository;

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
