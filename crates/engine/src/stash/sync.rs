//! Durability of files that came back from a stash: the stash may be their last copy.

use std::{collections::BTreeSet, io};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType};

/// Makes these files durable, with their names. First all files are handed to the disk, then each
/// is flushed, so that the disk works on all of them at once. A path that is gone is skipped.
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
        // The flush below does it where the file system cannot.
        let _ = sys::request_writeback(file);
    }
    for (path, file) in files {
        sys::sync_file(&file).map_err(|error| (path.clone(), error))?;
    }
    // The deepest come first: a name is durable once its directory is.
    for directory in directories.into_iter().rev() {
        let opened = root.open_dir(directory).and_then(|dir| dir.sync());
        opened.map_err(|error| (directory.to_owned(), error))?;
    }
    if paths.is_empty() { Ok(()) } else { root.sync().map_err(|error| (BString::from("."), error)) }
}
