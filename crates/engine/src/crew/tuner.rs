//! How many workers a crew should have, found while it works.
//!
//! Two things are watched: whether workers wait (neither run nor are ready to run), and how many steps a second all
//! of them do. Workers that do not wait are as many as the cores. While they wait the crew is made four times as large, again and again,
//! as long as that makes it faster; if it does not, it goes back to the size that was best. Later, each time after a longer pause, it tries
//! a quarter, which is kept if it is nearly as fast, and if it is not, once more four times as many: what was slow for a
//! while may have been a directory, and not the disk, and what seemed to be gained may have been what the disk had read ahead.
//!
//! A size is judged by a window of its own, which begins when each worker could have done a step in the new
//! company. One bad window proves nothing, as steps differ: it is repeated before the crew goes back.

use std::time::{Duration, Instant};

/// A crew is made so many times as large at once: a disk of a few milliseconds rewards 64 workers, and is
/// to be known for one within the first percent of the work.
const RUNG: usize = 4;
/// How much faster that has to make it,
const GAIN: f64 = 1.25;
/// and where the kernel reads ahead: what serves many at once is nearly so many times as fast, and what does not loses by a larger crew's seeks.
const CLEAR_GAIN: f64 = 2.0;
/// Windows that do not show a gain, until the crew goes back.
const PATIENCE: u32 = 2;
/// A window takes at least so long, since less is noise,
const WINDOW: Duration = Duration::from_millis(5);
/// and where the kernel reads ahead so long,
const LONG_WINDOW: Duration = Duration::from_millis(40);
/// and so many steps for each worker.
const STEPS: usize = 2;
/// A smaller crew is judged by a window that is so many times as long: nobody waits for the answer.
const CAREFUL: u32 = 4;
/// How long a crew that settled is left alone, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONG_FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Looks in a row that find nobody waiting, until a large crew goes back to the cores.
const BUSY_LOOKS: u32 = 8;

/// What is known of a disk beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Nature {
    #[default]
    Any,
    /// It is read from, and is another machine's: how often somebody had to wait says how much it was asked. Of the steps, most find what came with
    /// a listing.
    Asked,
    /// It is read from, and is of this machine: the kernel reads ahead, so that steps tell little of it. What is counted is how often somebody
    /// had to wait.
    ReadsAhead,
    /// It is written to, and is of this machine: what is written goes into memory, so that somebody waits now and then, and more workers do not help.
    KeepsWrites,
}

/// What was found out, for the next phase of the same work to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// Of a crew that waited, and was settled or still growing.
    pub(super) size: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tuner {
    /// The size of a crew that does not wait.
    cores: usize,
    limit: usize,
    /// What a window takes at least.
    least: Duration,
    gain: f64,
    first_pause: Duration,
    size: usize,
    state: State,
    window: Window,
    busy: u32,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nobody waits, as far as is known.
    Working,
    /// Made larger; `best` is what it was before.
    Climbing { best: Sample, windows: u32 },
    /// Made smaller; `best` is what it was before.
    Descending { best: Sample },
    /// Left as it is until then; what is tried next.
    Settled { until: Instant, next: Direction },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    size: usize,
    /// Steps a second.
    rate: f64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    steps: usize,
    /// Each worker has not had the time for a step yet.
    warming: bool,
}

impl Tuner {
    /// Of a crew that begins with `first` of at most `limit` workers; `large` if it is known that they will wait.
    pub(super) fn new(
        (first, limit): (usize, usize),
        cores: usize,
        large: bool,
        nature: Nature,
        (now, steps): (Instant, usize),
    ) -> Tuner {
        let (least, gain, first_pause) = match nature {
            Nature::Any | Nature::Asked => (WINDOW, GAIN, FIRST_PAUSE),
            Nature::ReadsAhead | Nature::KeepsWrites => (LONG_WINDOW, CLEAR_GAIN, LONG_FIRST_PAUSE),
        };
        let state = match large {
            true => State::Settled { until: now + first_pause, next: Direction::Down },
            false => State::Working,
        };
        Tuner {
            cores: cores.min(limit),
            limit,
            least,
            gain,
            first_pause,
            size: first,
            state,
            window: Window { since: now, steps, warming: large },
            busy: 0,
            pause: first_pause,
        }
    }

    /// The size the crew should have, when `steps` are done by all and the worker that asks has been waiting
    /// or not.
    pub(super) fn look(&mut self, now: Instant, steps: usize, waits: bool) -> usize {
        let took = now - self.window.since;
        let done = steps.saturating_sub(self.window.steps);
        if self.window.warming {
            if done >= self.size {
                self.begin(now, steps, false);
            }
            return self.size;
        }
        self.busy = if waits { 0 } else { self.busy + 1 };
        if self.busy >= BUSY_LOOKS && self.size > self.cores {
            return self.turn(State::Working, self.cores, now, steps);
        }
        let short = took < self.least || done < self.size * STEPS;
        match self.state {
            State::Working if !waits => {
                if took >= self.least {
                    self.begin(now, steps, false);
                }
                self.size
            }
            // Whether anybody waits is known before how fast they are.
            State::Working if took < self.least || done == 0 => self.size,
            State::Settled { until, .. } if now < until || !waits => {
                if took >= 10 * self.least {
                    self.begin(now, steps, false);
                }
                self.size
            }
            State::Climbing { .. } | State::Settled { .. } if short => self.size,
            State::Descending { .. } | State::Settled { next: Direction::Down, .. }
                if took < CAREFUL * self.least || done < self.size * STEPS =>
            {
                self.size
            }
            State::Settled { next: Direction::Down, .. } => {
                let best = Sample { size: self.size, rate: rate(done, took) };
                let smaller = (self.size / RUNG).max(self.cores);
                self.turn(State::Descending { best }, smaller, now, steps)
            }
            State::Descending { best } if rate(done, took) * self.gain < best.rate => {
                self.settle(best.size, Direction::Up, now, steps)
            }
            State::Descending { .. } => {
                self.pause = self.first_pause;
                self.settle(self.size, Direction::Down, now, steps)
            }
            State::Settled { .. } if self.size == self.limit => {
                self.settle(self.size, Direction::Down, now, steps)
            }
            State::Working | State::Settled { .. } => {
                self.climb(Sample { size: self.size, rate: rate(done, took) }, now, steps)
            }
            State::Climbing { best, windows } => {
                let sample = Sample { size: self.size, rate: rate(done, took) };
                if sample.rate >= best.rate * self.gain {
                    self.pause = self.first_pause;
                    return self.climb(sample, now, steps);
                }
                if windows < PATIENCE {
                    self.state = State::Climbing { best, windows: windows + 1 };
                    self.begin(now, steps, false);
                    return self.size;
                }
                self.settle(best.size, Direction::Down, now, steps)
            }
        }
    }

    /// Begins the window anew, for what has passed since it began proves nothing.
    pub(super) fn pass_over(&mut self, now: Instant, steps: usize) {
        if !self.window.warming {
            self.begin(now, steps, false);
        }
    }

    /// What the next phase may begin with.
    pub(super) fn learnt(&self) -> Option<Learnt> {
        let size = match self.state {
            State::Working => return None,
            State::Climbing { best, .. } => best.size.max(self.cores * RUNG).min(self.size),
            State::Descending { best } => best.size,
            State::Settled { .. } => self.size,
        };
        (size > self.cores).then_some(Learnt { size })
    }

    fn climb(&mut self, best: Sample, now: Instant, steps: usize) -> usize {
        if self.size == self.limit {
            return self.settle(self.size, Direction::Down, now, steps);
        }
        // 2 -> 8 -> 32 -> 128
        let next = (self.size * RUNG).min(self.limit);
        self.turn(State::Climbing { best, windows: 0 }, next, now, steps)
    }

    fn settle(&mut self, size: usize, next: Direction, now: Instant, steps: usize) -> usize {
        let until = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let next = if size > self.cores { next } else { Direction::Up };
        self.turn(State::Settled { until, next }, size, now, steps)
    }

    fn turn(&mut self, state: State, size: usize, now: Instant, steps: usize) -> usize {
        self.state = state;
        self.busy = 0;
        let warming = size != self.size;
        self.size = size;
        self.begin(now, steps, warming);
        size
    }

    fn begin(&mut self, now: Instant, steps: usize, warming: bool) {
        self.window = Window { since: now, steps, warming };
    }
}

fn rate(steps: usize, took: Duration) -> f64 {
    steps as f64 / took.as_secs_f64().max(f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a crew work on a made disk: `rate` tells the steps a second of a size, `waits` whether a worker does.
    /// Returns the sizes it had, each with the steps done when it began.
    fn run(
        steps: usize,
        limit: usize,
        rate: impl Fn(usize) -> f64,
        waits: impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let start = Instant::now();
        let mut tuner = Tuner::new((2, limit), 2, false, Nature::Any, (start, 0));
        let (mut now, mut size, mut sizes) = (start, 2, vec![(2, 0)]);
        for step in 1..=steps {
            now += Duration::from_secs_f64(1.0 / rate(size));
            let next = tuner.look(now, step, waits(size));
            if next != size {
                size = next;
                sizes.push((size, step));
            }
        }
        sizes
    }

    #[test]
    fn a_network_disk_is_known_within_the_first_hundredths() {
        // 3 ms a step, 64 at once.
        let sizes = run(15_000, 128, |size| size.min(64) as f64 / 0.003, |_| true);
        assert_eq!(sizes.iter().map(|size| size.0).take(4).collect::<Vec<_>>(), [2, 8, 32, 128]);
        assert!(sizes[3].1 < 300, "{sizes:?}");
        // Now and then it is seen whether fewer would do.
        let small: usize =
            sizes[3..].windows(2).filter(|pair| pair[0].0 < 64).map(|pair| pair[1].1 - pair[0].1).sum();
        assert!(small < 500 && sizes.iter().skip(3).all(|size| size.0 >= 32), "{sizes:?}");
    }

    #[test]
    fn what_was_read_ahead_is_no_gain() {
        // Whatever the crew, 200 steps a second; whenever it grows, so much has been read ahead that it seems to be faster.
        let start = Instant::now();
        let mut tuner = Tuner::new((2, 128), 2, false, Nature::Any, (start, 0));
        let (mut now, mut size, mut ahead, mut large) = (start, 2, 0, 0);
        for step in 1..=20_000 {
            now += Duration::from_secs_f64(if ahead > 0 { 1.0 / (400.0 * size as f64) } else { 1.0 / 200.0 });
            ahead = usize::saturating_sub(ahead, 1);
            let next = tuner.look(now, step, true);
            if next > size && step < 2_000 {
                ahead = 8 * next;
            }
            large += usize::from(next > 8);
            size = next;
        }
        assert!(size <= 8 && large < 4_000, "{size} {large}");
    }

    #[test]
    fn a_journal_that_is_waited_for_is_no_slow_disk() {
        // Whoever looks does so every 5 ms, and 40 steps a millisecond are done; each tenth of a second all wait for 20 ms.
        let crowded = |nature| {
            let start = Instant::now();
            let mut tuner = Tuner::new((2, 128), 2, false, nature, (start, 0));
            let (mut now, mut steps, mut crowded) = (start, 0, 0);
            for look in 1..=1_000 {
                let is_held_up = look % 20 == 0;
                now += Duration::from_millis(if is_held_up { 20 } else { 5 });
                steps += if is_held_up { 2 } else { 200 };
                crowded += usize::from(tuner.look(now, steps, is_held_up) > 8);
            }
            crowded
        };
        assert_eq!(crowded(Nature::KeepsWrites), 0);
        assert!(crowded(Nature::Any) > 100, "else this shows nothing");
    }

    #[test]
    fn who_computes_stays_with_the_cores() {
        assert_eq!(run(10_000, 128, |_| 20_000.0, |_| false), [(2, 0)]);
    }

    #[test]
    fn one_that_serves_one_at_a_time_gets_no_crowd() {
        let sizes = run(20_000, 128, |_| 100.0, |_| true);
        // The longest pause is four seconds, so that the crowds are a small part of the time.
        let crowded: usize =
            sizes.windows(2).filter(|pair| pair[0].0 > 2).map(|pair| pair[1].1 - pair[0].1).sum();
        assert!(crowded < 4000, "{crowded} {sizes:?}");
        assert!(sizes.iter().all(|size| size.0 <= 8), "{sizes:?}");
    }

    #[test]
    fn what_gets_in_its_own_way_goes_back() {
        // Locks: the more, the slower.
        let sizes = run(20_000, 128, |size| 20_000.0 / size as f64, |_| true);
        assert!(sizes.iter().all(|size| size.0 <= 8), "{sizes:?}");
        assert_eq!(sizes[2].0, 2);
    }

    #[test]
    fn a_slow_beginning_does_not_last() {
        // The first directory is slow whoever is at it, or serves few; then the disk serves 64 at once.
        for early in [1, 8] {
            let start = Instant::now();
            let mut tuner = Tuner::new((2, 128), 2, false, Nature::Any, (start, 0));
            let (mut now, mut size) = (start, 2);
            for step in 1..=20_000 {
                let at_once = if step < 1_000 { early } else { 64 };
                now += Duration::from_secs_f64(0.003 / size.min(at_once) as f64);
                size = tuner.look(now, step, true);
            }
            assert_eq!((early, size), (early, 128));
            assert_eq!(tuner.learnt(), Some(Learnt { size: 128 }));
        }
    }

    #[test]
    fn a_large_crew_that_no_longer_waits_goes_home() {
        let start = Instant::now();
        let mut tuner = Tuner::new((64, 128), 2, true, Nature::Any, (start, 0));
        let mut now = start;
        let mut size = 64;
        for step in 1..500 {
            now += Duration::from_micros(100);
            size = tuner.look(now, step, false);
        }
        assert_eq!(size, 2);
        assert_eq!(tuner.learnt(), None);
    }
}
