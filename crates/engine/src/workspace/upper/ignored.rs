//! Omits directories whose files no status reports, such as `node_modules` and `target`.

use bstr::{BStr, ByteSlice as _};
use sys::Dir;

use super::scan::Prune;
use crate::look::ignore::Ignores;

/// Omits ignored directories without tracked paths.
pub struct IgnoredDirectories<'a> {
    ignores: Ignores<'a>,
    has_tracked: Box<dyn FnMut(&BStr) -> bool + 'a>,
}

impl<'a> IgnoredDirectories<'a> {
    /// Creates the filter from the rules of the mounted worktree and the contents of `info/exclude`
    /// and `core.excludesFile`. `has_tracked` returns true if the index has entries below a
    /// directory.
    pub fn new(
        worktree: &'a Dir,
        outside: &[&[u8]],
        icase: bool,
        has_tracked: impl FnMut(&BStr) -> bool + 'a,
    ) -> IgnoredDirectories<'a> {
        IgnoredDirectories {
            ignores: Ignores::new(worktree, outside, icase),
            has_tracked: Box::new(has_tracked),
        }
    }
}

impl Prune for IgnoredDirectories<'_> {
    fn is_left_out(&mut self, path: &BStr) -> bool {
        // If the rules cannot be read, the directory is listed.
        matches!(self.ignores.is_ignored(path.as_bstr(), true), Ok(true)) && !(self.has_tracked)(path)
    }
}
