//! Open directories on the way down a tree, for paths that are longer than the kernel takes.

use std::sync::Arc;

/// What is nearer is reached by its path from the handle, in one call, so that descriptors do not run out whatever the number of threads;
/// `PATH_MAX` is 4096.
pub(crate) const FAR: usize = 2048;

/// An open directory, and the length of its path (with a slash at its end).
pub(crate) struct Handle {
    dir: sys::Dir,
    base: usize,
}

impl Handle {
    /// Of the root.
    pub(crate) fn top(dir: sys::Dir) -> Arc<Handle> {
        Arc::new(Handle { dir, base: 0 })
    }

    /// For what is in `dir`, a directory beneath this one whose path (with a slash at its end) has `base` bytes. Without descriptors
    /// left it is this one.
    pub(crate) fn next(self: &Arc<Self>, dir: &sys::Dir, base: usize) -> Arc<Handle> {
        let far = (base - self.base > FAR).then(|| dir.try_clone().ok()).flatten();
        far.map_or_else(|| Arc::clone(self), |dir| Arc::new(Handle { dir, base }))
    }

    pub(crate) fn dir(&self) -> &sys::Dir {
        &self.dir
    }

    /// The length of its path.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// What of `path`, from the root, is beneath this handle.
    pub(crate) fn rest<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.get(self.base..).unwrap_or_default()
    }
}
