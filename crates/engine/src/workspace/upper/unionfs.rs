//! The metadata of unionfs-fuse: a directory at the top of the upper layer. For a deleted path
//! `a/b` it contains the entry `a/b_HIDDEN~`: a file, or a directory if `a/b` was one. A directory
//! that was created again at a deleted path keeps the entry, and nothing of the lower layers is
//! visible in it.
//!
//! Source: the behaviour of unionfs-fuse 1.0 (Debian 12), and the README of later releases.

use std::{collections::BTreeSet, io};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, Listing};

/// The names of the directory: in unionfs-fuse 1.0, and since 2.0.
pub(super) const METADATA: [&str; 2] = [".unionfs-fuse", ".unionfs"];

/// The end of the name of an entry for a deleted path.
const MARK: &[u8] = b"_HIDDEN~";

/// The paths that unionfs-fuse hides in the lower layers.
#[derive(Default)]
pub(super) struct Hidden(BTreeSet<BString>);

impl Hidden {
    /// Reads the metadata directory `name` in the upper layer `root`. Returns `None` if it contains
    /// anything else than marks, so that it may be a directory of the user.
    pub(super) fn read(root: &Dir, name: &BStr) -> io::Result<Option<Hidden>> {
        let mut hidden = BTreeSet::new();
        let mut listing = Listing::default();
        let mut is_metadata = true;
        let mut left = vec![BString::default()];
        while let Some(path) = left.pop() {
            let lead = if path.is_empty() { path.clone() } else { [&path[..], b"/"].concat().into() };
            let visit = |entry: sys::Entry<'_>| {
                let full = BString::from([&lead[..], entry.name].concat());
                let marked = entry.name.strip_suffix(MARK).filter(|name| !name.is_empty());
                if let Some(name) = marked {
                    hidden.insert([&lead[..], name].concat().into());
                }
                // The directory of a path that itself ends like a mark is a mark too, also for
                // unionfs-fuse.
                match entry.file_type {
                    FileType::Directory => left.push(full),
                    _ => is_metadata &= marked.is_some(),
                }
                Ok::<_, io::Error>(())
            };
            let place = if path.is_empty() {
                name.to_owned()
            } else {
                [name.as_bytes(), b"/", &path[..]].concat().into()
            };
            match listing.open(root, &place, visit) {
                // Removed after its name was read. The next listing reports that.
                Err(error) if super::scan::is_gone(&error) => {}
                read => drop(read?),
            }
        }
        Ok(is_metadata.then_some(Hidden(hidden)))
    }

    /// Returns true if the path itself has a mark.
    pub(super) fn contains(&self, path: &BStr) -> bool {
        self.0.contains(path)
    }

    /// Returns the hidden paths, without those below a hidden path that `is_directory` denies:
    /// there the upper layer has no directory, so the outermost path says everything.
    pub(super) fn outermost(self, is_directory: impl Fn(&BStr) -> bool) -> Vec<BString> {
        let is_inside = |path: &BString| {
            let mut above = path.as_bstr();
            while let Some(slash) = above.rfind_byte(b'/') {
                above = above[..slash].as_bstr();
                if self.0.contains(above) && !is_directory(above) {
                    return true;
                }
            }
            false
        };
        self.0.iter().filter(|path| !is_inside(path)).cloned().collect()
    }
}
