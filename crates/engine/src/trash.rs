//! Removal of directories with everything in them: through a trash, or in the foreground and in
//! parallel.
//!
//! Promise: only the named tree is touched. No symbolic link is followed, and no other file system
//! and no mount point is entered. Each path that cannot be removed is reported, and the directories
//! above it stay.
//!
//! [`Trash::discard`] takes these steps:
//!
//! 1. *Examine*: walk the tree without a change. The tree is removed in the foreground, with its
//!    errors, if it is small or if a part of it might not be deletable later: a directory without
//!    write permission, an immutable file, a mount point, another user's file in a sticky
//!    directory.
//! 2. *Rename* the tree into `<Git directory>/sapwood/trash/`, one system call. The tree is then
//!    gone from its old path. If the rename fails (another file system, a read-only parent), remove
//!    the tree in the foreground.
//! 3. *Delete* in another process, which calls [`empty`]. The caller starts it. If it is killed,
//!    the next process that finds [`is_waiting`] true starts another.
//!
//! Design and rejected ideas: docs/design/worktree.md.

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
use sys::{DirMut, FileType, Protection, RemovalFacts, by_path};

use crate::{
    crew::{Meter, parallel},
    files::{own, whole::Doomed},
};

/// Trees with fewer entries are deleted in the foreground: that is faster than starting a process.
const MIN_ENTRIES: usize = 256;
const DIRECTORIES_PER_THREAD: usize = 4;

/// A path that could not be removed.
#[derive(Debug)]
pub struct Unremovable {
    /// The path, relative to the root of the removal.
    pub path: BString,
    /// The reason.
    pub source: io::Error,
}

/// The result of a successful [`Trash::discard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The tree is deleted.
    Deleted,
    /// The tree was moved to the trash, and waits for [`empty`].
    Discarded,
}

/// An incomplete removal.
#[derive(Debug)]
pub enum Error {
    /// These paths and the directories above them still exist. Sorted by path, never empty.
    Unremovable(Vec<Unremovable>),
    /// The interrupt flag was raised. A part of the tree may be removed.
    Interrupted,
}

/// The trash of a repository during one command.
pub struct Trash<'a> {
    git_dir: PathBuf,
    shared: SharedRepository,
    workers: usize,
    interrupt: &'a AtomicBool,
    batch: Batch,
    discarded: usize,
    meter: Option<&'a Meter>,
}

/// The directory in the trash that takes the trees discarded by this command.
enum Batch {
    NotCreated,
    Created(DirMut),
    Unavailable,
}

impl<'a> Trash<'a> {
    /// Creates a trash in `git_dir`, the directory that all worktrees share. The directory on disk
    /// is created when the first tree is discarded. `shared` gives its permissions, `workers` the
    /// number of threads. Raising `interrupt` stops a removal.
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
            batch: Batch::NotCreated,
            discarded: 0,
            meter: None,
        }
    }

    /// Sets a meter that counts the examined entries and the entries removed in the foreground.
    pub fn counting(self, meter: Option<&'a Meter>) -> Trash<'a> {
        Trash { meter, ..self }
    }

    /// Removes a tree: a directory with everything in it, a file or a link. A missing path is no
    /// error.
    pub fn discard(&mut self, doomed: &Doomed) -> Result<Removed, Error> {
        let (root, path) = (doomed.above(), doomed.name());
        if is_discardable(root, path, self.workers, self.meter) && self.move_into_batch(root, path) {
            self.discarded += 1;
            return Ok(Removed::Discarded);
        }
        if let Some(meter) = self.meter {
            meter.restart();
        }
        self.delete(doomed)?;
        Ok(Removed::Deleted)
    }

    /// Removes a tree now, without the trash. A missing path is no error.
    pub fn delete(&self, doomed: &Doomed) -> Result<(), Error> {
        remove_counted(doomed.above(), doomed.name(), self.workers, self.interrupt, self.meter)
    }

    /// Returns true if a tree was discarded. The caller then has to start a process that calls
    /// [`empty`].
    pub fn is_used(&self) -> bool {
        self.discarded > 0
    }

    fn move_into_batch(&mut self, root: &DirMut, path: &BStr) -> bool {
        for _ in 0..MAX_RETRIES {
            if let Batch::NotCreated = self.batch {
                self.batch = new_batch(&self.git_dir, self.shared).map_or(Batch::Unavailable, Batch::Created);
            }
            let Batch::Created(batch) = &self.batch else { return false };
            match root.rename_into(path, batch, self.discarded.to_string().as_bytes()) {
                Ok(()) => return true,
                // A process that empties the trash removed the batch while it was still empty.
                Err(error) if error.kind() == ErrorKind::NotFound => self.batch = Batch::NotCreated,
                Err(_) => return false,
            }
        }
        false
    }
}

/// Limit of retries after a conflict with another process.
const MAX_RETRIES: usize = 10;

fn trash_of(git_dir: &Path) -> PathBuf {
    git_dir.join("sapwood/trash")
}

/// Creates a directory in the trash that no other process uses.
fn new_batch(git_dir: &Path, shared: SharedRepository) -> io::Result<DirMut> {
    let trash = trash_of(git_dir);
    let mut number = 0;
    loop {
        let batch = trash.join(format!("{}-{number}", std::process::id()));
        match shared.create_dir(&batch) {
            Ok(()) => return own::open(&batch),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // The trash does not exist, or another process has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                shared.create_dir_all(&trash)?;
            }
            Err(error) => return Err(error),
        }
        number += 1;
        if number == MAX_BATCH_NAMES {
            return Err(ErrorKind::AlreadyExists.into());
        }
    }
}

/// Limit of names tried for a batch. A process on another machine or in another container may have
/// the same process id.
const MAX_BATCH_NAMES: usize = 1000;

/// Returns true if the trash of `git_dir` exists and no process is emptying it.
pub fn is_waiting(git_dir: &Path) -> bool {
    by_path::open(&trash_of(git_dir)).and_then(|trash| sys::try_lock(&trash)).unwrap_or(false)
}

/// Deletes the content of the trash of `git_dir`, then the trash. Does nothing if another process
/// is emptying it: that process also deletes the trees that are discarded meanwhile.
pub fn empty(git_dir: &Path, workers: usize, interrupt: &AtomicBool) -> Result<(), Error> {
    let path = trash_of(git_dir);
    let stuck = |source| {
        Error::Unremovable(vec![Unremovable { path: path.as_os_str().as_encoded_bytes().into(), source }])
    };
    let lock = match by_path::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(stuck)?,
    };
    if !sys::try_lock(&lock).map_err(stuck)? {
        return Ok(());
    }
    let trash = own::open(&path).map_err(stuck)?;
    let mut failed = 0;
    loop {
        // `remove_dir` succeeds only on an empty trash. A process that discards a tree later
        // creates the trash again.
        match by_path::remove_dir(&path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
        for (name, _) in trash.list().map_err(stuck)? {
            match remove_counted(&trash, name.as_bstr(), workers, interrupt, None) {
                // Another process may have moved a tree into the batch during its removal.
                Err(Error::Unremovable(_)) if failed < MAX_RETRIES => failed += 1,
                removed => removed?,
            }
        }
    }
    // `sapwood/` stays if it contains anything else.
    let _ = path.parent().map(by_path::remove_dir);
    Ok(())
}

/// Removes a tree now: a directory with everything in it, a file or a link. A missing path is no
/// error.
pub fn remove(doomed: &Doomed, workers: usize, interrupt: &AtomicBool) -> Result<(), Error> {
    remove_counted(doomed.above(), doomed.name(), workers, interrupt, None)
}

/// Removes `path` below `root`; `meter` counts the removed files.
fn remove_counted(
    root: &DirMut,
    path: &BStr,
    workers: usize,
    interrupt: &AtomicBool,
    meter: Option<&Meter>,
) -> Result<(), Error> {
    let one = |source| Error::Unremovable(vec![Unremovable { path: path.to_owned(), source }]);
    match root.removal_facts(path).map_err(one)? {
        None => return Ok(()),
        Some(found) if found.file_type != FileType::Directory => {
            return absent_is_removed(root.remove_file(path)).map_err(one);
        }
        Some(_) => {}
    }
    let stuck = Mutex::new(Vec::new());
    let report = |path: BString, source| {
        stuck.lock().unwrap_or_else(PoisonError::into_inner).push(Unremovable { path, source });
    };
    let levels = descend(root, path, workers, |listing, dir, path, depth| {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // A mount point stays. Removing its directory reports the error.
        if depth > 0 && dir.removal_facts_of_self().is_ok_and(|own| own.protection == Protection::Mount) {
            return Ok(Vec::new());
        }
        let (mut below, mut files) = (Vec::new(), Vec::new());
        // An unreadable directory may be empty. Its removal reports the error if it is not.
        let _ = listing.read(dir, |entry| {
            let names = if entry.file_type == FileType::Directory { &mut below } else { &mut files };
            names.push(BString::from(entry.name));
            Ok::<_, io::Error>(())
        });
        for name in files {
            if let Err(error) = absent_is_removed(dir.remove_file(&name)) {
                report(join(path, &name), error);
            }
            if let Some(meter) = meter {
                meter.add(1);
            }
        }
        Ok(below)
    })?;
    let mut stuck = stuck.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut kept: HashSet<BString> = stuck.iter().flat_map(|stuck| parents(&stuck.path)).collect();
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
                kept.extend(parents(path));
                stuck.push(Unremovable { path: path.clone(), source });
            }
        }
    }
    stuck.sort_by(|one, other| one.path.cmp(&other.path));
    if stuck.is_empty() { Ok(()) } else { Err(Error::Unremovable(stuck)) }
}

/// Returns the directories above a path.
fn parents(path: &BString) -> Vec<BString> {
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

/// The error of a walk that found an entry that may not be deletable later.
struct NotDiscardable;

/// Returns true if every entry of the directory can surely be deleted later, and the tree has at
/// least [`MIN_ENTRIES`] entries.
fn is_discardable(root: &DirMut, path: &BStr, workers: usize, meter: Option<&Meter>) -> bool {
    let Ok(Some(top)) = root.removal_facts(path) else { return false };
    if top.file_type != FileType::Directory || top.protection != Protection::Unprotected {
        return false;
    }
    let user = sys::user::effective_uid();
    let entries = AtomicUsize::new(0);
    let walked = descend(root, path, workers, |listing, dir, _, _| {
        let own = dir.removal_facts_of_self().map_err(|_| NotDiscardable)?;
        if !dir.may_be_emptied() || own.device != top.device {
            return Err(NotDiscardable);
        }
        let is_deletable = |found: &RemovalFacts| {
            found.protection == Protection::Unprotected
                && (!own.sticky || own.uid == user || found.uid == user)
        };
        let mut below = Vec::new();
        let mut names = Vec::new();
        listing
            .read(dir, |entry| {
                names.push(BString::from(entry.name));
                Ok::<_, io::Error>(())
            })
            .map_err(|_| NotDiscardable)?;
        entries.fetch_add(names.len(), Ordering::Relaxed);
        if let Some(meter) = meter {
            meter.add(names.len());
        }
        for name in names {
            match dir.removal_facts(&name) {
                Ok(None) => {}
                Ok(Some(found)) if is_deletable(&found) => {
                    if found.file_type == FileType::Directory {
                        below.push(name);
                    }
                }
                Ok(Some(_)) | Err(_) => return Err(NotDiscardable),
            }
        }
        Ok(below)
    });
    walked.is_ok() && entries.into_inner() >= MIN_ENTRIES
}

/// Visits the directory `top` below `root` and the directories in it, level by level. `visit` gets
/// the handle, path and depth of a directory and returns the names of the subdirectories to descend
/// into. Returns the paths of each level. A directory that has vanished, or has become something
/// else, is skipped.
fn descend<E: Send>(
    root: &DirMut,
    top: &BStr,
    workers: usize,
    visit: impl Fn(&mut sys::Listing, &DirMut, &BStr, usize) -> Result<Vec<BString>, E> + Sync,
) -> Result<Vec<Vec<BString>>, E> {
    let mut levels = vec![vec![top.to_owned()]];
    loop {
        let depth = levels.len() - 1;
        let level = &levels[depth];
        let mut states: Vec<sys::Listing> = Vec::new();
        states.resize_with(parallel::threads(level.len(), DIRECTORIES_PER_THREAD, workers), Default::default);
        let found = parallel::map(level, &mut states, |listing, path| match root.open_dir(path) {
            Ok(dir) => visit(listing, &dir, path.as_bstr(), depth),
            // The later removal of this path reports why it could not be opened.
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
