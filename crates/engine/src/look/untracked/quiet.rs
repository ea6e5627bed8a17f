//! Subtrees of the untracked cache that the file system monitor vouches for. If they have no files
//! to examine and no untracked paths, they are not walked.

use std::{ops::Range, sync::Arc};

use bstr::{BString, ByteSlice as _};
use format::index::Stage;

use super::{Walk, recorded::Recorded};
use crate::look::handle::Handle;

impl Walk<'_> {
    /// Returns true if nothing in or below the directory at `path` (with a slash at the end) has to
    /// be examined or reported, according to its record at `at` and the records below. The monitor
    /// was queried, so existing records are valid.
    pub(super) fn is_quiet(
        &self,
        recorded: &Recorded<'_>,
        path: &[u8],
        at: usize,
        within: &Range<usize>,
        from: &Arc<Handle>,
    ) -> bool {
        let Some(observer) = self.observer.filter(|observer| !observer.has_selected(within)) else {
            return false;
        };
        let records = recorded.records();
        let mut open: Vec<usize> = Vec::new();
        let mut file = BString::default();
        for below in at..records.after(at) {
            while open.last().is_some_and(|&dir| records.after(dir) <= below) {
                open.pop();
            }
            open.push(below);
            let Some(record) = records.recorded(below) else { return false };
            if record.check_only || !record.untracked.is_empty() {
                return false;
            }
            let Some(exclude) = record.exclude else { continue };
            file.clear();
            file.extend_from_slice(path);
            for &dir in &open[1..] {
                file.extend_from_slice(records.name(dir));
                file.push(b'/');
            }
            file.extend_from_slice(b".gitignore");
            let tracked = self.index.position(file.as_bstr(), Stage::Normal);
            let is_same = |at: usize| self.index.entry(at).oid == exclude && observer.is_clean(from, at);
            if !tracked.is_ok_and(is_same) {
                return false;
            }
        }
        true
    }
}
