//! Reading the small files of a git directory.

use std::{io, path::Path};

/// A whole file; `None` if it, or a directory leading to it, does not exist.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match sys::by_path::read(path) {
        Err(err) if is_missing(&err) => Ok(None),
        other => other,
    }
}

/// Neither `ENOENT` nor `ENOTDIR` is worth a word where a file is optional.
pub(crate) fn is_missing(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
