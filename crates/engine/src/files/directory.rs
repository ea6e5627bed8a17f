//! The calls that change one open directory of a worktree.
//!
//! A creation needs no premise from its caller: the kernel refuses it if the path is occupied. The
//! kernel likewise refuses to remove a directory that holds anything. Each other removal takes a
//! [`Premise`], which is checked here, or a [`Proof`] of the caller's own check.

use std::io;

use sys::{Dir, DirMut, File, FileType};

use super::{Premise, Proof, tree};
use crate::look::unlinked::Unlinked;

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The entry was removed.
    Gone,
    /// There was no such entry, or the premise is that there is none.
    Missing,
    /// The premise does not hold: the entry stays.
    Changed,
}

/// The system call of a removal or rename that failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The entry could not be examined.
    #[error("cannot examine it: {}", sys::reason(.0))]
    Examine(#[source] io::Error),
    /// The entry could not be removed or renamed.
    #[error("{}", sys::reason(.0))]
    Change(#[source] io::Error),
}

impl Failed {
    /// Returns the error of the system call.
    pub fn into_source(self) -> io::Error {
        match self {
            Failed::Examine(source) | Failed::Change(source) => source,
        }
    }
}

/// A directory of a worktree, for a caller whose paths the guard has checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directory<'d>(&'d DirMut);

impl<'d> Directory<'d> {
    /// Allows changes of `dir`, a directory of the worktree.
    #[expect(clippy::disallowed_methods, reason = "a worktree's files are changed here, and only here")]
    pub(super) fn within(dir: &'d Dir) -> Directory<'d> {
        Directory(DirMut::lend(dir))
    }

    /// Creates a file (`O_EXCL`), executable or not.
    pub(crate) fn create_new(&self, path: &[u8], executable: bool) -> io::Result<File> {
        self.0.create_new(path, executable)
    }

    /// Creates a directory.
    pub(crate) fn create_dir(&self, path: &[u8]) -> io::Result<()> {
        self.0.create_dir(path)
    }

    /// Creates a symbolic link at `path`.
    pub(crate) fn symlink(&self, target: &[u8], path: &[u8]) -> io::Result<()> {
        self.0.symlink(target, path)
    }

    /// Removes a file or link if `premise` holds; an empty directory, if the premise is one. Marks
    /// the file in `unlinked`.
    pub(crate) fn remove(
        &self,
        path: &[u8],
        premise: &Premise,
        unlinked: &Unlinked,
    ) -> Result<Removed, Failed> {
        match premise {
            // A file that is there now is not the one that planning missed.
            Premise::Absent | Premise::Remnant => return Ok(Removed::Missing),
            Premise::Directory => return gone(self.0.remove_dir(path)),
            // The state of the file does not matter, so it is examined only if other premises may
            // concern the same file.
            Premise::Anything if unlinked.is_empty() => {}
            Premise::Anything => {
                if let Some(found) = self.0.stat(path).map_err(Failed::Examine)? {
                    unlinked.mark(&found);
                }
            }
            Premise::Unchanged(_) => {
                let Some(found) = self.0.stat(path).map_err(Failed::Examine)? else {
                    return Ok(Removed::Missing);
                };
                if Proof::of(premise, &found, unlinked).is_none() {
                    return Ok(Removed::Changed);
                }
                unlinked.mark(&found);
            }
        }
        gone(self.0.remove_file(path))
    }

    /// Removes an entry that the caller has just examined: a file, a link, or an empty directory.
    pub(crate) fn remove_proven(&self, path: &[u8], proof: Proof<'_>) -> io::Result<()> {
        match proof.found().file_type {
            FileType::Directory => self.0.remove_dir(path),
            _ => self.0.remove_file(path),
        }
    }

    /// Removes a directory, if it is empty.
    pub(crate) fn remove_empty(&self, path: &[u8]) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    /// Removes a directory with everything in it. The premise must hold for each entry.
    pub(crate) fn remove_tree(&self, path: &[u8], premise: &Premise, unlinked: &Unlinked) -> io::Result<()> {
        let dir = self.0.open_dir(path)?;
        tree::visit(&dir, &mut |dir, name, stat| {
            let proof = Proof::of(premise, stat, unlinked).ok_or(io::ErrorKind::ResourceBusy)?;
            unlinked.mark(stat);
            Directory::within(dir).remove_proven(name, proof)
        })?;
        self.0.remove_dir(path)
    }

    /// Renames an entry. `premise` is that of the path `to`: nothing, or an entry to replace.
    /// Returns [`Removed::Changed`] if it does not hold, else [`Removed::Gone`]: `from` is gone.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8], premise: &Premise) -> Result<Removed, Failed> {
        match premise {
            Premise::Anything => self.0.rename(from, to).map_err(Failed::Change)?,
            Premise::Unchanged(expected) => {
                let found = self.0.stat(to).map_err(Failed::Examine)?;
                if found.is_none_or(|found| found != **expected) {
                    return Ok(Removed::Changed);
                }
                self.0.rename(from, to).map_err(Failed::Change)?;
            }
            Premise::Absent | Premise::Remnant | Premise::Directory => {
                self.0.rename_new(from, to).map_err(Failed::Change)?;
            }
        }
        Ok(Removed::Gone)
    }
}

/// Reads the answer of a removal. Another process may have been faster.
fn gone(removed: io::Result<()>) -> Result<Removed, Failed> {
    match removed {
        Ok(()) => Ok(Removed::Gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removed::Missing),
        Err(error) => Err(Failed::Change(error)),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(files: &[&str]) -> (Place, Dir) {
            let place = Place(tempfile::tempdir().expect("a directory for tests"));
            for file in files {
                let path = place.0.path().join(file);
                fs::create_dir_all(path.parent().expect("below")).expect("made");
                fs::write(path, *file).expect("written");
            }
            let root = Dir::open(place.0.path()).expect("opened");
            (place, root)
        }

        fn has(&self, file: &str) -> bool {
            fs::read(self.0.path().join(file)).is_ok_and(|content| content == file.as_bytes())
        }
    }

    fn seen(root: &Dir, path: &str) -> Premise {
        Premise::Unchanged(Box::new(root.stat(path.as_bytes()).expect("examined").expect("there")))
    }

    #[test]
    fn a_file_that_changed_stays() {
        let (place, root) = Place::new(&["f", "g"]);
        let (f, g) = (seen(&root, "f"), seen(&root, "g"));
        fs::remove_file(place.0.path().join("f")).expect("removed");
        fs::write(place.0.path().join("f"), "f").expect("another file");
        let (directory, none) = (Directory::within(&root), Unlinked::default());
        let remove = |path: &str, premise: &Premise| directory.remove(path.as_bytes(), premise, &none);
        assert_eq!(remove("f", &f).expect("examined"), Removed::Changed);
        assert_eq!(remove("f", &Premise::Absent).expect("nothing to do"), Removed::Missing);
        assert_eq!(remove("f", &Premise::Remnant).expect("nothing to do"), Removed::Missing);
        assert!(matches!(remove("f", &Premise::Directory), Err(Failed::Change(_))));
        assert!(place.has("f"));
        assert_eq!(remove("g", &g).expect("removed"), Removed::Gone);
        assert_eq!(remove("g", &g).expect("examined"), Removed::Missing);
        assert_eq!(remove("f", &Premise::Anything).expect("removed"), Removed::Gone);
        assert!(!place.has("f") && !place.has("g"));
    }

    #[test]
    fn a_rename_replaces_only_with_a_premise() {
        let (place, root) = Place::new(&["f", "g", "h"]);
        let (directory, g) = (Directory::within(&root), seen(&root, "g"));
        let taken = directory.rename(b"f", b"g", &Premise::Absent).expect_err("g is there");
        assert_eq!(taken.into_source().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(directory.rename(b"f", b"h", &g).expect("examined"), Removed::Changed);
        assert!(place.has("f") && place.has("g") && place.has("h"));
        assert_eq!(directory.rename(b"f", b"g", &g).expect("renamed"), Removed::Gone);
        assert!(fs::read(place.0.path().join("g")).expect("there") == b"f" && !place.has("f"));
    }

    #[test]
    fn a_tree_goes_only_if_anything_may() {
        let (place, root) = Place::new(&["d/e/f", "d/g"]);
        let (directory, none) = (Directory::within(&root), Unlinked::default());
        for premise in [Premise::Absent, seen(&root, "d/g")] {
            directory.remove_tree(b"d", &premise, &none).expect_err("f has another state");
        }
        assert!(place.has("d/e/f"));
        directory.remove_tree(b"d", &Premise::Anything, &none).expect("removed");
        assert_eq!(root.stat(b"d").expect("examined"), None);
    }
}
