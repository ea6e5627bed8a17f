//! The administrative directory of a worktree, and the two files by which it and the worktree refer
//! to each other.
//!
//! Order: first the directory with its `locked` file, so that no process prunes it, and with
//! `commondir`, then the caller's files. On failure the caller removes the directory that [`make`]
//! returned.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    io::{self, ErrorKind, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::config::Edit;
use repo::keys;
use store::{Fsync, Lock, LockOptions, SharedRepository};
use sys::{Dir, File, by_path};

use super::{Error, canonical};
use crate::{files::whole::Doomed, trash};

/// The form of the paths by which a worktree and its administrative directory refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Links {
    Absolute,
    Relative,
}

/// A new administrative directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The path `worktrees/<id>` in the common directory.
    pub dir: PathBuf,
    /// The name of the directory.
    pub id: OsString,
}

/// Creates a directory `worktrees/<name>` in `common`. A number is appended if the name is taken;
/// concurrent callers get different names. The directory appears under its name with a `locked`
/// file that contains `reason`. Without that lock, a concurrent prune could remove it, and another
/// process could get its name. It also has its `commondir`: at an empty one, which a kill could
/// leave, Git fails in each command that reads all worktrees. As with Git, the repository's
/// permissions apply to `worktrees`, and the new directory inherits only the group from it.
pub fn make(common: &Path, name: &BStr, reason: &[u8], shared: SharedRepository) -> Result<Admin, Error> {
    let all = common.join("worktrees");
    let failed = |source| Error::Directory { path: all.join(sys::os_str(name)), source };
    let staged = stage(common, shared).map_err(failed)?;
    let made = write(&staged.join("locked"), reason)
        .and_then(|()| write(&staged.join("commondir"), b"../.."))
        .and_then(|()| publish(&staged, &all, name, shared));
    if made.is_err() {
        let _ = by_path::remove_dir_all(&staged);
    }
    let _ = by_path::remove_dir(&common.join(PRIVATE_DIR));
    made
}

/// Renames a complete directory to the first free name.
fn publish(staged: &Path, all: &Path, name: &BStr, shared: SharedRepository) -> Result<Admin, Error> {
    let mut number = 0u32;
    let mut attempts = 0;
    loop {
        let mut id = sys::os_str(name).to_owned();
        if number > 0 {
            id.push(number.to_string());
        }
        let dir = all.join(&id);
        match by_path::rename_new(staged, &dir) {
            Ok(()) => return Ok(Admin { dir, id }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            // A process that removes the last worktree also removes `worktrees`, possibly at the
            // same time.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts < MAX_RETRIES => {
                attempts += 1;
                match shared.create_dir_all(all) {
                    // Another process created `worktrees` and removed it again.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made.map_err(|source| Error::Leading { path: dir.clone(), source })?,
                }
            }
            Err(source) => return Err(Error::Directory { path: dir, source }),
        }
    }
}

/// The private directory in the common directory. It also contains the trash.
const PRIVATE_DIR: &str = "sapwood";
/// The prefix of a staged directory's name.
const STAGED_PREFIX: &str = "worktree-";

/// Creates a private directory in `common`.
fn stage(common: &Path, shared: SharedRepository) -> io::Result<PathBuf> {
    let all = common.join(PRIVATE_DIR);
    let mut number = 0;
    loop {
        let dir = all.join(format!("{STAGED_PREFIX}{}-{number}", std::process::id()));
        match by_path::create_dir(&dir) {
            Ok(()) => {
                remove_abandoned(&all, &dir);
                return Ok(dir);
            }
            Err(error) if error.kind() == ErrorKind::NotFound && number < MAX_RETRIES => {
                match shared.create_dir_all(&all) {
                    // Another process created the directory and removed it again.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made?,
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MAX_RETRIES => {}
            Err(error) => return Err(error),
        }
        number += 1;
    }
}

/// Age in seconds from which a private directory counts as abandoned by a killed process.
const ABANDONED_AGE: i64 = 3600;

/// Removes private directories that killed processes left next to `newest`. Errors are ignored.
/// Ages are computed with the clock of the disk.
fn remove_abandoned(all: &Path, newest: &Path) {
    let written = |path: &Path| by_path::stat(path).ok().flatten().map(|stat| stat.mtime.0);
    let Some(now) = written(newest) else { return };
    for (name, _) in by_path::list(all).unwrap_or_default() {
        let dir = all.join(&name);
        let is_old = || written(&dir).is_some_and(|then| now - then > ABANDONED_AGE);
        if name.as_bytes().starts_with(STAGED_PREFIX.as_bytes()) && is_old() {
            let _ = by_path::remove_dir_all(&dir);
        }
    }
}

/// The state of a path, to detect later whether another process has replaced it.
#[derive(Debug)]
pub enum Found {
    /// A directory. The open handle keeps its inode number from being reused.
    Directory(Dir),
    /// A file, or a directory that cannot be opened.
    Other,
    /// The path is missing.
    Missing,
}

impl Found {
    /// Opens the directory at `path`.
    pub fn at(path: &Path) -> Found {
        match Dir::open(path) {
            Ok(dir) => Found::Directory(dir),
            Err(error) if error.kind() == ErrorKind::NotFound => Found::Missing,
            Err(_) => Found::Other,
        }
    }

    /// Returns true if the path still refers to the same directory. Always true for
    /// [`Found::Other`], which cannot be compared.
    pub fn is_at(&self, path: &Path) -> bool {
        match self {
            Found::Directory(dir) => {
                let found = by_path::stat(path).ok().flatten();
                let held = dir.stat_self().ok();
                held.zip(found).is_some_and(|(held, found)| (held.dev, held.ino) == (found.dev, found.ino))
            }
            Found::Other => true,
            Found::Missing => false,
        }
    }
}

/// Removes `worktrees/<id>`. The directory is first moved into a private one, because other
/// processes would prune a half-deleted directory and reuse its name. It is moved back if it cannot
/// be deleted, or if it is not the directory `expected`: another process may have pruned that one
/// and reused its name.
pub fn delete(
    common: &Path,
    id: &OsStr,
    expected: &Found,
    shared: SharedRepository,
    interrupt: &AtomicBool,
) -> Result<(), trash::Error> {
    let place = common.join("worktrees").join(id);
    let remove = |dir: &Path, name: &OsStr| {
        let stuck = |source| {
            trash::Error::Unremovable(vec![trash::Unremovable { path: name.as_bytes().into(), source }])
        };
        trash::remove(&Doomed::own(&dir.join(name)).map_err(stuck)?, 1, interrupt)
    };
    let lock = lock_of_removal(&place);
    if !expected.is_at(&place) {
        return Ok(());
    }
    let Ok(away) = stage(common, shared) else { return remove(&common.join("worktrees"), id) };
    let moved = away.join(id);
    let removed = match by_path::rename(&place, &moved) {
        Ok(()) if !expected.is_at(&moved) => {
            let _ = by_path::rename_new(&moved, &place);
            Ok(())
        }
        Ok(()) => remove(&away, id).inspect_err(|_| drop(by_path::rename_new(&moved, &place))),
        Err(_) => remove(&common.join("worktrees"), id),
    };
    drop(lock);
    let _ = by_path::remove_dir(&away);
    let _ = by_path::remove_dir(&common.join(PRIVATE_DIR));
    removed
}

/// Two removers of one directory must not both move it: the second one would move the directory
/// that a third process has created under the name, while that process works in it. Waits at most a
/// second: any user who may read the directory can hold its lock for ever. Without the lock, the
/// comparisons of the directory are left.
fn lock_of_removal(place: &Path) -> Option<File> {
    const TRIES: u32 = 50;
    // The name fails for a FIFO, whose open would wait for a writer.
    let dir = by_path::open(&place.join(".")).ok()?;
    for _ in 0..TRIES {
        if sys::try_lock(&dir).ok()? {
            return Some(dir);
        }
        sys::interrupt::check().ok()?;
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Limit of retries after a directory vanished.
const MAX_RETRIES: u32 = 100;

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    by_path::create_new(path, 0o666)?.write_all(content)
}

/// Appends a newline to a text, unless it is empty or ends with one.
fn with_newline(text: &[u8]) -> Vec<u8> {
    let end: &[u8] = if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" };
    [text, end].concat()
}

/// Writes a small file of an administrative directory, with a newline at its end. An existing file
/// is replaced atomically and keeps its permissions.
pub fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    let line = with_newline(text);
    match write_new(path, &line) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let mut lock = Lock::take(path, &LockOptions::default())?;
            lock.keep_mode()?;
            lock.write(&line)?;
            Ok(lock.commit_synced(&Fsync::default(), store::Components::empty())?)
        }
        answer => answer.map_err(|source| Error::Write { path: path.to_owned(), source }),
    }
}

/// Writes the two files that link a worktree and its administrative directory. Before the first
/// relative path it sets `extensions.relativeWorktrees`.
#[derive(Debug)]
pub struct Linker {
    /// The form of the paths.
    pub links: Links,
    /// The path of the repository's configuration: `config` in the common directory.
    pub config: PathBuf,
    /// `core.repositoryFormatVersion`
    pub version: Option<i32>,
    /// An extension that sapwood does not know. With format version 1, no program could open the
    /// repository.
    pub unknown: Option<BString>,
    /// True if `extensions.relativeWorktrees` is set, which keeps older versions of Git from
    /// opening the repository.
    pub extended: Cell<bool>,
    /// The lock options for the configuration.
    pub locks: LockOptions,
    /// The fsync policy.
    pub fsync: Fsync,
}

impl Linker {
    /// Writes the files by which the worktree at `top` and its administrative directory `admin`
    /// refer to each other. Both directories must exist.
    pub fn link(&self, top: &Path, admin: &Path) -> Result<(), Error> {
        self.link_through(&top.join(".git"), top, admin)
    }

    /// Like [`Linker::link`], for a worktree that is not mounted yet. Its file `.git` has the path
    /// `gitfile`.
    pub fn link_through(&self, gitfile: &Path, top: &Path, admin: &Path) -> Result<(), Error> {
        let (top, admin) = (canonical(top)?, canonical(admin)?);
        let (to_top, to_admin) = match self.links {
            Links::Absolute => (top.clone(), admin.clone()),
            Links::Relative => {
                self.enable_relative_links()?;
                (relative(&top, &admin), relative(&admin, &top))
            }
        };
        let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
        write(&admin.join("gitdir"), &bytes(&to_top.join(".git")))?;
        write(gitfile, &[b"gitdir: ", bytes(&to_admin).as_bytes()].concat())
    }

    fn enable_relative_links(&self) -> Result<(), Error> {
        if self.extended.get() {
            return Ok(());
        }
        let set = |key: String, value: &str| Edit::Set { key: key.into(), value: value.into() };
        let mut edits = Vec::new();
        if let (Some(0), Some(unknown)) = (self.version, &self.unknown) {
            return Err(Error::Upgrade(unknown.clone()));
        }
        if self.version.unwrap_or(0) < 1 {
            edits.push(set(keys::core::REPOSITORY_FORMAT_VERSION.lower(), "1"));
        }
        edits.push(set(keys::extensions::RELATIVE_WORKTREES.name().to_owned(), "true"));
        store::config::edit(&self.config, &edits, &self.locks, &self.fsync)?;
        self.extended.set(true);
        Ok(())
    }
}

/// Returns the relative path from the directory `from` to `to`. Both must be absolute and without
/// symbolic links.
pub fn relative(to: &Path, from: &Path) -> PathBuf {
    let shared = to.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_relative_paths() {
        for (to, from, relative_path) in [
            ("/a/b", "/a/c/d", "../../b"),
            ("/a/b/c", "/a/b", "c"),
            ("/a", "/a/b", ".."),
            ("/a/bb", "/a/b", "../bb"),
        ] {
            assert_eq!(relative(to.as_ref(), from.as_ref()), Path::new(relative_path), "{to} from {from}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_new_directory_is_locked_and_names_the_common_directory() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let made = make(place.path(), "new".into(), b"why", SharedRepository::Umask).expect("made");
        for (name, content) in [("locked", "why\n"), ("commondir", "../..\n")] {
            assert_eq!(std::fs::read_to_string(made.dir.join(name)).expect("written"), content, "{name}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn removes_abandoned_private_directories() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let dirs =
            ["worktree-1-0", "worktree-2-0", "trash"].map(|name| place.path().join(PRIVATE_DIR).join(name));
        for dir in &dirs {
            std::fs::create_dir_all(dir.join("locked")).expect("made");
        }
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        for dir in [&dirs[0], &dirs[2]] {
            let dir = std::fs::File::open(dir).expect("there");
            dir.set_modified(long_ago).expect("it is ours");
        }
        make(place.path(), "new".into(), b"why", SharedRepository::Umask).expect("made");
        assert_eq!(dirs.map(|dir| dir.exists()), [false, true, true]);
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_second_remover_never_moves_a_newer_directory() {
        use std::os::unix::fs::MetadataExt as _;

        let place = tempfile::tempdir().expect("a directory for tests");
        let make = || make(place.path(), "same".into(), b"why", SharedRepository::Umask).expect("made");
        let old = make();
        let expected = Found::at(&old.dir);
        let first_remover = by_path::open(&old.dir).expect("there");
        sys::lock(&first_remover).expect("locked");
        thread::scope(|scope| {
            let (common, expected, interrupt) = (place.path(), &expected, AtomicBool::new(false));
            let second_remover = scope.spawn(move || {
                delete(common, "same".as_ref(), expected, SharedRepository::Umask, &interrupt)
            });
            thread::sleep(Duration::from_millis(100));
            std::fs::rename(&old.dir, place.path().join("away")).expect("the second remover waits");
            let new = make();
            let stat = |path: &Path| std::fs::metadata(path).expect("there");
            let before = stat(&new.dir);
            drop(first_remover);
            second_remover.join().expect("no panic").expect("nothing to do");
            let after = stat(&new.dir);
            // A rename changes this time.
            let changed = |stat: &std::fs::Metadata| (stat.ino(), stat.ctime(), stat.ctime_nsec());
            assert_eq!(changed(&after), changed(&before));
        });
    }

    #[test]
    fn a_lock_that_another_user_holds_and_a_fifo_stop_no_removal() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let made = make(place.path(), "locked".into(), b"why", SharedRepository::Umask).expect("made");
        let held = by_path::open(&made.dir).expect("there");
        sys::lock(&held).expect("locked");
        let fifo = made.dir.with_file_name("fifo");
        let made_fifo = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made_fifo.expect("mkfifo runs").success());
        for name in ["locked", "fifo"] {
            let at = made.dir.with_file_name(name);
            let interrupt = AtomicBool::new(false);
            delete(place.path(), name.as_ref(), &Found::at(&at), SharedRepository::Umask, &interrupt)
                .expect("removed");
            assert!(matches!(by_path::stat(&at), Ok(None)), "{name}");
        }
    }

    #[test]
    fn concurrent_callers_get_different_names() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let mut made: Vec<OsString> = std::thread::scope(|scope| {
            let make =
                || make(place.path(), "same".into(), b"why", SharedRepository::Umask).expect("made").id;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 8);
        assert!(made.contains(&"same".into()));
        let locked = by_path::read(&place.path().join("worktrees/same/locked")).expect("read");
        assert_eq!(locked.as_deref(), Some(&b"why\n"[..]));
    }
}
