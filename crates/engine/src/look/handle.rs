//! Directory handles for descending into a tree whose paths exceed the kernel's limit.

use std::sync::Arc;

/// A path up to this length is resolved from the handle in one call, so that few descriptors are
/// open for any number of threads. `PATH_MAX` is 4096.
pub(crate) const FAR: usize = 2048;

/// An open directory, and the length of its path with a slash at the end.
pub(crate) struct Handle {
    dir: sys::Dir,
    base: usize,
}

impl Handle {
    /// Creates the handle of the root.
    pub(crate) fn top(dir: sys::Dir) -> Arc<Handle> {
        Arc::new(Handle { dir, base: 0 })
    }

    /// Returns the handle for paths in `dir`, a directory below this one. The path of `dir` has
    /// `base` bytes with its slash. If `dir` is near, or no descriptor is free, this handle is
    /// returned.
    pub(crate) fn next(self: &Arc<Self>, dir: &sys::Dir, base: usize) -> Arc<Handle> {
        let far = (base - self.base > FAR).then(|| dir.try_clone().ok()).flatten();
        far.map_or_else(|| Arc::clone(self), |dir| Arc::new(Handle { dir, base }))
    }

    pub(crate) fn dir(&self) -> &sys::Dir {
        &self.dir
    }

    /// Returns the length of the directory's path, with its slash.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Returns the part of `path` relative to this handle.
    pub(crate) fn rest<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.get(self.base..).unwrap_or_default()
    }
}
