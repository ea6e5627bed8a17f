//! The size of a worker's batches, in steps. A taken unit cannot be stolen, so a batch is sized to
//! take a short time: many files on a local disk, few on a network disk.

use std::time::{Duration, Instant};

pub(super) struct BatchSize {
    most: usize,
    since: Instant,
}

/// The first batch of a worker in a crew that does not wait for the disk. `FIRST_WAITING` is the
/// first batch in a crew that waits.
const FIRST: usize = 64;
const FIRST_WAITING: usize = 2;
/// Batches beyond this size do not improve the access order any further.
const LARGEST: usize = 1024;
/// The next batch is larger after a batch that took less than this, and smaller after one that took
/// more than twice this.
const SHORT: Duration = Duration::from_millis(50);

impl BatchSize {
    pub(super) fn new(waiting: bool) -> BatchSize {
        BatchSize { most: if waiting { FIRST_WAITING } else { FIRST }, since: Instant::now() }
    }

    /// Returns the size of the next batch. Called before each batch.
    pub(super) fn most(&mut self) -> usize {
        let took = self.since.elapsed();
        self.since = Instant::now();
        if took < SHORT {
            self.most = (self.most * 2).min(LARGEST);
        } else if took > SHORT * 2 {
            self.most = (self.most / 2).max(1);
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_while_batches_are_short_and_shrinks_when_they_are_long() {
        let after = |batch: &mut BatchSize, took: Duration| {
            batch.since = Instant::now().checked_sub(took).expect("not that long after boot");
            batch.most()
        };
        let mut batch = BatchSize::new(false);
        assert_eq!(after(&mut batch, Duration::ZERO), 2 * FIRST);
        for _ in 0..10 {
            after(&mut batch, Duration::ZERO);
        }
        assert_eq!(batch.most, LARGEST);
        assert_eq!(after(&mut batch, SHORT + SHORT / 2), LARGEST);
        assert_eq!(after(&mut batch, SHORT * 3), LARGEST / 2);
        for _ in 0..20 {
            after(&mut batch, SHORT * 3);
        }
        assert_eq!(batch.most, 1);
        assert!(BatchSize::new(true).most < BatchSize::new(false).most);
    }
}
