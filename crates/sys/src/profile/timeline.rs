//! A thread's phases over time, in buckets of equal width. Their number is bounded however long the
//! thread lives.

use std::ops::Range;

use super::{PHASES, Phase};

/// For each phase the nanoseconds in which the thread ran, and those in which it did not.
pub type Bucket = [(u64, u64); PHASES];

/// The largest number of buckets. Beyond it, the width doubles.
const MAX_BUCKETS: usize = 256;
/// The first width as a power of two: a quarter of a millisecond.
const FINEST_POWER: u32 = 18;

/// Buckets of one width, each starting at a multiple of it.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The binary logarithm of the width of a bucket in nanoseconds.
    power: u32,
    /// The number of the first bucket. Earlier ones are empty.
    first: usize,
    buckets: Vec<Bucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { power: FINEST_POWER, first: 0, buckets: Vec::new() }
    }
}

impl Timeline {
    /// Returns the width of a bucket in nanoseconds.
    pub fn width(&self) -> u64 {
        1 << self.power
    }

    /// Returns the buckets. The first starts at `first` times the width.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Returns the number of the first bucket; see [`Timeline::buckets`].
    pub fn first(&self) -> usize {
        self.first
    }

    /// Records that a phase lasted for `time`, and that the thread did not run for `off`
    /// nanoseconds of that time.
    pub(super) fn add(&mut self, phase: Phase, time: Range<u64>, off: u64) {
        let Range { start: from, end: to } = time;
        let whole = to - from;
        let (mut at, mut off_left) = (from, off);
        while at < to {
            let power = self.power;
            let number = (at >> power) as usize;
            let Some(bucket) = self.bucket(number) else {
                self.coarsen();
                continue;
            };
            let end = to.min((number as u64 + 1) << power);
            let part = end - at;
            let part_off = if end == to {
                off_left
            } else {
                (u128::from(off) * u128::from(part) / u128::from(whole)) as u64
            };
            // Rounding may leave the last part with a nanosecond more than its length.
            let part_off = part_off.min(part);
            off_left -= part_off;
            let (on, waited) = &mut bucket[phase as usize];
            *on += part - part_off;
            *waited += part_off;
            at = end;
        }
    }

    /// Records intervals that are all in the bucket of time `at`, in which the thread ran
    /// throughout.
    pub(super) fn add_together(&mut self, at: u64, intervals: &[u64; PHASES]) {
        if intervals.iter().all(|&took| took == 0) {
            return;
        }
        let bucket = loop {
            match self.bucket((at >> self.power) as usize) {
                Some(_) => break (at >> self.power) as usize - self.first,
                None => self.coarsen(),
            }
        };
        for ((on, _), took) in self.buckets[bucket].iter_mut().zip(intervals) {
            *on += took;
        }
    }

    /// Returns the end of the bucket that contains `at`.
    pub(super) fn end_of_bucket(&self, at: u64) -> u64 {
        ((at >> self.power) + 1) << self.power
    }

    /// Returns the bucket with this number, or `None` if it is too far from the first one.
    fn bucket(&mut self, number: usize) -> Option<&mut Bucket> {
        if self.buckets.is_empty() {
            self.first = number;
        }
        let at = number.checked_sub(self.first).filter(|&at| at < MAX_BUCKETS)?;
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, [(0, 0); PHASES]);
        }
        Some(&mut self.buckets[at])
    }

    /// Doubles the width.
    fn coarsen(&mut self) {
        let old = std::mem::take(&mut self.buckets);
        let first = self.first;
        self.power += 1;
        self.first = first / 2;
        for (at, bucket) in old.into_iter().enumerate() {
            let at = (first + at) / 2 - self.first;
            self.buckets.resize(at + 1, [(0, 0); PHASES]);
            sum(&mut self.buckets[at], &bucket);
        }
    }

    /// Adds the timeline of a thread that ran later.
    pub(super) fn append(&mut self, mut later: Timeline) {
        'coarsen: loop {
            while self.power < later.power {
                self.coarsen();
            }
            while later.power < self.power {
                later.coarsen();
            }
            // Check that all buckets fit before any is added.
            let last = later.first + later.buckets.len().saturating_sub(1);
            if !later.buckets.is_empty() && self.bucket(last).is_none() {
                self.coarsen();
                continue 'coarsen;
            }
            break;
        }
        for (at, bucket) in later.buckets.iter().enumerate() {
            sum(&mut self.buckets[later.first + at - self.first], bucket);
        }
    }

    /// Gives all timelines the width of the coarsest one.
    pub(super) fn align(mut timelines: Vec<&mut Timeline>) {
        let coarsest = timelines.iter().map(|timeline| timeline.power).max().unwrap_or(FINEST_POWER);
        for timeline in &mut timelines {
            while timeline.power < coarsest {
                timeline.coarsen();
            }
        }
    }
}

fn sum(into: &mut Bucket, bucket: &Bucket) {
    for ((on, off), (more_on, more_off)) in into.iter_mut().zip(bucket) {
        *on += more_on;
        *off += more_off;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(timeline: &Timeline) -> (u64, u64) {
        let all = timeline.buckets().iter().flatten();
        all.fold((0, 0), |(on, off), (more_on, more_off)| (on + more_on, off + more_off))
    }

    #[test]
    fn bounds_the_number_of_buckets() {
        let mut timeline = Timeline::default();
        for second in 0..1000 {
            let from = second * 1_000_000_000;
            timeline.add(Phase::Decode, from..from + 600_000_000, 100_000_000);
            timeline.add(Phase::Write, from + 600_000_000..from + 600_000_100, 0);
        }
        assert!(timeline.buckets().len() <= MAX_BUCKETS);
        assert_eq!(drawn(&timeline), (500_000_100_000, 100_000_000_000));
        assert!(timeline.width() * MAX_BUCKETS as u64 >= 999_600_000_000);
    }

    #[test]
    fn appends_a_later_timeline() {
        let mut early = Timeline::default();
        early.add(Phase::Plan, 10..2_000_000, 0);
        let mut late = Timeline::default();
        late.add(Phase::Write, 5_000_000_000..7_000_000_000, 1_000);
        early.append(late);
        early.append(Timeline::default());
        assert_eq!(drawn(&early), (2_001_999_990 - 1_000, 1_000));
        assert!(early.buckets().len() <= MAX_BUCKETS && early.first() == 0);
        let mut other = Timeline::default();
        Timeline::align(vec![&mut early, &mut other]);
        assert_eq!(early.width(), other.width());
    }
}
