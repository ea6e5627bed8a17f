//! The figures of one thread.
//!
//! Phase changes cut a thread's time into intervals. A clock that needs no system call measures the
//! length of each. The CPU time of the thread does need a system call, so it is read only after a
//! *long* interval, which is much longer than the call. The time in which the thread did not run
//! since the last read then most likely belongs to this interval. Time that exceeds the interval is
//! spread over the short intervals in proportion to their length. So the sum is exact, and the
//! distribution nearly so.
//!
//! A phase change only adds the interval to the ticks of its phase. The record converts ticks to
//! figures at points that need more work anyway: after a long interval, and at the end of a
//! timeline bucket.

use std::cell::Cell;

use super::{PHASES, Phase, Total, clock::Clock, timeline::Timeline};

/// A thread's intervals since they were last added to its record. Times are ticks.
pub(super) struct Intervals {
    phase: Cell<Phase>,
    /// The start of the current interval.
    since: Cell<u64>,
    /// The length of a long interval.
    long: Cell<u64>,
    /// The end of the current timeline bucket.
    until: Cell<u64>,
    pending: [Cell<u64>; PHASES],
    counts: [Cell<u64>; PHASES],
}

/// An interval that is due to be added to the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    phase: Phase,
    since: u64,
    pub(super) until: u64,
}

impl Intervals {
    /// Returns an empty value. The first phase change settles it.
    pub(super) const fn none() -> Intervals {
        Intervals {
            phase: Cell::new(Phase::Other),
            since: Cell::new(0),
            long: Cell::new(0),
            until: Cell::new(0),
            pending: [const { Cell::new(0) }; PHASES],
            counts: [const { Cell::new(0) }; PHASES],
        }
    }

    /// Clears all data except the current phase.
    pub(super) fn forget(&self) {
        for cell in self.pending.iter().chain(&self.counts).chain([&self.since, &self.long, &self.until]) {
            cell.set(0);
        }
    }

    /// Returns the current phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Begins a phase and counts it. Returns the previous phase.
    #[inline(always)]
    pub(super) fn begin(&self, phase: Phase, now: u64, settle: impl FnOnce(Interval)) -> Phase {
        let previous = self.switch(phase, now, settle);
        let count = &self.counts[phase as usize];
        count.set(count.get() + 1);
        previous
    }

    /// Changes to a phase, and calls `settle` if the record is due for an update. Returns the
    /// previous phase.
    #[inline(always)]
    pub(super) fn switch(&self, next: Phase, now: u64, settle: impl FnOnce(Interval)) -> Phase {
        let (phase, since) = (self.phase.replace(next), self.since.get());
        // The counters of two processors may differ a little.
        let now = now.max(since);
        self.since.set(now);
        let took = now - since;
        let pending = &self.pending[phase as usize];
        pending.set(pending.get().wrapping_add(took));
        if took >= self.long.get() || now >= self.until.get() {
            settle(Interval { phase, since, until: now });
        }
        phase
    }
}

/// A thread's figures since it started. Times are nanoseconds: of the profile's clock since its
/// start, and of the thread's CPU clock.
pub(super) struct Record {
    clock: Clock,
    long: u64,
    began: u64,
    /// The time up to which the figures include all intervals.
    settled: u64,
    totals: [Total; PHASES],
    /// The time of the last read of the CPU clock.
    last_read: u64,
    ran: u64,
    /// The time per phase since that read.
    pending: [u64; PHASES],
    timeline: Timeline,
}

/// The figures of a thread that has ended. Times are nanoseconds since the start of the profile.
pub(super) struct ThreadFigures {
    /// The time at which the thread started.
    pub(super) began: u64,
    /// The time at which it ended.
    pub(super) ended: u64,
    /// The figures of its phases.
    pub(super) totals: [Total; PHASES],
    pub(super) timeline: Timeline,
}

impl Record {
    /// Creates the record of a thread that starts at tick `now`. An interval of `long` nanoseconds
    /// justifies a read of the CPU clock.
    pub(super) fn new(clock: Clock, long: u64, now: u64, ran: u64, intervals: &Intervals) -> Record {
        let began = clock.nanos(now);
        let record = Record {
            clock,
            long,
            began,
            settled: began,
            totals: [Total::default(); PHASES],
            last_read: began,
            ran,
            pending: [0; PHASES],
            timeline: Timeline::default(),
        };
        intervals.forget();
        intervals.since.set(now);
        record.set_limits(intervals);
        record
    }

    /// Sets the limits up to which the next intervals are only added up.
    fn set_limits(&self, intervals: &Intervals) {
        intervals.long.set(self.clock.ticks(self.long));
        intervals.until.set(self.clock.at(self.timeline.end_of_bucket(self.settled)));
    }

    /// Adds all intervals up to `latest` to the figures. `ran` reads the thread's CPU clock.
    pub(super) fn settle(&mut self, intervals: &Intervals, latest: Interval, ran: impl FnOnce() -> u64) {
        let now = self.clock.nanos(latest.until);
        let last = latest.until - latest.since;
        let mut short = [0; PHASES];
        for (phase, (short, pending)) in short.iter_mut().zip(&intervals.pending).enumerate() {
            let ticks = pending.take() - if phase == latest.phase as usize { last } else { 0 };
            *short = self.clock.length(ticks);
            self.pending[phase] += *short;
        }
        self.timeline.add_together(self.settled, &short);
        // Rounding losses go to the latest interval.
        let last = (now - self.settled).saturating_sub(short.iter().sum());
        self.pending[latest.phase as usize] += last;
        let off = if last >= self.long { self.attribute_off_time(latest.phase, last, now, ran()) } else { 0 };
        self.timeline.add(latest.phase, now - last..now, off);
        self.settled = now;
        self.set_limits(intervals);
    }

    /// Distributes the time since the last read of the CPU clock. Returns the part of the latest
    /// interval in which the thread did not run.
    fn attribute_off_time(&mut self, phase: Phase, latest: u64, now: u64, ran: u64) -> u64 {
        let wall = now.saturating_sub(self.last_read);
        let off = wall.saturating_sub(ran.saturating_sub(self.ran));
        let of_latest = off.min(latest);
        let (rest, others) = (off - of_latest, wall - latest);
        for (at, (total, pending)) in self.totals.iter_mut().zip(&mut self.pending).enumerate() {
            let is_latest = at == phase as usize;
            let short = *pending - if is_latest { latest } else { 0 };
            total.wall += *pending;
            if is_latest {
                total.off += of_latest;
            }
            if others > 0 {
                // Both factors are times between two reads: the product of two minutes still fits.
                total.off += (u128::from(rest) * u128::from(short) / u128::from(others)) as u64;
            }
            *pending = 0;
        }
        (self.last_read, self.ran) = (now, ran);
        of_latest
    }

    /// Ends the record and returns its figures.
    pub(super) fn finish(mut self, intervals: &Intervals, now: u64, ran: u64) -> ThreadFigures {
        let mut latest = None;
        intervals.until.set(0);
        intervals.switch(Phase::Other, now, |interval| latest = Some(interval));
        self.settle(intervals, latest.expect("all buckets have ended"), || ran);
        self.attribute_off_time(Phase::Other, 0, self.settled, ran);
        for (total, count) in self.totals.iter_mut().zip(&intervals.counts) {
            total.count = count.take();
        }
        intervals.forget();
        ThreadFigures { began: self.began, ended: self.settled, totals: self.totals, timeline: self.timeline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 50_000;

    /// A simulated thread.
    struct Thread {
        intervals: Intervals,
        record: Record,
    }

    impl Thread {
        fn new(now: u64, ran: u64) -> Thread {
            let intervals = Intervals::none();
            let record = Record::new(Clock::of_nanoseconds(), LONG, now, ran, &intervals);
            Thread { intervals, record }
        }

        fn begin(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
            self.intervals.begin(phase, now, |interval| self.record.settle(&self.intervals, interval, ran));
        }

        fn switch(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
            self.intervals.switch(phase, now, |interval| self.record.settle(&self.intervals, interval, ran));
        }

        fn finish(self, now: u64, ran: u64) -> ThreadFigures {
            self.record.finish(&self.intervals, now, ran)
        }
    }

    fn total(totals: &[Total; PHASES], phase: Phase) -> (u64, u64, u64) {
        let Total { count, wall, off } = totals[phase as usize];
        (count, wall, off)
    }

    #[test]
    fn a_nested_phase_is_subtracted_from_the_outer_one() {
        let mut thread = Thread::new(100, 0);
        thread.begin(Phase::Plan, 200, || 0);
        thread.begin(Phase::Stat, 1_000, || 0);
        thread.switch(Phase::Plan, 1_500, || 0);
        thread.switch(Phase::Other, 2_000, || 0);
        let ThreadFigures { began, ended, totals, .. } = thread.finish(2_100, 2_000);
        assert_eq!((began, ended), (100, 2_100));
        assert_eq!(total(&totals, Phase::Plan), (1, 1_300, 0));
        assert_eq!(total(&totals, Phase::Stat), (1, 500, 0));
        assert_eq!(total(&totals, Phase::Other), (0, 200, 0));
    }

    #[test]
    fn off_time_goes_to_the_long_interval() {
        let mut thread = Thread::new(0, 0);
        thread.begin(Phase::Decode, 0, || 0);
        thread.begin(Phase::Open, 40_000, || unreachable!("a short interval"));
        thread.switch(Phase::Other, 1_040_000, || 60_000);
        let ThreadFigures { totals, .. } = thread.finish(1_040_000, 60_000);
        assert_eq!(total(&totals, Phase::Open), (1, 1_000_000, 980_000));
        assert_eq!(total(&totals, Phase::Decode), (1, 40_000, 0));
    }

    #[test]
    fn remaining_off_time_is_spread_over_short_intervals() {
        let mut thread = Thread::new(0, 0);
        for at in 0..100 {
            thread.begin(Phase::Open, at * 40_000, || unreachable!("a short interval"));
            thread.switch(Phase::Write, at * 40_000 + 30_000, || unreachable!("a short interval"));
        }
        let ThreadFigures { totals, .. } = thread.finish(4_000_000, 2_000_000);
        assert_eq!(total(&totals, Phase::Open), (100, 3_000_000, 1_500_000));
        assert_eq!(total(&totals, Phase::Write), (0, 1_000_000, 500_000));
    }

    #[test]
    fn phases_add_up_to_the_lifetime() {
        let mut thread = Thread::new(7, 3);
        let (mut now, mut ran, mut dice) = (7, 3, 1u64);
        for _ in 0..10_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let took = (dice >> 40) % 120_000;
            (now, ran) = (now + took, ran + took * ((dice >> 33) % 3) / 2);
            thread.begin(Phase::ALL[(dice >> 60) as usize], now, || ran);
        }
        let ThreadFigures { began, ended, totals, timeline } = thread.finish(now, ran);
        let walls: u64 = totals.iter().map(|total| total.wall).sum();
        assert_eq!(walls, ended - began);
        assert!(totals.iter().all(|total| total.off <= total.wall), "{totals:?}");
        let drawn: u64 = timeline.buckets().iter().flatten().map(|(on, off)| on + off).sum();
        assert_eq!(drawn, ended - began);
    }
}
