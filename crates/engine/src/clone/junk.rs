//! The directories that a clone has created, and their removal if it fails.
//!
//! Promise: if the value is dropped before [`Junk::keep`], every recorded directory is removed, or
//! only its content if it existed empty before. Errors of the removal are not reported: the error
//! of the clone is the one that matters, and the directories held no files of the user.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use sys::{FileType, by_path};

use super::marker::MARKER;

/// Directories to remove, the last one first.
#[derive(Debug, Default)]
pub(super) struct Junk {
    directories: Vec<(PathBuf, Existed)>,
}

/// The state of a directory before the clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existed {
    /// It existed, empty. It stays and its content is removed.
    Yes,
    /// It did not exist. It is removed.
    No,
}

impl Junk {
    /// Records a directory before the clone creates it.
    pub(super) fn add(&mut self, path: &Path, existed: Existed) {
        self.directories.push((path.to_owned(), existed));
    }

    /// Forgets all directories: the clone is worth keeping.
    pub(super) fn keep(&mut self) {
        self.directories.clear();
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        for (path, existed) in self.directories.drain(..).rev() {
            let _ = match existed {
                Existed::No => remove(&path),
                Existed::Yes => empty(&path),
            };
        }
    }
}

/// Takes a missing file for a removed one.
pub(super) fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a directory. If that is interrupted, the marker still identifies the rest.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    empty(directory)?;
    by_path::remove_dir(directory)
}

/// Removes the content of a directory: first HEAD, without which the directory counts as one that
/// is being removed, last the marker.
pub(super) fn empty(directory: &Path) -> io::Result<()> {
    empty_except(directory, &|_| false)
}

pub(super) fn empty_except(directory: &Path, stays: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    let mut entries = by_path::list(directory)?;
    entries.sort_by_key(|(name, _)| (name == MARKER, name != "HEAD"));
    for (name, file_type) in entries.into_iter().filter(|(name, _)| !stays(name)) {
        let path = directory.join(name);
        match file_type {
            FileType::Directory => by_path::remove_dir_all(&path)?,
            _ => by_path::remove_file(&path)?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn removes_directories_unless_kept() {
        let root = tempfile::tempdir().expect("a directory for tests");
        let [new, old] = ["new", "old"].map(|name| root.path().join(name));
        for kept in [true, false] {
            for path in [&new, &old] {
                fs::create_dir_all(path.join("sub")).expect("made");
                fs::write(path.join("sub/file"), "x").expect("written");
                fs::write(path.join("file"), "x").expect("written");
            }
            let mut junk = Junk::default();
            junk.add(&new, Existed::No);
            junk.add(&old, Existed::Yes);
            if kept {
                junk.keep();
            }
            drop(junk);
            assert_eq!((new.exists(), old.join("sub/file").exists()), (kept, kept));
            assert!(old.exists());
        }
    }
}
