//! Whole worktrees and single files that are changed by their paths, because no directory above
//! them is open.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sys::{Dir, DirMut, File, by_path};

use super::{Proof, file_id};
use crate::guard::{self, Guard, Removable};

/// A tree to be removed, with everything in it.
#[derive(Debug)]
pub struct Doomed {
    above: Arc<DirMut>,
    name: BString,
}

impl Doomed {
    /// Opens the directory above a worktree.
    pub fn worktree(tree: Removable<'_>) -> io::Result<Doomed> {
        Doomed::at(tree.path())
    }

    /// Opens the directory above a tree that sapwood has made for itself.
    pub(crate) fn own(path: &Path) -> io::Result<Doomed> {
        Doomed::at(path)
    }

    /// Names an entry of an open directory.
    pub(crate) fn in_directory(above: Arc<DirMut>, name: &[u8]) -> Doomed {
        Doomed { above, name: name.into() }
    }

    #[expect(clippy::disallowed_methods, reason = "the tree is removed from there")]
    fn at(path: &Path) -> io::Result<Doomed> {
        match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => {
                let above = Arc::new(DirMut::of(Dir::open(above)?));
                Ok(Doomed { above, name: name.as_bytes().into() })
            }
            _ => Err(io::ErrorKind::ResourceBusy.into()),
        }
    }

    pub(crate) fn above(&self) -> &DirMut {
        &self.above
    }

    pub(crate) fn name(&self) -> &BStr {
        self.name.as_bstr()
    }
}

/// Opens the directory at `path`, in which everything is doomed: the worktree is a symbolic link to
/// it.
#[expect(clippy::disallowed_methods, reason = "its entries are removed")]
pub(crate) fn open_linked(tree: Removable<'_>) -> io::Result<Arc<DirMut>> {
    Dir::open(tree.path()).map(DirMut::of).map(Arc::new)
}

/// Renames a worktree. The caller has checked that nothing, or an empty directory, is at `to`: the
/// kernel refuses to replace any other directory.
pub fn rename(tree: Removable<'_>, to: &Path) -> io::Result<()> {
    by_path::rename(tree.path(), to)
}

/// Removes a directory, if it is empty.
pub fn remove_empty(path: &Path) -> io::Result<()> {
    by_path::remove_dir(path)
}

/// Removes the file `.git` of a worktree or submodule. Its other files stay, and so does a
/// directory `.git`: the kernel unlinks only files.
pub fn remove_gitfile(dir: &Path) -> io::Result<()> {
    by_path::remove_file(&dir.join(".git"))
}

/// Creates a directory. With `replace`, a file at its path is removed first.
pub fn create_dir(repo: &Repository, path: &Path, replace: bool) -> Result<(), DirError> {
    match by_path::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && replace => {
            Guard::of(repo, path)?;
            Ok(by_path::remove_file(path).and_then(|()| by_path::create_dir(path))?)
        }
        made => Ok(made?),
    }
}

/// The reason why a directory was not created.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DirError {
    #[error(transparent)]
    Guard(#[from] guard::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A new file that has a name but no final content.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
}

impl NewFile {
    /// Creates it (`O_EXCL`), with these permission bits minus the umask.
    pub(crate) fn create(path: PathBuf, mode: u32) -> io::Result<NewFile> {
        Ok(NewFile { file: by_path::create_new(&path, mode)?, path })
    }

    /// Returns the open file.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Removes the file again, if its name still refers to it.
    pub(crate) fn discard(self) {
        let ours = sys::stat_of(&self.file).ok();
        let found = by_path::stat(&self.path).ok().flatten();
        if let (Some(ours), Some(found)) = (ours, found)
            && Proof::created(file_id(&ours), &found).is_some()
        {
            // The error that made the file useless is the one to report.
            let _ = by_path::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    #[test]
    fn a_new_file_is_discarded_unless_its_name_is_taken_over() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let path = place.path().join("f");
        let mut new = NewFile::create(path.clone(), 0o600).expect("created");
        new.file().write_all(b"half").expect("written");
        new.discard();
        assert!(!path.exists());
        let new = NewFile::create(path.clone(), 0o600).expect("created");
        fs::write(place.path().join("other"), "other").expect("written");
        fs::rename(place.path().join("other"), &path).expect("renamed");
        new.discard();
        assert_eq!(fs::read(&path).expect("there"), b"other");
    }
}
