//! Reads small files of a Git directory.

use std::{io, path::Path};

/// Reads a whole file; returns `None` if it, or a directory on the way to it, does not exist.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match sys::by_path::read(path) {
        Err(err) if sys::is_missing(&err) => Ok(None),
        other => other,
    }
}
