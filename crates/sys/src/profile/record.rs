//! One thread's figures.
//!
//! A thread's time is cut into pieces at the borders of phases. How long a piece took is asked of a clock that needs no system
//! call; how long the thread ran meanwhile is not to be had without one, so it is asked only after a *long* piece, which
//! pays for it. What a thread did not run for since it was last asked was then most likely spent in this very piece;
//! what does not fit into it is shared among the short ones, by their length. So the sum is exact and its distribution nearly.

use super::{PHASES, Phase, Total, timeline::Timeline};

/// What a thread did since it came.
pub(super) struct Record {
    /// A piece of so many nanoseconds pays for a look at the thread's clock.
    long: u64,
    began: u64,
    phase: Phase,
    /// When the piece began that it is in.
    since: u64,
    totals: [Total; PHASES],
    /// When its clock was last looked at, what that said,
    looked: u64,
    ran: u64,
    /// and the pieces since then.
    pending: [u64; PHASES],
    timeline: Timeline,
}

impl Record {
    /// Of a thread that comes `now`, in nanoseconds since the start as all times here.
    pub(super) fn new(long: u64, now: u64, ran: u64) -> Record {
        Record {
            long,
            began: now,
            phase: Phase::Other,
            since: now,
            totals: [Total::default(); PHASES],
            looked: now,
            ran,
            pending: [0; PHASES],
            timeline: Timeline::default(),
        }
    }

    /// The phase it is in.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins a phase, and counts that.
    pub(super) fn begin(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
        self.totals[phase as usize].count += 1;
        self.switch(phase, now, ran);
    }

    /// Goes over to a phase. `ran` is the thread's clock.
    pub(super) fn switch(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
        let piece = now.saturating_sub(self.since);
        self.pending[self.phase as usize] += piece;
        let off = if piece >= self.long { self.look(piece, now, ran()) } else { 0 };
        self.timeline.add(self.phase, (self.since, now), off);
        self.since = now;
        self.phase = phase;
    }

    /// Settles the pieces since the last look; tells how much of the latest the thread did not run.
    fn look(&mut self, latest: u64, now: u64, ran: u64) -> u64 {
        let wall = now.saturating_sub(self.looked);
        let off = wall.saturating_sub(ran.saturating_sub(self.ran));
        let of_latest = off.min(latest);
        let (rest, others) = (off - of_latest, wall - latest);
        for (at, (total, pending)) in self.totals.iter_mut().zip(&mut self.pending).enumerate() {
            let is_latest = at == self.phase as usize;
            let short = *pending - if is_latest { latest } else { 0 };
            total.wall += *pending;
            if is_latest {
                total.off += of_latest;
            }
            if others > 0 {
                // Both are times between two looks: the product of two of a minute still fits.
                total.off += (u128::from(rest) * u128::from(short) / u128::from(others)) as u64;
            }
            *pending = 0;
        }
        (self.looked, self.ran) = (now, ran);
        of_latest
    }

    /// When the thread came and left, its phases, and its timeline.
    pub(super) fn finish(mut self, now: u64, ran: u64) -> (u64, u64, [Total; PHASES], Timeline) {
        self.switch(Phase::Other, now, || ran);
        self.look(0, now, ran);
        (self.began, now, self.totals, self.timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 50_000;

    fn total(totals: &[Total; PHASES], phase: Phase) -> (u64, u64, u64) {
        let Total { count, wall, off } = totals[phase as usize];
        (count, wall, off)
    }

    #[test]
    fn a_phase_within_another_takes_its_time_from_it() {
        let mut record = Record::new(LONG, 100, 0);
        record.begin(Phase::Plan, 200, || 0);
        record.begin(Phase::Stat, 1_000, || 0);
        record.switch(Phase::Plan, 1_500, || 0);
        record.switch(Phase::Other, 2_000, || 0);
        let (began, ended, totals, _) = record.finish(2_100, 2_000);
        assert_eq!((began, ended), (100, 2_100));
        assert_eq!(total(&totals, Phase::Plan), (1, 1_300, 0));
        assert_eq!(total(&totals, Phase::Stat), (1, 500, 0));
        assert_eq!(total(&totals, Phase::Other), (0, 200, 0));
    }

    #[test]
    fn a_long_piece_is_what_the_thread_waited_for() {
        let mut record = Record::new(LONG, 0, 0);
        record.begin(Phase::Decode, 0, || 0);
        record.begin(Phase::Open, 40_000, || unreachable!("a short piece"));
        record.switch(Phase::Other, 1_040_000, || 60_000);
        let (_, _, totals, _) = record.finish(1_040_000, 60_000);
        assert_eq!(total(&totals, Phase::Open), (1, 1_000_000, 980_000));
        assert_eq!(total(&totals, Phase::Decode), (1, 40_000, 0));
    }

    #[test]
    fn what_does_not_fit_is_shared_among_the_short_ones() {
        let mut record = Record::new(LONG, 0, 0);
        for at in 0..100 {
            record.begin(Phase::Open, at * 40_000, || unreachable!("a short piece"));
            record.switch(Phase::Write, at * 40_000 + 30_000, || unreachable!("a short piece"));
        }
        let (_, _, totals, _) = record.finish(4_000_000, 2_000_000);
        assert_eq!(total(&totals, Phase::Open), (100, 3_000_000, 1_500_000));
        assert_eq!(total(&totals, Phase::Write), (0, 1_000_000, 500_000));
    }

    #[test]
    fn a_thread_s_phases_add_up_to_its_time() {
        let mut record = Record::new(LONG, 7, 3);
        let (mut now, mut ran, mut dice) = (7, 3, 1u64);
        for _ in 0..10_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let took = (dice >> 40) % 120_000;
            (now, ran) = (now + took, ran + took * ((dice >> 33) % 3) / 2);
            record.begin(Phase::ALL[(dice >> 60) as usize], now, || ran);
        }
        let (began, ended, totals, timeline) = record.finish(now, ran);
        let walls: u64 = totals.iter().map(|total| total.wall).sum();
        assert_eq!(walls, ended - began);
        assert!(totals.iter().all(|total| total.off <= total.wall), "{totals:?}");
        let drawn: u64 = timeline.buckets().iter().flatten().map(|(on, off)| on + off).sum();
        assert_eq!(drawn, ended - began);
    }
}
