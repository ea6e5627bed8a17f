//! Open directories on the way down a tree: each child is opened by its name in its parent.

use std::sync::Arc;

/// Handles in a row, one beneath the other. What is deeper is reached by its path from the last of them, so that descriptors
/// do not run out.
const DEEPEST: usize = 24;

/// An open directory, and the length of its path (with a slash at its end).
pub(crate) struct Handle {
    dir: sys::Dir,
    base: usize,
    depth: usize,
}

impl Handle {
    /// Of the root.
    pub(crate) fn top(dir: sys::Dir) -> Arc<Handle> {
        Arc::new(Handle { dir, base: 0, depth: 0 })
    }

    /// For what is in `dir`, a directory beneath this one whose path (with a slash at its end) has `base` bytes.
    pub(crate) fn next(self: &Arc<Self>, dir: sys::Dir, base: usize) -> Arc<Handle> {
        match self.depth + 1 < DEEPEST {
            true => Arc::new(Handle { dir, base, depth: self.depth + 1 }),
            false => Arc::clone(self),
        }
    }

    pub(crate) fn dir(&self) -> &sys::Dir {
        &self.dir
    }

    /// What of `path`, from the root, is beneath this handle.
    pub(crate) fn rest<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.get(self.base..).unwrap_or_default()
    }
}
