//! Directories that hold no file of a user's worktree: bases, layers and the trash, which sapwood
//! has made, and the Git directory.
//!
//! The upper layer of a workspace holds a user's changes. Only [`crate::workspace`] changes it,
//! while the workspace is not mounted.

use std::{io, path::Path};

use sys::{Dir, DirMut};

/// Opens such a directory.
#[expect(clippy::disallowed_methods, reason = "sapwood's own directories")]
pub(crate) fn open(path: &Path) -> io::Result<DirMut> {
    Dir::open(path).map(DirMut::of)
}
