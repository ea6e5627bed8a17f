//! Mappings of files that may be read only in a few places.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::{Advice, Map};

/// From this number of uses on, read-ahead is enabled. The kernel can read megabytes around a page.
const READAHEAD_USES: usize = 8;
/// Limit for one explicit read-ahead request before that. Network disks mostly read as much at
/// once.
pub(super) const MAX_REQUEST: usize = 128 << 10;

/// A mapping without read-ahead until it is used often: `status` looks up one commit in a pack of
/// gigabytes. All calls to the kernel are hints.
#[derive(Debug)]
pub(super) struct SparseMap {
    map: Map,
    uses: AtomicUsize,
}

impl SparseMap {
    pub(super) fn new(map: Map) -> SparseMap {
        let _ = map.advise(Advice::Random);
        SparseMap { map, uses: AtomicUsize::new(0) }
    }

    /// Requests read-ahead of these bytes, of which the caller will read at least some.
    pub(super) fn announce_read(&self, bytes: impl FnOnce() -> Range<usize>) {
        if !self.is_sparse() {
            return;
        }
        if self.uses.fetch_add(1, Ordering::Relaxed) + 1 == READAHEAD_USES {
            let _ = self.map.advise(Advice::Normal);
        }
        let Range { start, end } = bytes();
        let end = end.min(self.map.len());
        // One request: on a network disk, one page takes as long as a few.
        if start < end && end - start <= MAX_REQUEST {
            let _ = self.map.advise_range(Advice::WillNeed, start..end);
        }
    }

    /// Enables read-ahead, because the caller will read many pages, or an unknown number.
    pub(super) fn announce_many_reads(&self) {
        if self.is_sparse() && self.uses.fetch_max(READAHEAD_USES, Ordering::Relaxed) < READAHEAD_USES {
            let _ = self.map.advise(Advice::Normal);
        }
    }

    /// Releases all mapped pages of this process.
    pub(super) fn release(&self) -> std::io::Result<()> {
        self.map.release(0..self.map.len())
    }

    fn is_sparse(&self) -> bool {
        self.uses.load(Ordering::Relaxed) < READAHEAD_USES
    }
}

impl Deref for SparseMap {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}
