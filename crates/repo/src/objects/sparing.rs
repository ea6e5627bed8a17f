//! Maps of files of which only a few parts may be needed.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::{Advice, Map};

/// After this many uses, read-ahead is worth it. The kernel can read megabytes around a page.
const FEW: usize = 8;
/// The number of bytes that are requested at a time until then. Network disks mostly read as much
/// at once.
pub(super) const LITTLE: usize = 128 << 10;

/// A map without read-ahead until it is used often: `status` looks up one commit in a pack of
/// gigabytes. All calls to the kernel are hints.
#[derive(Debug)]
pub(super) struct Sparing {
    map: Map,
    uses: AtomicUsize,
}

impl Sparing {
    pub(super) fn new(map: Map) -> Sparing {
        let _ = map.advise(Advice::Random);
        Sparing { map, uses: AtomicUsize::new(0) }
    }

    /// Announces a read of these bytes, or some of them.
    pub(super) fn use_once(&self, bytes: impl FnOnce() -> Range<usize>) {
        if !self.is_spared() {
            return;
        }
        if self.uses.fetch_add(1, Ordering::Relaxed) + 1 == FEW {
            let _ = self.map.advise(Advice::Normal);
        }
        let Range { start, end } = bytes();
        let end = end.min(self.map.len());
        // One request: on a network disk, one page takes as long as a few.
        if start < end && end - start <= LITTLE {
            let _ = self.map.advise_range(Advice::WillNeed, start..end);
        }
    }

    /// Announces reads of many pages, or of an unknown number.
    pub(super) fn use_much(&self) {
        if self.is_spared() && self.uses.fetch_max(FEW, Ordering::Relaxed) < FEW {
            let _ = self.map.advise(Advice::Normal);
        }
    }

    /// Releases all mapped pages of this process.
    pub(super) fn release(&self) -> std::io::Result<()> {
        self.map.release(0..self.map.len())
    }

    fn is_spared(&self) -> bool {
        self.uses.load(Ordering::Relaxed) < FEW
    }
}

impl Deref for Sparing {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}
