//! Makes files durable that were restored from a stash, because the stash may contain their last
//! copy.

use std::{collections::BTreeSet, io};

use bstr::{BStr, BString, ByteSlice as _};
use store::side_by_side;
use sys::{Dir, FileType};

/// Makes these files and their names durable. Starts writeback of all files, and then waits for
/// them in parallel, so that the disk combines their flushes. Missing paths are skipped. The error
/// contains the path that could not be synced.
pub fn sync(root: &Dir, paths: &[BString]) -> Result<(), (BString, io::Error)> {
    let mut directories: BTreeSet<&BStr> = BTreeSet::new();
    let mut files = Vec::new();
    for path in paths {
        let failed = |error| (path.clone(), error);
        directories.extend(path.find_iter("/").map(|slash| path[..slash].as_bstr()));
        let is_file =
            matches!(root.stat(path).map_err(failed)?, Some(stat) if stat.file_type == FileType::File);
        if is_file {
            files.push((path, root.open_file(path).map_err(failed)?));
        }
    }
    for (_, file) in &files {
        // If the file system does not support this, the sync below starts the writeback.
        let _ = sys::request_writeback(file);
    }
    side_by_side::for_each(&files, |(path, file)| {
        sys::sync_file(file).map_err(|error| ((*path).clone(), error))
    })?;
    let directories: Vec<&BStr> = directories.into_iter().collect();
    side_by_side::for_each(&directories, |directory| {
        let opened = root.open_dir(directory).and_then(|dir| dir.sync());
        opened.map_err(|error| ((*directory).to_owned(), error))
    })?;
    if paths.is_empty() { Ok(()) } else { root.sync().map_err(|error| (BString::from("."), error)) }
}
