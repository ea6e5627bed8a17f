//! Syncs many files and directories at once. The disk takes flushes of several threads together.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use sys::by_path;

use super::Error;
use crate::{Components, Fsync};

/// The most threads that sync at once.
const MOST: usize = 32;

/// Syncs files and directories, if refs are hardened. A directory that is gone by now is replaced
/// by the nearest one above it.
pub(super) fn sync(fsync: &Fsync, files: &[PathBuf], dirs: &[PathBuf]) -> Result<(), Error> {
    if !fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    let one = |at: usize| match files.get(at) {
        Some(file) => failing(file, sync_file(fsync, file)),
        None => failing(&dirs[at - files.len()], sync_dir(fsync, &dirs[at - files.len()])),
    };
    let count = files.len() + dirs.len();
    if count < 2 {
        return (0..count).try_for_each(one);
    }
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            if let Err(error) = one(at) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..count.min(MOST) {
            // Without a thread, the others do its work.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn sync_file(fsync: &Fsync, path: &Path) -> io::Result<()> {
    let file = match by_path::open(path) {
        // A file that may only be written.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => by_path::append(path, false, 0),
        opened => opened,
    };
    fsync.file(Components::REFERENCE, &file?)
}

fn sync_dir(fsync: &Fsync, path: &Path) -> io::Result<()> {
    let mut path = path;
    loop {
        match (fsync.directory(Components::REFERENCE, path), path.parent()) {
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => path = parent,
            (synced, _) => return synced,
        }
    }
}

fn failing(path: &Path, synced: io::Result<()>) -> Result<(), Error> {
    synced.map_err(|source| Error::Io { what: "sync", path: path.to_owned(), source })
}
