//! Makes files durable that were restored from a stash, because the stash may contain their last
//! copy.

use std::{collections::BTreeSet, io};

use bstr::{BStr, BString, ByteSlice as _};
use store::{side_by_side, together};
use sys::{Dir, File, FileType};

/// Makes these files and their names durable. Missing paths are skipped. The error contains the
/// path that could not be synced.
///
/// Many files of one file system are synced together ([`together`]). Otherwise the writeback of all
/// files is started first, and then they are synced in parallel, so that the disk combines their
/// flushes.
pub fn sync(root: &Dir, paths: &[BString]) -> Result<(), (BString, io::Error)> {
    if paths.is_empty() {
        return Ok(());
    }
    let whole = |error| (BString::from("."), error);
    let device = root.stat_self().map_err(whole)?.dev;
    let mut directories: BTreeSet<&BStr> = BTreeSet::new();
    let mut files = Vec::new();
    let mut set = together::Set::default();
    let mut is_one_place = true;
    for path in paths {
        directories.extend(path.find_iter("/").map(|slash| path[..slash].as_bstr()));
        let Some(stat) = root.stat(path).map_err(|error| (path.clone(), error))? else { continue };
        is_one_place &= stat.dev == device;
        if stat.file_type == FileType::File {
            set.files += 1;
            set.bytes += stat.size;
            files.push((path, stat.size));
        }
    }
    // A missing path has no device, but its directory has.
    let is_here = |directory: &&BStr| matches!(root.stat(directory), Ok(Some(stat)) if stat.dev == device);
    if is_one_place && directories.iter().all(is_here) && set.sync(&root.path()) {
        return check_files(root, &files);
    }
    sync_files(root, &files)?;
    let directories: Vec<&BStr> = directories.into_iter().collect();
    side_by_side::for_each(&directories, |directory| {
        let opened = root.open_dir(directory).and_then(|dir| dir.sync());
        opened.map_err(|error| ((*directory).to_owned(), error))
    })?;
    root.sync().map_err(whole)
}

/// Returns the first error of writing after all files were synced together.
fn check_files(root: &Dir, paths: &[(&BString, u64)]) -> Result<(), (BString, io::Error)> {
    side_by_side::for_each(paths, |&(path, _)| {
        let checked = match root.open_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened.and_then(|file| together::check(&file)),
        };
        checked.map_err(|error| (path.clone(), error))
    })
}

/// Syncs files with these sizes.
fn sync_files(root: &Dir, paths: &[(&BString, u64)]) -> Result<(), (BString, io::Error)> {
    let mut files: Vec<(&BString, File)> = Vec::new();
    for &(path, size) in paths {
        let file = root.open_file(path).map_err(|error| (path.clone(), error))?;
        // If the file system does not support this, the sync below starts the writeback.
        let _ = sys::start_writeback(&file, 0..size);
        files.push((path, file));
    }
    side_by_side::for_each(&files, |(path, file)| {
        sys::sync_file(file).map_err(|error| ((*path).clone(), error))
    })
}
