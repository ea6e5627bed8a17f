//! Work stealing over contiguous ranges of units.
//!
//! The units are divided by weight into one range for each initial worker. A worker takes batches
//! from the front of its own range. When that range is empty, it takes the heaviest unit that no
//! worker has begun, if that unit is too heavy to be left for the end. Otherwise it steals the rear
//! half of the longest range. So neighbours in the index, and thus in the pack and on the disk,
//! mostly stay with one worker.
//!
//! In strict order there is one range, and all workers take from its front.

use std::{
    cmp::Reverse,
    ops::Range,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use super::locked;

/// One range for each worker that may ever take part.
pub(super) struct Queue {
    /// The total weight of the units before each unit; the last element is the sum of all weights.
    before: Vec<usize>,
    taken: Vec<AtomicBool>,
    ranges: Vec<Mutex<Range<usize>>>,
    /// Units that would keep a full crew waiting if they came last, the heaviest first.
    heavy: Vec<usize>,
    /// The number of elements of `heavy` that were handed out.
    asked: AtomicUsize,
}

/// A batch is at most this part of a worker's range, so that others can steal the rest.
const SHARE: usize = 4;

impl Queue {
    /// Divides the units among the first `workers`. Up to `limit` may take part.
    pub(super) fn new(weights: impl Iterator<Item = usize>, workers: usize, limit: usize) -> Queue {
        let mut before = vec![0];
        let mut total = 0;
        before.extend(weights.map(|weight| {
            total += weight;
            total
        }));
        let units = before.len() - 1;
        let bound = |worker: usize| {
            if worker < workers {
                before.partition_point(|&weight| weight * workers < total * worker)
            } else {
                units
            }
        };
        let ranges = (0..limit).map(|worker| Mutex::new(bound(worker)..bound(worker + 1))).collect();
        let weight = |unit: &usize| before[unit + 1] - before[*unit];
        let mut heavy: Vec<usize> = (0..units)
            .filter(|unit| limit > 1 && weight(unit) > 1 && weight(unit) * limit * 2 > total)
            .collect();
        heavy.sort_by_key(|unit| Reverse(weight(unit)));
        let taken = (0..units).map(|_| AtomicBool::new(false)).collect();
        Queue { before, taken, ranges, heavy, asked: AtomicUsize::new(0) }
    }

    /// Makes one range for all workers.
    pub(super) fn in_order(weights: impl Iterator<Item = usize>) -> Queue {
        Queue::new(weights, 1, 1)
    }

    /// Takes the next units for a worker: one unit, or several whose weight is at most `most`.
    /// Returns `None` if no unit is left to begin.
    pub(super) fn next(&self, worker: usize, most: usize) -> Option<Range<usize>> {
        let worker = worker.min(self.ranges.len() - 1);
        if let Some(units) = self.take_front(&mut self.range(worker), most) {
            return Some(units);
        }
        while let Some(&unit) = self.heavy.get(self.asked.fetch_add(1, Ordering::Relaxed)) {
            if self.claim(unit) {
                return Some(unit..unit + 1);
            }
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
            // `own` has been locked since the theft, so no other worker can have emptied it.
            if let Some(units) = self.take_front(&mut own, most) {
                return Some(units);
            }
        }
    }

    /// Takes units from the front of a range, up to the first unit that another worker has taken.
    fn take_front(&self, range: &mut Range<usize>, most: usize) -> Option<Range<usize>> {
        while range.start < range.end && !self.claim(range.start) {
            range.start += 1;
        }
        let start = range.start;
        if start >= range.end {
            return None;
        }
        let weight = |end: usize| self.before[end] - self.before[start];
        let most = most.min(weight(range.end) / SHARE);
        let mut end = start + 1;
        while end < range.end && weight(end + 1) <= most && self.claim(end) {
            end += 1;
        }
        range.start = end;
        Some(start..end)
    }

    /// Marks a unit as taken. Returns false if it was already taken.
    fn claim(&self, unit: usize) -> bool {
        !self.taken[unit].swap(true, Ordering::Relaxed)
    }

    fn range(&self, worker: usize) -> MutexGuard<'_, Range<usize>> {
        locked(&self.ranges[worker])
    }
}

#[cfg(test)]
mod tests {
    use std::{
        iter,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn divides_by_weight_and_steals_from_the_rear() {
        let queue = Queue::new([10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1].into_iter(), 2, 3);
        assert_eq!(queue.next(1, 1), Some(1..2));
        assert_eq!(queue.next(2, 1), Some(0..1), "the heaviest, which the first has not begun");
        assert_eq!(queue.next(2, 1), Some(6..7));
        assert_eq!(queue.next(0, 1), Some(9..10));
    }

    #[test]
    fn a_batch_never_takes_most_of_a_range() {
        let queue = Queue::new(iter::repeat_n(5, 100), 1, 2);
        assert_eq!(queue.next(0, 22), Some(0..4));
        assert_eq!(queue.next(0, 3), Some(4..5));
        assert_eq!(queue.next(0, 1000), Some(5..28));
        assert_eq!(queue.next(1, 1000), Some(64..73));
    }

    #[test]
    fn in_order_each_worker_takes_the_next_unit() {
        let queue = Queue::in_order(iter::repeat_n(1, 3));
        assert_eq!(
            [7, 0, 3, 0].map(|worker| queue.next(worker, 1)),
            [Some(0..1), Some(1..2), Some(2..3), None]
        );
    }

    #[test]
    fn takes_every_unit_once() {
        for (units, workers, limit) in [(0, 1, 1), (1, 2, 4), (1000, 1, 8), (1000, 4, 4), (7, 8, 8)] {
            for most in [1, 20] {
                let taken: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
                let queue = Queue::new(iter::repeat_n(1, units), workers, limit);
                std::thread::scope(|scope| {
                    for worker in 0..limit {
                        let (queue, taken) = (&queue, &taken);
                        scope.spawn(move || {
                            for unit in iter::from_fn(|| queue.next(worker, most)).flatten() {
                                taken[unit].fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
                assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }
}
