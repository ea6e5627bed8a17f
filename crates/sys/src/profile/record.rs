//! One thread's figures.
//!
//! A thread's time is cut into pieces at the borders of phases. How long a piece took is asked of a clock that needs no system
//! call; how long the thread ran meanwhile is not to be had without one, so it is asked only after a *long* piece, which
//! pays for it. What a thread did not run for since it was last asked was then most likely spent in this very piece;
//! what does not fit into it is shared among the short ones, by their length. So the sum is exact and its distribution nearly.
//!
//! At a border nothing is done but to add the piece to those of its phase, in ticks. Figures are made of them when
//! there is more to do anyway: after a long piece, and at the end of a bucket of the timeline.

use std::cell::Cell;

use super::{PHASES, Phase, Total, clock::Clock, timeline::Timeline};

/// A thread's pieces since figures were made of them. Times are ticks.
pub(super) struct Pieces {
    phase: Cell<Phase>,
    /// When the piece began that it is in.
    since: Cell<u64>,
    /// So much is long,
    long: Cell<u64>,
    /// and then the bucket ends.
    until: Cell<u64>,
    pending: [Cell<u64>; PHASES],
    counts: [Cell<u64>; PHASES],
}

/// A piece that something is to be made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    phase: Phase,
    since: u64,
    pub(super) until: u64,
}

impl Pieces {
    /// None. The first border is the end of a long piece, whenever it comes.
    pub(super) const fn none() -> Pieces {
        Pieces {
            phase: Cell::new(Phase::Other),
            since: Cell::new(0),
            long: Cell::new(0),
            until: Cell::new(0),
            pending: [const { Cell::new(0) }; PHASES],
            counts: [const { Cell::new(0) }; PHASES],
        }
    }

    /// Forgets all but the phase that the thread is in.
    pub(super) fn forget(&self) {
        for cell in self.pending.iter().chain(&self.counts).chain([&self.since, &self.long, &self.until]) {
            cell.set(0);
        }
    }

    /// The phase the thread is in.
    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Begins a phase, and counts that. Returns the one before.
    #[inline(always)]
    pub(super) fn begin(&self, phase: Phase, now: u64, settle: impl FnOnce(Piece)) -> Phase {
        let previous = self.switch(phase, now, settle);
        let count = &self.counts[phase as usize];
        count.set(count.get() + 1);
        previous
    }

    /// Goes over to a phase; `settle` is called if it is time for that. Returns the one before.
    #[inline(always)]
    pub(super) fn switch(&self, next: Phase, now: u64, settle: impl FnOnce(Piece)) -> Phase {
        let (phase, since) = (self.phase.replace(next), self.since.get());
        // Counters of two processors may differ by a little.
        let now = now.max(since);
        self.since.set(now);
        let took = now - since;
        let pending = &self.pending[phase as usize];
        pending.set(pending.get().wrapping_add(took));
        if took >= self.long.get() || now >= self.until.get() {
            settle(Piece { phase, since, until: now });
        }
        phase
    }
}

/// What a thread did since it came. Times are nanoseconds since the start, and the thread's clock.
pub(super) struct Record {
    clock: Clock,
    long: u64,
    began: u64,
    /// Until then figures have been made.
    settled: u64,
    totals: [Total; PHASES],
    /// When its clock was last looked at, what that said,
    looked: u64,
    ran: u64,
    /// and the pieces since then.
    pending: [u64; PHASES],
    timeline: Timeline,
}

impl Record {
    /// Of a thread that comes at this tick. A piece of `long` nanoseconds pays for a look at its clock.
    pub(super) fn new(clock: Clock, long: u64, now: u64, ran: u64, pieces: &Pieces) -> Record {
        let began = clock.nanos(now);
        let record = Record {
            clock,
            long,
            began,
            settled: began,
            totals: [Total::default(); PHASES],
            looked: began,
            ran,
            pending: [0; PHASES],
            timeline: Timeline::default(),
        };
        pieces.forget();
        pieces.since.set(now);
        record.go_on(pieces);
        record
    }

    /// Says until when the next pieces are only added up.
    fn go_on(&self, pieces: &Pieces) {
        pieces.long.set(self.clock.ticks(self.long));
        pieces.until.set(self.clock.at(self.timeline.end_of_bucket(self.settled)));
    }

    /// Makes figures of all pieces up to the `latest`. `ran` is the thread's clock.
    pub(super) fn settle(&mut self, pieces: &Pieces, latest: Piece, ran: impl FnOnce() -> u64) {
        let now = self.clock.nanos(latest.until);
        let last = latest.until - latest.since;
        let mut short = [0; PHASES];
        for (phase, (short, pending)) in short.iter_mut().zip(&pieces.pending).enumerate() {
            let ticks = pending.take() - if phase == latest.phase as usize { last } else { 0 };
            *short = self.clock.length(ticks);
            self.pending[phase] += *short;
        }
        self.timeline.add_together(self.settled, &short);
        // What is lost by rounding is the latest's.
        let last = (now - self.settled).saturating_sub(short.iter().sum());
        self.pending[latest.phase as usize] += last;
        let off = if last >= self.long { self.look((latest.phase, last), now, ran()) } else { 0 };
        self.timeline.add(latest.phase, (now - last, now), off);
        self.settled = now;
        self.go_on(pieces);
    }

    /// Shares out the time since the last look; tells how much of the latest piece the thread did not run.
    fn look(&mut self, (phase, latest): (Phase, u64), now: u64, ran: u64) -> u64 {
        let wall = now.saturating_sub(self.looked);
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
                // Both are times between two looks: the product of two of a minute still fits.
                total.off += (u128::from(rest) * u128::from(short) / u128::from(others)) as u64;
            }
            *pending = 0;
        }
        (self.looked, self.ran) = (now, ran);
        of_latest
    }

    /// When the thread came and left, its phases, and its timeline.
    pub(super) fn finish(
        mut self,
        pieces: &Pieces,
        now: u64,
        ran: u64,
    ) -> (u64, u64, [Total; PHASES], Timeline) {
        let mut latest = None;
        pieces.until.set(0);
        pieces.switch(Phase::Other, now, |piece| latest = Some(piece));
        self.settle(pieces, latest.expect("all buckets have ended"), || ran);
        self.look((Phase::Other, 0), self.settled, ran);
        for (total, count) in self.totals.iter_mut().zip(&pieces.counts) {
            total.count = count.take();
        }
        pieces.forget();
        (self.began, self.settled, self.totals, self.timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 50_000;

    /// A thread, as it sees itself.
    struct Thread {
        pieces: Pieces,
        record: Record,
    }

    impl Thread {
        fn new(now: u64, ran: u64) -> Thread {
            let pieces = Pieces::none();
            let record = Record::new(Clock::made_up(), LONG, now, ran, &pieces);
            Thread { pieces, record }
        }

        fn begin(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
            self.pieces.begin(phase, now, |piece| self.record.settle(&self.pieces, piece, ran));
        }

        fn switch(&mut self, phase: Phase, now: u64, ran: impl FnOnce() -> u64) {
            self.pieces.switch(phase, now, |piece| self.record.settle(&self.pieces, piece, ran));
        }

        fn finish(self, now: u64, ran: u64) -> (u64, u64, [Total; PHASES], Timeline) {
            self.record.finish(&self.pieces, now, ran)
        }
    }

    fn total(totals: &[Total; PHASES], phase: Phase) -> (u64, u64, u64) {
        let Total { count, wall, off } = totals[phase as usize];
        (count, wall, off)
    }

    #[test]
    fn a_phase_within_another_takes_its_time_from_it() {
        let mut thread = Thread::new(100, 0);
        thread.begin(Phase::Plan, 200, || 0);
        thread.begin(Phase::Stat, 1_000, || 0);
        thread.switch(Phase::Plan, 1_500, || 0);
        thread.switch(Phase::Other, 2_000, || 0);
        let (began, ended, totals, _) = thread.finish(2_100, 2_000);
        assert_eq!((began, ended), (100, 2_100));
        assert_eq!(total(&totals, Phase::Plan), (1, 1_300, 0));
        assert_eq!(total(&totals, Phase::Stat), (1, 500, 0));
        assert_eq!(total(&totals, Phase::Other), (0, 200, 0));
    }

    #[test]
    fn a_long_piece_is_what_the_thread_waited_for() {
        let mut thread = Thread::new(0, 0);
        thread.begin(Phase::Decode, 0, || 0);
        thread.begin(Phase::Open, 40_000, || unreachable!("a short piece"));
        thread.switch(Phase::Other, 1_040_000, || 60_000);
        let (_, _, totals, _) = thread.finish(1_040_000, 60_000);
        assert_eq!(total(&totals, Phase::Open), (1, 1_000_000, 980_000));
        assert_eq!(total(&totals, Phase::Decode), (1, 40_000, 0));
    }

    #[test]
    fn what_does_not_fit_is_shared_among_the_short_ones() {
        let mut thread = Thread::new(0, 0);
        for at in 0..100 {
            thread.begin(Phase::Open, at * 40_000, || unreachable!("a short piece"));
            thread.switch(Phase::Write, at * 40_000 + 30_000, || unreachable!("a short piece"));
        }
        let (_, _, totals, _) = thread.finish(4_000_000, 2_000_000);
        assert_eq!(total(&totals, Phase::Open), (100, 3_000_000, 1_500_000));
        assert_eq!(total(&totals, Phase::Write), (0, 1_000_000, 500_000));
    }

    #[test]
    fn a_thread_s_phases_add_up_to_its_time() {
        let mut thread = Thread::new(7, 3);
        let (mut now, mut ran, mut dice) = (7, 3, 1u64);
        for _ in 0..10_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let took = (dice >> 40) % 120_000;
            (now, ran) = (now + took, ran + took * ((dice >> 33) % 3) / 2);
            thread.begin(Phase::ALL[(dice >> 60) as usize], now, || ran);
        }
        let (began, ended, totals, timeline) = thread.finish(now, ran);
        let walls: u64 = totals.iter().map(|total| total.wall).sum();
        assert_eq!(walls, ended - began);
        assert!(totals.iter().all(|total| total.off <= total.wall), "{totals:?}");
        let drawn: u64 = timeline.buckets().iter().flatten().map(|(on, off)| on + off).sum();
        assert_eq!(drawn, ended - began);
    }
}
