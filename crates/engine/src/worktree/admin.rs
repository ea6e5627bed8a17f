//! The administrative directory of a worktree, and the two files by which it and the worktree name each other.
//!
//! Order: the directory, with `locked` in it, so that nobody prunes it; the rest is the caller's. On failure the
//! caller removes what [`make`] returned.

use std::{
    cell::Cell,
    ffi::{OsStr, OsString},
    io::{self, ErrorKind, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    sync::atomic::AtomicBool,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::config::Edit;
use store::{Fsync, Lock, LockOptions, SharedRepository};
use sys::{Dir, by_path};

use super::{Error, canonical};
use crate::trash;

/// How a worktree and its administrative directory name each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Links {
    Absolute,
    Relative,
}

/// A new administrative directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// `worktrees/<id>` in the common directory.
    pub dir: PathBuf,
    /// Its name.
    pub id: OsString,
}

/// Makes a directory `worktrees/<name>` in `common`, or with a number after the name: the first that nobody has, however
/// many do the same at once. It is locked with `reason`, from the first moment it is there: a prune that met it before it
/// was locked would take it away, and somebody else would get its name. As with Git, the repository's permissions are those of
/// `worktrees`, and the new directory has from there no more than the group.
pub fn make(common: &Path, name: &BStr, reason: &[u8], shared: SharedRepository) -> Result<Admin, Error> {
    let all = common.join("worktrees");
    let failed = |source| Error::Directory { path: all.join(sys::os_str(name)), source };
    let staged = stage(common, shared).map_err(failed)?;
    let locked = staged.join("locked");
    let made = write_new(&locked, &line_of(reason))
        .map_err(|source| Error::Write { path: locked.clone(), source })
        .and_then(|()| publish(&staged, &all, name, shared));
    if made.is_err() {
        let _ = by_path::remove_dir_all(&staged);
    }
    let _ = by_path::remove_dir(&common.join(PRIVATE));
    made
}

/// Gives a directory that is ready the first free name.
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
            // Who removes the last worktree removes the directory around it, also under our hands.
            Err(error) if error.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {
                attempts += 1;
                match shared.create_dir_all(all) {
                    // Made by somebody, and removed again.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made.map_err(|source| Error::Leading { path: dir.clone(), source })?,
                }
            }
            Err(source) => return Err(Error::Directory { path: dir, source }),
        }
    }
}

/// Where directories are that nobody else is to see: in the common directory, beside the trash.
const PRIVATE: &str = "sapwood";
/// How the name of one begins.
const STAGED: &str = "worktree-";

/// A new directory of our own in `common`.
fn stage(common: &Path, shared: SharedRepository) -> io::Result<PathBuf> {
    let all = common.join(PRIVATE);
    let mut number = 0;
    loop {
        let dir = all.join(format!("{STAGED}{}-{number}", std::process::id()));
        match by_path::create_dir(&dir) {
            Ok(()) => {
                sweep(&all, &dir);
                return Ok(dir);
            }
            Err(error) if error.kind() == ErrorKind::NotFound && number < ATTEMPTS => {
                match shared.create_dir_all(&all) {
                    // Made by somebody, and removed again.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made?,
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
        number += 1;
    }
}

/// Nobody needs a directory of this kind for so long, in seconds.
const ABANDONED: i64 = 3600;

/// Removes what killed processes left beside `newest`, as far as that can be done. Ages are by the clock of the disk.
fn sweep(all: &Path, newest: &Path) {
    let written = |path: &Path| by_path::stat(path).ok().flatten().map(|stat| stat.mtime.0);
    let Some(now) = written(newest) else { return };
    for (name, _) in by_path::list(all).unwrap_or_default() {
        let dir = all.join(&name);
        let is_old = || written(&dir).is_some_and(|then| now - then > ABANDONED);
        if name.as_bytes().starts_with(STAGED.as_bytes()) && is_old() {
            let _ = by_path::remove_dir_all(&dir);
        }
    }
}

/// What was found at a place, to be told from what others put there later.
#[derive(Debug)]
pub enum Found {
    /// A directory, held: its inode number cannot become another's.
    Directory(Dir),
    /// Something that is no directory, or may not be opened.
    Other,
    /// Nothing.
    Gone,
}

impl Found {
    /// Looks.
    pub fn at(path: &Path) -> Found {
        match Dir::open(path) {
            Ok(dir) => Found::Directory(dir),
            Err(error) if error.kind() == ErrorKind::NotFound => Found::Gone,
            Err(_) => Found::Other,
        }
    }

    /// Whether it still is what is at `path`, as far as that can be told.
    pub fn is_at(&self, path: &Path) -> bool {
        match self {
            Found::Directory(dir) => {
                let found = by_path::stat(path).ok().flatten();
                let held = dir.stat_self().ok();
                held.zip(found).is_some_and(|(held, found)| (held.dev, held.ino) == (found.dev, found.ino))
            }
            Found::Other => true,
            Found::Gone => false,
        }
    }
}

/// Removes `worktrees/<id>`, out of everybody's sight: half of it gone, it would be pruned by others, and its name given
/// away, while we are at it. If it cannot be deleted it is put back; so is what is not the directory `meant` any more, since others
/// may have pruned that and given its name to a new one.
pub fn delete(
    common: &Path,
    id: &OsStr,
    meant: &Found,
    shared: SharedRepository,
    interrupt: &AtomicBool,
) -> Result<(), trash::Error> {
    let place = common.join("worktrees").join(id);
    let remove = |dir: &Path, name: &OsStr| {
        let name = name.as_bytes().as_bstr();
        let stuck = |source| trash::Error::Stuck(vec![trash::Stuck { path: name.to_owned(), source }]);
        trash::remove(&Dir::open(dir).map_err(stuck)?, name, 1, interrupt)
    };
    // Asked before, because who works in another would miss it while it is away.
    if !meant.is_at(&place) {
        return Ok(());
    }
    let Ok(away) = stage(common, shared) else { return remove(&common.join("worktrees"), id) };
    let moved = away.join(id);
    let removed = match by_path::rename(&place, &moved) {
        Ok(()) if !meant.is_at(&moved) => {
            let _ = by_path::rename_new(&moved, &place);
            Ok(())
        }
        Ok(()) => remove(&away, id).inspect_err(|_| drop(by_path::rename_new(&moved, &place))),
        Err(_) => remove(&common.join("worktrees"), id),
    };
    let _ = by_path::remove_dir(&away);
    let _ = by_path::remove_dir(&common.join(PRIVATE));
    removed
}

/// How often something that vanished is made again.
const ATTEMPTS: u32 = 100;

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    by_path::create_new(path, 0o666)?.write_all(content)
}

/// A text with a newline at its end, unless it is empty.
fn line_of(text: &[u8]) -> Vec<u8> {
    let end: &[u8] = if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" };
    [text, end].concat()
}

/// Writes a small file of an administrative directory, with a newline at its end. One that is there is replaced whole, and
/// keeps its permissions.
pub fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    let line = line_of(text);
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

/// Writes the two names, and before the first relative one that the repository has such.
#[derive(Debug)]
pub struct Linker {
    /// How.
    pub links: Links,
    /// The repository's configuration: `config` in the common directory.
    pub config: PathBuf,
    /// `core.repositoryFormatVersion`
    pub version: Option<i32>,
    /// An extension that is not known: with version 1 nobody could open the repository any more.
    pub unknown: Option<BString>,
    /// `extensions.relativeWorktrees`: older versions of Git are kept away already.
    pub extended: Cell<bool>,
    /// How the configuration is locked.
    pub locks: LockOptions,
    /// What is synced.
    pub fsync: Fsync,
}

impl Linker {
    /// Makes the worktree at `top` and its administrative directory `admin` name each other. Both are there.
    pub fn link(&self, top: &Path, admin: &Path) -> Result<(), Error> {
        let (top, admin) = (canonical(top)?, canonical(admin)?);
        let (to_top, to_admin) = match self.links {
            Links::Absolute => (top.clone(), admin.clone()),
            Links::Relative => {
                self.extend()?;
                (relative(&top, &admin), relative(&admin, &top))
            }
        };
        let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
        write(&admin.join("gitdir"), &bytes(&to_top.join(".git")))?;
        write(&top.join(".git"), &[b"gitdir: ", bytes(&to_admin).as_bytes()].concat())
    }

    fn extend(&self) -> Result<(), Error> {
        if self.extended.get() {
            return Ok(());
        }
        let set = |key: &str, value: &str| Edit::Set { key: key.into(), value: value.into() };
        let mut edits = Vec::new();
        if let (Some(0), Some(unknown)) = (self.version, &self.unknown) {
            return Err(Error::Upgrade(unknown.clone()));
        }
        if self.version.unwrap_or(0) < 1 {
            edits.push(set("core.repositoryformatversion", "1"));
        }
        edits.push(set("extensions.relativeWorktrees", "true"));
        store::config::edit(&self.config, &edits, &self.locks, &self.fsync)?;
        self.extended.set(true);
        Ok(())
    }
}

/// The way from the directory `from` to `to`, both absolute and without links.
pub fn relative(to: &Path, from: &Path) -> PathBuf {
    let shared = to.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways() {
        for (to, from, way) in [
            ("/a/b", "/a/c/d", "../../b"),
            ("/a/b/c", "/a/b", "c"),
            ("/a", "/a/b", ".."),
            ("/a/bb", "/a/b", "../bb"),
        ] {
            assert_eq!(relative(to.as_ref(), from.as_ref()), Path::new(way), "{to} from {from}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn what_killed_processes_left_goes_in_time() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let dirs =
            ["worktree-1-0", "worktree-2-0", "trash"].map(|name| place.path().join(PRIVATE).join(name));
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
    fn names_are_taken_once() {
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
