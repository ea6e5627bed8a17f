//! Syncs many files and directories: in parallel, so that the disk combines the flushes of several
//! threads, or by one call ([`together`]).

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::{File, by_path};

use super::Error;
use crate::{Components, Fsync, Method, side_by_side, together};

/// Syncs files and directories, if refs are hardened. A directory that no longer exists is replaced
/// by its nearest existing parent.
pub fn sync(fsync: &Fsync, files: &[PathBuf], dirs: &[PathBuf]) -> Result<(), Error> {
    if !fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    if fsync.method != Method::WriteoutOnly && are_synced_together(files, dirs) {
        return side_by_side::for_each(files, |file| {
            failing(file, open(file).and_then(|opened| together::check(&opened)))
        });
    }
    let one = |at: usize| match files.get(at) {
        Some(file) => failing(file, sync_file(fsync, file)),
        None => failing(&dirs[at - files.len()], sync_dir(fsync, &dirs[at - files.len()])),
    };
    let all: Vec<usize> = (0..files.len() + dirs.len()).collect();
    side_by_side::for_each(&all, |&at| one(at))
}

/// Makes everything durable by one call, if that is cheaper and all of it is on one file system.
fn are_synced_together(files: &[PathBuf], dirs: &[PathBuf]) -> bool {
    if files.len() + dirs.len() < together::FROM {
        return false;
    }
    let mut set = together::Set::default();
    let (mut device, mut place) = (None, None);
    // The first is opened. A lock may lack the permission to be read, which directories have.
    for path in dirs.iter().chain(files) {
        match by_path::stat(path) {
            Ok(Some(stat)) if device.is_none_or(|known| known == stat.dev) => {
                device = Some(stat.dev);
                place.get_or_insert(path);
                set.files += 1;
                set.bytes += stat.size;
            }
            // The removal of a directory is durable with its parent, which is on its file system.
            Ok(None) if !files.contains(path) => {}
            _ => return false,
        }
    }
    place.is_some_and(|place| set.sync(place))
}

fn sync_file(fsync: &Fsync, path: &Path) -> io::Result<()> {
    fsync.file(Components::REFERENCE, &open(path)?)
}

fn open(path: &Path) -> io::Result<File> {
    match by_path::open(path) {
        // The file has only write permission.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => by_path::append(path, false, 0),
        opened => opened,
    }
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
