//! A count of the units of a phase that are done, for a thread that shows progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The count. Workers add to it, and another thread reads it.
#[derive(Debug, Default)]
pub struct Meter {
    done: AtomicUsize,
}

impl Meter {
    /// Adds `units` to the count.
    pub fn add(&self, units: usize) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Resets the count to zero, for a phase that is repeated.
    pub fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}
