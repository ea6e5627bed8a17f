//! Syncs many files and directories in parallel. The disk combines the flushes of several threads.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::by_path;

use super::Error;
use crate::{Components, Fsync, side_by_side};

/// Syncs files and directories, if refs are hardened. A directory that no longer exists is replaced
/// by its nearest existing parent.
pub fn sync(fsync: &Fsync, files: &[PathBuf], dirs: &[PathBuf]) -> Result<(), Error> {
    if !fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    let one = |at: usize| match files.get(at) {
        Some(file) => failing(file, sync_file(fsync, file)),
        None => failing(&dirs[at - files.len()], sync_dir(fsync, &dirs[at - files.len()])),
    };
    let all: Vec<usize> = (0..files.len() + dirs.len()).collect();
    side_by_side::for_each(&all, |&at| one(at))
}

fn sync_file(fsync: &Fsync, path: &Path) -> io::Result<()> {
    let file = match by_path::open(path) {
        // The file has only write permission.
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
