//! Maps of files of which little may be wanted.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use format::pack::Entry;
use sys::{Advice, Map};

/// So often a file is asked before it is worth what the kernel reads ahead around a page, which can be megabytes.
const FEW: usize = 8;
/// Bytes of an entry that are asked for as they are until then. What is larger is read ahead.
const SMALL: u64 = 32 << 10;

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

    /// A few of its pages are about to be read.
    pub(super) fn use_once(&self) {
        if self.is_spared() && self.uses.fetch_add(1, Ordering::Relaxed) + 1 == FEW {
            let _ = self.map.advise(Advice::Normal);
        }
    }

    /// Many of its pages are, or who knows.
    pub(super) fn use_much(&self) {
        if self.is_spared() && self.uses.fetch_max(FEW, Ordering::Relaxed) < FEW {
            let _ = self.map.advise(Advice::Normal);
        }
    }

    /// The entry of a pack that starts there is.
    pub(super) fn use_entry(&self, start: usize, entry: &Entry) {
        if !self.is_spared() {
            return;
        }
        if entry.size > SMALL {
            return self.use_much();
        }
        self.use_once();
        // Deflated it is hardly larger.
        let end = self.map.len().min(start + entry.len + entry.size as usize);
        let _ = self.map.advise_range(Advice::WillNeed, start..end);
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
