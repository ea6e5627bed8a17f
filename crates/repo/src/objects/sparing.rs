//! Maps of files of which little may be wanted.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::{Advice, Map};

/// So often a file is asked before it is worth what the kernel reads ahead around a page, which can be megabytes.
const FEW: usize = 8;
/// Bytes that are asked for at a time until then: what a network's disk is mostly asked for at once.
pub(super) const LITTLE: usize = 128 << 10;

/// A map of which no more is read than what is asked for, until that is more than a little: `status` looks up one commit of a
/// pack of gigabytes. What the kernel is told is a hint.
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

    /// These bytes are about to be read, or some of them.
    pub(super) fn use_once(&self, bytes: impl FnOnce() -> Range<usize>) {
        if !self.is_spared() {
            return;
        }
        if self.uses.fetch_add(1, Ordering::Relaxed) + 1 == FEW {
            let _ = self.map.advise(Advice::Normal);
        }
        let Range { start, end } = bytes();
        let end = end.min(self.map.len());
        // At once, as from far away a page takes as long as a few.
        if start < end && end - start <= LITTLE {
            let _ = self.map.advise_range(Advice::WillNeed, start..end);
        }
    }

    /// Many of its pages are, or who knows.
    pub(super) fn use_much(&self) {
        if self.is_spared() && self.uses.fetch_max(FEW, Ordering::Relaxed) < FEW {
            let _ = self.map.advise(Advice::Normal);
        }
    }

    /// Takes all of its pages out of this process.
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
