//! Work stealing over contiguous ranges.
//!
//! The units are divided into one range for each of the first workers, by weight. A worker takes units
//! from the front of its own range; with none left it takes over the rear half of the longest range of
//! the others. Neighbours in the index, and so in the pack and on the disk, mostly stay with one worker.

use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is divided.
pub(super) trait Weigh: Sync {
    /// How many units.
    fn len(&self) -> usize;
    /// How much work one of them is.
    fn weight(&self, unit: usize) -> usize;
}

/// The ranges, one for each worker there may ever be.
pub(super) struct Queue {
    ranges: Vec<Mutex<Range<usize>>>,
}

impl Queue {
    /// Divides among the first `workers`; up to `limit` may take part.
    pub(super) fn new(work: &dyn Weigh, workers: usize, limit: usize) -> Queue {
        let total: usize = (0..work.len()).map(|unit| work.weight(unit)).sum();
        let mut ranges = Vec::with_capacity(limit);
        let (mut unit, mut weight) = (0, 0);
        for worker in 1..=limit {
            let start = unit;
            while unit < work.len() && (worker >= workers || weight * workers < total * worker) {
                weight += work.weight(unit);
                unit += 1;
            }
            ranges.push(Mutex::new(start..unit));
        }
        Queue { ranges }
    }

    /// The next unit for a worker; `None` when there is nothing left to start.
    pub(super) fn next(&self, worker: usize) -> Option<usize> {
        if let Some(unit) = self.range(worker).next() {
            return Some(unit);
        }
        loop {
            let longest = (0..self.ranges.len()).max_by_key(|&other| self.range(other).len())?;
            let stolen = {
                let mut range = self.range(longest);
                if range.is_empty() {
                    return None;
                }
                let kept = range.len() / 2;
                let middle = range.start + kept;
                let stolen = middle..range.end;
                range.end = middle;
                stolen
            };
            let mut own = self.range(worker);
            *own = stolen;
            // Somebody may have stolen from `own` already if the lock had been let go of; it was not.
            if let Some(unit) = own.next() {
                return Some(unit);
            }
        }
    }

    fn range(&self, worker: usize) -> MutexGuard<'_, Range<usize>> {
        // A range is whole at every moment, so that one left by a worker that panicked can be used.
        self.ranges[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Weights(Vec<usize>);

    impl Weigh for Weights {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn weight(&self, unit: usize) -> usize {
            self.0[unit]
        }
    }

    #[test]
    fn divided_by_weight_and_stolen_from_the_rear() {
        let queue = Queue::new(&Weights(vec![10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), 2, 3);
        assert_eq!(queue.next(1), Some(1));
        assert_eq!(queue.next(2), Some(6));
        assert_eq!(queue.next(0), Some(0));
        assert_eq!(queue.next(0), Some(9));
    }

    #[test]
    fn every_unit_is_taken_once() {
        for (units, workers, limit) in [(0, 1, 1), (1, 2, 4), (1000, 1, 8), (1000, 4, 4), (7, 8, 8)] {
            let taken: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
            let queue = Queue::new(&Weights(vec![1; units]), workers, limit);
            std::thread::scope(|scope| {
                for worker in 0..limit {
                    let (queue, taken) = (&queue, &taken);
                    scope.spawn(move || {
                        while let Some(unit) = queue.next(worker) {
                            taken[unit].fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
