//! Removal of files and directories that a job has made.
//!
//! A job can make directories that nobody may enter, and more levels than a path has room for, or
//! than this process may have files open. Both are mended before the removal. No link is followed.

use std::{io, path::Path};

use sys::{FileType, by_path};

use super::directory::cannot;
use crate::Error;

/// The number of levels below a directory that are removed as they are.
const LEVELS: usize = 64;

/// The number of bytes of a path below a directory that are removed as they are.
const LENGTH: usize = 2048;

/// Removes a file, or a directory with its content.
pub(super) fn remove(path: &Path, kind: FileType) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        open_up(parent);
    }
    let removed = match kind {
        FileType::Directory => flatten(path).and_then(|()| by_path::remove_dir_all(path)),
        _ => by_path::remove_file(path),
    };
    removed.map_err(cannot("remove", path))
}

/// Makes each directory of a tree accessible, and moves deep ones to its top.
fn flatten(top: &Path) -> io::Result<()> {
    let mut places = (0u64..).map(|number| top.join(number.to_string()));
    let mut pending = vec![(top.to_owned(), 0)];
    while let Some((dir, level)) = pending.pop() {
        open_up(&dir);
        for (name, kind) in by_path::list(&dir)? {
            let inner = dir.join(name);
            let is_deep = level >= LEVELS || inner.as_os_str().len() > top.as_os_str().len() + LENGTH;
            match kind {
                FileType::Directory if is_deep => {
                    open_up(&inner);
                    let place = places.find_map(|place| match by_path::rename_new(&inner, &place) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                        moved => Some(moved.map(|()| place)),
                    });
                    pending.push((place.expect("the numbers have no end")?, 1));
                }
                FileType::Directory => pending.push((inner, level + 1)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Lets the user read and change a directory. If that fails, the removal tells the reason.
pub(super) fn open_up(dir: &Path) {
    if let Ok(Some(stat)) = by_path::stat(dir)
        && stat.file_type == FileType::Directory
        && stat.mode & 0o700 != 0o700
    {
        let _ = by_path::set_mode(dir, stat.mode & 0o7777 | 0o700);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes directories below each other, deeper than a path has room for.
    fn deepen(top: &Path, levels: usize) {
        let mut dir = top.join("deep");
        by_path::create_dir(&dir).expect("a new directory");
        for level in 0..levels {
            let outer = top.join(format!("outer{level}"));
            by_path::create_dir(&outer).expect("a new directory");
            by_path::rename(&dir, &outer.join("d")).expect("the place is free");
            dir = outer;
        }
    }

    #[test]
    fn deep_and_closed_directories_are_removed() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let (outside, top) = (dir.path().join("outside"), dir.path().join("top"));
        by_path::create_dir(&outside).expect("a new directory");
        by_path::create_new(&outside.join("file"), 0o600).expect("a new file");
        by_path::create_dir(&top).expect("a new directory");
        by_path::symlink(&outside, &top.join("link")).expect("a new link");
        by_path::create_dir(&top.join("0")).expect("a new directory");
        deepen(&top, 5000);
        by_path::create_dir(&top.join("closed")).expect("a new directory");
        by_path::create_dir(&top.join("closed/inner")).expect("a new directory");
        by_path::set_mode(&top.join("closed/inner"), 0).expect("its owner may");
        by_path::set_mode(&top.join("closed"), 0).expect("its owner may");
        remove(&top, FileType::Directory).expect("nothing stops it");
        assert!(by_path::stat(&top).expect("readable").is_none());
        assert!(by_path::stat(&outside.join("file")).expect("readable").is_some());
    }
}
