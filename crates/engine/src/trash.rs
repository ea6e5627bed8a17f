//! Removing directories with all they hold: at once, by way of a trash, or in parallel.
//!
//! Promise: nothing outside of what was named is touched; no symbolic link is followed; no other file system and no
//! mount point is entered. What cannot be removed is reported by path, and everything above it stays.
//!
//! [`Trash::discard`] goes in this order:
//!
//! 1. *Examine*: the tree is walked without a change. Whatever could keep a part of it from being deleted later (a
//!    directory we may not write, something immutable, a mount point, others' files in a sticky directory) or little to
//!    delete at all makes it a removal in the foreground, with its errors.
//! 2. *Rename* into `<Git directory>/sapwood/trash/`, one system call: from here on it is gone for everybody. If that
//!    fails (another file system, a read-only parent), the foreground again.
//! 3. Deleting is another process's business, by [`empty`]: the caller starts it. If it is killed, whoever next
//!    asks [`is_waiting`] starts another.
//!
//! Design, and what was rejected: docs/design/worktree.md.

use std::{
    collections::HashSet,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice as _};
use store::SharedRepository;
use sys::{Dir, FileType, Hold, Tenure, by_path};

use crate::parallel;

/// Less than this is deleted sooner than somebody else is asked to.
const WORTH_IT: usize = 256;
const DIRECTORIES_PER_THREAD: usize = 4;

/// Something that could not be removed.
#[derive(Debug)]
pub struct Stuck {
    /// Where, relative to the directory that was worked from.
    pub path: BString,
    /// Why.
    pub source: io::Error,
}

/// How something went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It is deleted.
    Deleted,
    /// It waits in the trash.
    Discarded,
}

/// How a removal ended that did not end well.
#[derive(Debug)]
pub enum Error {
    /// These are still there, and the directories above them; in the order of their paths, never empty.
    Stuck(Vec<Stuck>),
    /// The flag that was given was raised; some things are removed.
    Interrupted,
}

/// The trash of a repository, as one command uses it.
pub struct Trash<'a> {
    git_dir: PathBuf,
    shared: SharedRepository,
    workers: usize,
    interrupt: &'a AtomicBool,
    batch: Batch,
    discarded: usize,
}

/// The directory that takes what this command discards.
enum Batch {
    Unmade,
    Made(Dir),
    Impossible,
}

impl<'a> Trash<'a> {
    /// The trash in `git_dir`, the directory that all worktrees share. Nothing is made before it is needed. `shared` gives
    /// the permissions, `workers` is the number of threads, `interrupt` stops.
    pub fn new(
        git_dir: &Path,
        shared: SharedRepository,
        workers: usize,
        interrupt: &'a AtomicBool,
    ) -> Trash<'a> {
        Trash {
            git_dir: git_dir.to_owned(),
            shared,
            workers: workers.max(1),
            interrupt,
            batch: Batch::Unmade,
            discarded: 0,
        }
    }

    /// Removes the directory `path` beneath `root` with all it holds, or the one file or link it is. Nothing there is
    /// no error.
    pub fn discard(&mut self, root: &Dir, path: &BStr) -> Result<Gone, Error> {
        if is_worth_it(root, path, self.workers) && self.take(root, path) {
            self.discarded += 1;
            return Ok(Gone::Discarded);
        }
        remove(root, path, self.workers, self.interrupt)?;
        Ok(Gone::Deleted)
    }

    /// Whether something was discarded: somebody is to [`empty`] the trash.
    pub fn is_used(&self) -> bool {
        self.discarded > 0
    }

    fn take(&mut self, root: &Dir, path: &BStr) -> bool {
        for _ in 0..ATTEMPTS {
            if let Batch::Unmade = self.batch {
                self.batch = new_batch(&self.git_dir, self.shared).map_or(Batch::Impossible, Batch::Made);
            }
            let Batch::Made(batch) = &self.batch else { return false };
            match root.rename_into(path, batch, self.discarded.to_string().as_bytes()) {
                Ok(()) => return true,
                // Whoever empties the trash took the batch for an old one while it was empty.
                Err(error) if error.kind() == ErrorKind::NotFound => self.batch = Batch::Unmade,
                Err(_) => return false,
            }
        }
        false
    }
}

/// How often something is tried again that somebody else's work at the same moment made fail.
const ATTEMPTS: usize = 10;

fn trash_of(git_dir: &Path) -> PathBuf {
    git_dir.join("sapwood/trash")
}

/// A directory in the trash that nobody else puts anything into.
fn new_batch(git_dir: &Path, shared: SharedRepository) -> io::Result<Dir> {
    let trash = trash_of(git_dir);
    let mut number = 0;
    loop {
        let batch = trash.join(format!("{}-{number}", std::process::id()));
        match shared.create_dir(&batch) {
            Ok(()) => return Dir::open(&batch),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Or emptied and removed since.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                shared.create_dir_all(&trash)?;
            }
            Err(error) => return Err(error),
        }
        number += 1;
        if number == MOST_ATTEMPTS {
            return Err(ErrorKind::AlreadyExists.into());
        }
    }
}

/// Names tried for a batch: processes of other machines and containers may have our number.
const MOST_ATTEMPTS: usize = 1000;

/// Whether something lies in the trash of `git_dir` and nobody is deleting it.
pub fn is_waiting(git_dir: &Path) -> bool {
    by_path::open(&trash_of(git_dir)).and_then(|trash| sys::try_lock(&trash)).unwrap_or(false)
}

/// Deletes what is in the trash of `git_dir`, and the trash, unless somebody else is at it: who then also deletes
/// what is discarded meanwhile.
pub fn empty(git_dir: &Path, workers: usize, interrupt: &AtomicBool) -> Result<(), Error> {
    let path = trash_of(git_dir);
    let stuck =
        |source| Error::Stuck(vec![Stuck { path: path.as_os_str().as_encoded_bytes().into(), source }]);
    let lock = match by_path::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(stuck)?,
    };
    if !sys::try_lock(&lock).map_err(stuck)? {
        return Ok(());
    }
    let trash = Dir::open(&path).map_err(stuck)?;
    let mut failed = 0;
    loop {
        // Who adds something makes the directory anew once it is gone, and it goes only while it is empty.
        match by_path::remove_dir(&path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
        for (name, _) in trash.list().map_err(stuck)? {
            match remove(&trash, name.as_bstr(), workers, interrupt) {
                // A batch may have been filled while it was looked at.
                Err(Error::Stuck(_)) if failed < ATTEMPTS => failed += 1,
                removed => removed?,
            }
        }
    }
    // What else is in it stays.
    let _ = path.parent().map(by_path::remove_dir);
    Ok(())
}

/// Removes the directory `path` beneath `root` with all it holds, or the one file or link it is, now. Nothing there is no error.
pub fn remove(root: &Dir, path: &BStr, workers: usize, interrupt: &AtomicBool) -> Result<(), Error> {
    let one = |source| Error::Stuck(vec![Stuck { path: path.to_owned(), source }]);
    match root.tenure(path).map_err(one)? {
        None => return Ok(()),
        Some(found) if found.file_type != FileType::Directory => {
            return absent_is_removed(root.remove_file(path)).map_err(one);
        }
        Some(_) => {}
    }
    let stuck = Mutex::new(Vec::new());
    let report = |path: BString, source| {
        stuck.lock().unwrap_or_else(PoisonError::into_inner).push(Stuck { path, source });
    };
    let levels = descend(root, path, workers, |listing, dir, path, depth| {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // What is mounted here stays: removing the directory will say so.
        if depth > 0 && dir.tenure_self().is_ok_and(|own| own.hold == Hold::Mount) {
            return Ok(Vec::new());
        }
        let (mut below, mut files) = (Vec::new(), Vec::new());
        // A directory that cannot be read may be empty: removing it will tell.
        let _ = listing.read(dir, |entry| {
            let names = if entry.file_type == FileType::Directory { &mut below } else { &mut files };
            names.push(BString::from(entry.name));
            Ok::<_, io::Error>(())
        });
        for name in files {
            if let Err(error) = absent_is_removed(dir.remove_file(&name)) {
                report(join(path, &name), error);
            }
        }
        Ok(below)
    })?;
    let mut stuck = stuck.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut kept: HashSet<BString> = stuck.iter().flat_map(|stuck| above(&stuck.path)).collect();
    for level in levels.iter().rev() {
        let left: Vec<&BString> = level.iter().filter(|path| !kept.contains(*path)).collect();
        let mut states = vec![(); parallel::threads(left.len(), DIRECTORIES_PER_THREAD, workers)];
        let removed = parallel::map(&left, &mut states, |(), path| {
            Ok::<_, Error>(
                absent_is_removed(root.remove_dir(path)).err().map(|error| Mutex::new(Some(error))),
            )
        })?;
        for (path, error) in left.into_iter().zip(removed) {
            if let Some(source) = error.and_then(|error| error.into_inner().ok().flatten()) {
                kept.extend(above(path));
                stuck.push(Stuck { path: path.clone(), source });
            }
        }
    }
    stuck.sort_by(|one, other| one.path.cmp(&other.path));
    if stuck.is_empty() { Ok(()) } else { Err(Error::Stuck(stuck)) }
}

/// The directories above a path.
fn above(path: &BString) -> Vec<BString> {
    path.find_iter("/").map(|slash| path[..slash].into()).collect()
}

fn join(dir: &BStr, name: &[u8]) -> BString {
    bstr::join("/", [dir.as_bytes(), name]).into()
}

fn absent_is_removed(answer: io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        answer => answer,
    }
}

/// Why a tree is not for the trash.
struct NotForTheTrash;

/// Whether all of the directory can surely be deleted by somebody later, and is enough to be worth it.
fn is_worth_it(root: &Dir, path: &BStr, workers: usize) -> bool {
    let Ok(Some(top)) = root.tenure(path) else { return false };
    if top.file_type != FileType::Directory || top.hold != Hold::Free {
        return false;
    }
    let user = sys::user::effective_uid();
    let entries = AtomicUsize::new(0);
    let walked = descend(root, path, workers, |listing, dir, _, _| {
        let own = dir.tenure_self().map_err(|_| NotForTheTrash)?;
        if !dir.may_be_emptied() || own.device != top.device {
            return Err(NotForTheTrash);
        }
        let may_go = |found: &Tenure| {
            found.hold == Hold::Free && (!own.sticky || own.uid == user || found.uid == user)
        };
        let mut below = Vec::new();
        let mut names = Vec::new();
        listing
            .read(dir, |entry| {
                names.push(BString::from(entry.name));
                Ok::<_, io::Error>(())
            })
            .map_err(|_| NotForTheTrash)?;
        entries.fetch_add(names.len(), Ordering::Relaxed);
        for name in names {
            match dir.tenure(&name) {
                Ok(None) => {}
                Ok(Some(found)) if may_go(&found) => {
                    if found.file_type == FileType::Directory {
                        below.push(name);
                    }
                }
                Ok(Some(_)) | Err(_) => return Err(NotForTheTrash),
            }
        }
        Ok(below)
    });
    walked.is_ok() && entries.into_inner() >= WORTH_IT
}

/// Visits the directory `top` beneath `root` and those below it, level by level; `visit` gets each one's handle, path and
/// depth, and answers with the names of the directories in it to go on with. Returns the paths of each level. A directory
/// that is gone, or is none any more, is left out.
fn descend<E: Send>(
    root: &Dir,
    top: &BStr,
    workers: usize,
    visit: impl Fn(&mut sys::Listing, &Dir, &BStr, usize) -> Result<Vec<BString>, E> + Sync,
) -> Result<Vec<Vec<BString>>, E> {
    let mut levels = vec![vec![top.to_owned()]];
    loop {
        let depth = levels.len() - 1;
        let level = &levels[depth];
        let mut states: Vec<sys::Listing> = Vec::new();
        states.resize_with(parallel::threads(level.len(), DIRECTORIES_PER_THREAD, workers), Default::default);
        let found = parallel::map(level, &mut states, |listing, path| match root.open_dir(path) {
            Ok(dir) => visit(listing, &dir, path.as_bstr(), depth),
            // Whoever removes it will be told why it could not be opened.
            Err(_) => Ok(Vec::new()),
        })?;
        let next: Vec<BString> = level
            .iter()
            .zip(found)
            .flat_map(|(path, names)| names.into_iter().map(|name| join(path.as_bstr(), &name)))
            .collect();
        if next.is_empty() {
            return Ok(levels);
        }
        levels.push(next);
    }
}

#[cfg(test)]
#[path = "trash_tests.rs"]
mod tests;
