//! What a clone made so far, to be taken away if it fails.
//!
//! Promise: dropped before [`Junk::keep`], everything recorded goes: a directory the clone made, or
//! only the content of one that was there, empty, before. Errors while removing are not reported;
//! whoever sees the clone fail has a better message, and nothing of theirs was in there.

use std::path::{Path, PathBuf};

use super::resume;

/// Directories to remove. Later ones first.
#[derive(Debug, Default)]
pub(super) struct Junk {
    places: Vec<(PathBuf, Existed)>,
}

/// Whether a directory was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existed {
    /// Empty: it stays, its content goes.
    Yes,
    /// It goes.
    No,
}

impl Junk {
    /// From now on `path` is ours. To be called before it is made.
    pub(super) fn add(&mut self, path: &Path, existed: Existed) {
        self.places.push((path.to_owned(), existed));
    }

    /// The clone is worth keeping.
    pub(super) fn keep(&mut self) {
        self.places.clear();
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        for (path, existed) in self.places.drain(..).rev() {
            let _ = match existed {
                Existed::No => resume::remove(&path),
                Existed::Yes => resume::empty(&path),
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn goes_unless_kept() {
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
