//! When a thread did what: its time in buckets of equal width, few of them however long it lives.

use super::{PHASES, Phase};

/// Nanoseconds in which a thread ran in each phase, and in which it did not.
pub type Bucket = [(u64, u64); PHASES];

/// More buckets become half as many of twice the width.
const MOST: usize = 256;
/// The first width, as a power of two: a quarter of a millisecond.
const FINEST: u32 = 18;

/// Buckets of one width, each beginning at a multiple of it.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The width of a bucket is two to the power of it, in nanoseconds.
    power: u32,
    /// The number of the first bucket; those before are empty.
    first: usize,
    buckets: Vec<Bucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { power: FINEST, first: 0, buckets: Vec::new() }
    }
}

impl Timeline {
    /// The width of a bucket in nanoseconds.
    pub fn width(&self) -> u64 {
        1 << self.power
    }

    /// Its buckets; the first stands at `first` times the width.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// See [`Timeline::buckets`].
    pub fn first(&self) -> usize {
        self.first
    }

    /// Notes that a phase lasted from one time to another, of which the thread did not run for `off` nanoseconds.
    pub(super) fn add(&mut self, phase: Phase, (from, to): (u64, u64), off: u64) {
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
            let part_off = match end == to {
                true => off_left,
                false => (u128::from(off) * u128::from(part) / u128::from(whole)) as u64,
            };
            // What the last part is left with by rounding may be a nanosecond more than it took.
            let part_off = part_off.min(part);
            off_left -= part_off;
            let (on, waited) = &mut bucket[phase as usize];
            *on += part - part_off;
            *waited += part_off;
            at = end;
        }
    }

    /// Notes what pieces took that lie in one bucket, that of `at`: the thread ran all the time.
    pub(super) fn add_together(&mut self, at: u64, pieces: &[u64; PHASES]) {
        if pieces.iter().all(|&took| took == 0) {
            return;
        }
        let bucket = loop {
            match self.bucket((at >> self.power) as usize) {
                Some(_) => break (at >> self.power) as usize - self.first,
                None => self.coarsen(),
            }
        };
        for ((on, _), took) in self.buckets[bucket].iter_mut().zip(pieces) {
            *on += took;
        }
    }

    /// When the bucket ends that `at` lies in.
    pub(super) fn end_of_bucket(&self, at: u64) -> u64 {
        ((at >> self.power) + 1) << self.power
    }

    /// The bucket of this number; `None` if it lies too far from the first.
    fn bucket(&mut self, number: usize) -> Option<&mut Bucket> {
        if self.buckets.is_empty() {
            self.first = number;
        }
        let at = number.checked_sub(self.first).filter(|&at| at < MOST)?;
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

    /// Adds what a thread did that came later.
    pub(super) fn append(&mut self, mut later: Timeline) {
        'again: loop {
            while self.power < later.power {
                self.coarsen();
            }
            while later.power < self.power {
                later.coarsen();
            }
            // Whether all fits is asked before anything is added.
            let last = later.first + later.buckets.len().saturating_sub(1);
            if !later.buckets.is_empty() && self.bucket(last).is_none() {
                self.coarsen();
                continue 'again;
            }
            break;
        }
        for (at, bucket) in later.buckets.iter().enumerate() {
            sum(&mut self.buckets[later.first + at - self.first], bucket);
        }
    }

    /// Gives all the width of the coarsest.
    pub(super) fn align(mut timelines: Vec<&mut Timeline>) {
        let coarsest = timelines.iter().map(|timeline| timeline.power).max().unwrap_or(FINEST);
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
    fn few_buckets_however_long() {
        let mut timeline = Timeline::default();
        for second in 0..1000 {
            let from = second * 1_000_000_000;
            timeline.add(Phase::Decode, (from, from + 600_000_000), 100_000_000);
            timeline.add(Phase::Write, (from + 600_000_000, from + 600_000_100), 0);
        }
        assert!(timeline.buckets().len() <= MOST);
        assert_eq!(drawn(&timeline), (500_000_100_000, 100_000_000_000));
        assert!(timeline.width() * MOST as u64 >= 999_600_000_000);
    }

    #[test]
    fn one_after_the_other() {
        let mut early = Timeline::default();
        early.add(Phase::Plan, (10, 2_000_000), 0);
        let mut late = Timeline::default();
        late.add(Phase::Write, (5_000_000_000, 7_000_000_000), 1_000);
        early.append(late);
        early.append(Timeline::default());
        assert_eq!(drawn(&early), (2_001_999_990 - 1_000, 1_000));
        assert!(early.buckets().len() <= MOST && early.first() == 0);
        let mut other = Timeline::default();
        Timeline::align(vec![&mut early, &mut other]);
        assert_eq!(early.width(), other.width());
    }
}
