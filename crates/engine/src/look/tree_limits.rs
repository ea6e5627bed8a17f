//! Limits of a walk over trees: a signal, the depth, and the memory.
//!
//! A few trees that name each other many times stand for billions of paths. A walk over paths ends
//! with an error before it has used half of the memory that the process may have: the phases after
//! it need about as much again.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::LookError;

/// The number of paths between two looks at the memory. Together they take a few megabytes.
const STEP: usize = 8 << 10;

/// The limits of one walk.
#[derive(Debug, Default)]
pub(crate) struct TreeLimits {
    /// The number of paths since the last look at the memory.
    paths: AtomicUsize,
}

impl TreeLimits {
    /// Counts a directory with `entries` entries. Returns an error after a signal, and if memory is
    /// short.
    pub(crate) fn add(&self, entries: usize) -> Result<(), LookError> {
        sys::interrupt::check().map_err(|_| LookError::Stopped)?;
        let added = entries + 1;
        if self.paths.fetch_add(added, Ordering::Relaxed) + added < STEP {
            return Ok(());
        }
        self.paths.store(0, Ordering::Relaxed);
        if sys::memory_left().is_some_and(|left| left.free < left.used) {
            return Err(LookError::TooManyPaths);
        }
        Ok(())
    }
}

/// Returns an error if a directory at `depth` is nested too deeply; the root has depth 0. `most` is
/// `core.maxTreeDepth`.
pub(crate) fn check_depth(depth: usize, most: i32) -> Result<(), LookError> {
    let is_allowed = usize::try_from(most).is_ok_and(|most| depth <= most);
    if is_allowed { Ok(()) } else { Err(LookError::TooDeep) }
}
