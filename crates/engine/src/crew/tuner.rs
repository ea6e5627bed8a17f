//! Finds the best number of workers while the crew runs.
//!
//! The tuner observes whether workers wait (they neither run nor are ready to run), and the step
//! rate of the whole crew. A crew whose workers do not wait has one worker per core. While they
//! wait, the crew is made four times as large, repeatedly, as long as that makes it faster. When it
//! no longer does, the crew returns to the best size. After pauses of growing length it tries a
//! quarter of its size, which it keeps if that is nearly as fast; if not, it tries four times its
//! size once more. A slow start may have been due to one directory instead of the disk, and an
//! apparent gain to read-ahead.
//!
//! Each size is measured in its own window, which starts when every worker has had the time for a
//! step at that size. Steps vary in cost, so one bad window is repeated before the crew returns to
//! its previous size.

use std::time::{Duration, Instant};

/// The factor by which a crew grows. A disk with a latency of a few milliseconds gains from 64
/// workers, and should be recognized within the first percent of the work.
const RUNG: usize = 4;
/// The speedup that a larger crew must show.
const GAIN: f64 = 1.25;
/// That speedup on a local disk, where the kernel reads ahead. A disk that serves many requests at
/// once shows nearly the full factor; other disks lose, as a larger crew causes seeks.
const CLEAR_GAIN: f64 = 2.0;
/// Windows without a gain before the crew returns to its previous size.
const PATIENCE: u32 = 2;
/// The shortest window; a shorter one measures noise.
const WINDOW: Duration = Duration::from_millis(5);
/// The shortest window on a local disk.
const LONG_WINDOW: Duration = Duration::from_millis(40);
/// The steps per worker that a window must contain.
const STEPS: usize = 2;
/// The factor by which windows are longer when a smaller crew is judged, which is not urgent.
const CAREFUL: u32 = 4;
/// The pause after a crew has settled. It grows from this up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONG_FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Consecutive samples without a waiting worker after which a large crew returns to the number of
/// cores.
const BUSY_SAMPLES: u32 = 8;

/// The kind of disk, as known beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DiskKind {
    #[default]
    Unknown,
    /// Reads from a network disk. Progress is the number of waits, as most steps find attributes
    /// that came with a directory listing.
    RemoteRead,
    /// Reads from a local disk. Progress is the number of waits, as the kernel reads ahead and the
    /// step rate does not measure the disk.
    LocalRead,
    /// Writes to a local disk. The kernel buffers writes, so a worker waits now and then, and more
    /// workers do not help.
    LocalWrite,
}

/// The result that the next phase of the same work starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    /// The size of a crew that waited and had settled or was still growing.
    pub(super) size: usize,
}

/// The sizes between which a crew is tuned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The number of workers that the crew starts with.
    pub(super) first: usize,
    /// The most workers.
    pub(super) limit: usize,
    /// The number of cores, which is the size of a crew that does not wait for the disk.
    pub(super) cores: usize,
}

/// The state of the tuner: see the module documentation.
#[derive(Debug)]
pub(super) struct Tuner {
    /// The size of a crew that does not wait.
    cores: usize,
    limit: usize,
    /// The shortest window.
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
    /// No sample has found a waiting worker.
    Working,
    /// The crew was made larger; `best` is the sample before that.
    Climbing { best: Sample, windows: u32 },
    /// The crew was made smaller; `best` is the sample before that.
    Descending { best: Sample },
    /// The size is kept until `until`; then a change in the direction `next` is tried.
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
    /// Steps per second.
    rate: f64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    steps: usize,
    /// Some worker has not yet had the time for a step.
    warming: bool,
}

impl Tuner {
    /// Creates the tuner of a crew. `large` means that an earlier phase found its workers waiting.
    pub(super) fn new(sizes: Sizes, large: bool, disk: DiskKind, now: Instant, steps: usize) -> Tuner {
        let Sizes { first, limit, cores } = sizes;
        let (least, gain, first_pause) = match disk {
            DiskKind::Unknown | DiskKind::RemoteRead => (WINDOW, GAIN, FIRST_PAUSE),
            DiskKind::LocalRead | DiskKind::LocalWrite => (LONG_WINDOW, CLEAR_GAIN, LONG_FIRST_PAUSE),
        };
        let state = if large {
            State::Settled { until: now + first_pause, next: Direction::Down }
        } else {
            State::Working
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

    /// Returns the size that the crew should have now. `steps` is the progress of all workers;
    /// `waits` is true if the sampling worker waited.
    pub(super) fn sample(&mut self, now: Instant, steps: usize, waits: bool) -> usize {
        let took = now - self.window.since;
        let done = steps.saturating_sub(self.window.steps);
        if self.window.warming {
            if done >= self.size {
                self.begin(now, steps, false);
            }
            return self.size;
        }
        self.busy = if waits { 0 } else { self.busy + 1 };
        if self.busy >= BUSY_SAMPLES && self.size > self.cores {
            return self.enter(State::Working, self.cores, now, steps);
        }
        let short = took < self.least || done < self.size * STEPS;
        match self.state {
            State::Working if !waits => {
                if took >= self.least {
                    self.begin(now, steps, false);
                }
                self.size
            }
            // A waiting worker is detected sooner than a reliable rate.
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
                self.enter(State::Descending { best }, smaller, now, steps)
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

    /// Restarts the window without evaluating it.
    pub(super) fn restart_window(&mut self, now: Instant, steps: usize) {
        if !self.window.warming {
            self.begin(now, steps, false);
        }
    }

    /// Returns what the next phase starts with.
    pub(super) fn learned(&self) -> Option<Learned> {
        let size = match self.state {
            State::Working => return None,
            State::Climbing { best, .. } => best.size.max(self.cores * RUNG).min(self.size),
            State::Descending { best } => best.size,
            State::Settled { .. } => self.size,
        };
        (size > self.cores).then_some(Learned { size })
    }

    fn climb(&mut self, best: Sample, now: Instant, steps: usize) -> usize {
        if self.size == self.limit {
            return self.settle(self.size, Direction::Down, now, steps);
        }
        // For example 2 -> 8 -> 32 -> 128.
        let next = (self.size * RUNG).min(self.limit);
        self.enter(State::Climbing { best, windows: 0 }, next, now, steps)
    }

    fn settle(&mut self, size: usize, next: Direction, now: Instant, steps: usize) -> usize {
        let until = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let next = if size > self.cores { next } else { Direction::Up };
        self.enter(State::Settled { until, next }, size, now, steps)
    }

    fn enter(&mut self, state: State, size: usize, now: Instant, steps: usize) -> usize {
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

    /// Simulates a crew on a disk. `rate` gives the steps per second for a size, `waits` whether a
    /// worker waits. Returns the sizes, each with the number of steps done when it began.
    fn run(
        steps: usize,
        limit: usize,
        rate: impl Fn(usize) -> f64,
        waits: impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let start = Instant::now();
        let mut tuner = Tuner::new(Sizes { first: 2, limit, cores: 2 }, false, DiskKind::Unknown, start, 0);
        let (mut now, mut size, mut sizes) = (start, 2, vec![(2, 0)]);
        for step in 1..=steps {
            now += Duration::from_secs_f64(1.0 / rate(size));
            let next = tuner.sample(now, step, waits(size));
            if next != size {
                size = next;
                sizes.push((size, step));
            }
        }
        sizes
    }

    #[test]
    fn recognizes_a_network_disk_within_the_first_percent() {
        // 3 ms per step, 64 requests at once.
        let sizes = run(15_000, 128, |size| size.min(64) as f64 / 0.003, |_| true);
        assert_eq!(sizes.iter().map(|size| size.0).take(4).collect::<Vec<_>>(), [2, 8, 32, 128]);
        assert!(sizes[3].1 < 300, "{sizes:?}");
        // A smaller crew is tried from time to time.
        let small: usize =
            sizes[3..].windows(2).filter(|pair| pair[0].0 < 64).map(|pair| pair[1].1 - pair[0].1).sum();
        assert!(small < 500 && sizes.iter().skip(3).all(|size| size.0 >= 32), "{sizes:?}");
    }

    #[test]
    fn read_ahead_does_not_count_as_a_gain() {
        // The disk does 200 steps a second for any crew. Whenever the crew grows, enough was read
        // ahead to make it look faster.
        let start = Instant::now();
        let mut tuner =
            Tuner::new(Sizes { first: 2, limit: 128, cores: 2 }, false, DiskKind::Unknown, start, 0);
        let (mut now, mut size, mut ahead, mut large) = (start, 2, 0, 0);
        for step in 1..=20_000 {
            now += Duration::from_secs_f64(if ahead > 0 { 1.0 / (400.0 * size as f64) } else { 1.0 / 200.0 });
            ahead = usize::saturating_sub(ahead, 1);
            let next = tuner.sample(now, step, true);
            if next > size && step < 2_000 {
                ahead = 8 * next;
            }
            large += usize::from(next > 8);
            size = next;
        }
        assert!(size <= 8 && large < 4_000, "{size} {large}");
    }

    #[test]
    fn waiting_for_the_journal_does_not_grow_the_crew() {
        // A worker samples every 5 ms, and 40 steps are done per millisecond; every tenth of a
        // second all workers wait for 20 ms.
        let enlarged = |disk| {
            let start = Instant::now();
            let mut tuner = Tuner::new(Sizes { first: 2, limit: 128, cores: 2 }, false, disk, start, 0);
            let (mut now, mut steps, mut enlarged) = (start, 0, 0);
            for look in 1..=1_000 {
                let is_held_up = look % 20 == 0;
                now += Duration::from_millis(if is_held_up { 20 } else { 5 });
                steps += if is_held_up { 2 } else { 200 };
                enlarged += usize::from(tuner.sample(now, steps, is_held_up) > 8);
            }
            enlarged
        };
        assert_eq!(enlarged(DiskKind::LocalWrite), 0);
        assert!(enlarged(DiskKind::Unknown) > 100, "else this shows nothing");
    }

    #[test]
    fn a_computing_crew_keeps_one_worker_per_core() {
        assert_eq!(run(10_000, 128, |_| 20_000.0, |_| false), [(2, 0)]);
    }

    #[test]
    fn a_disk_that_serves_one_request_at_a_time_gets_a_small_crew() {
        let sizes = run(20_000, 128, |_| 100.0, |_| true);
        // The longest pause is four seconds, so large crews run for a small part of the time.
        let enlarged: usize =
            sizes.windows(2).filter(|pair| pair[0].0 > 2).map(|pair| pair[1].1 - pair[0].1).sum();
        assert!(enlarged < 4000, "{enlarged} {sizes:?}");
        assert!(sizes.iter().all(|size| size.0 <= 8), "{sizes:?}");
    }

    #[test]
    fn goes_back_when_contention_slows_it_down() {
        // Lock contention: more workers are slower.
        let sizes = run(20_000, 128, |size| 20_000.0 / size as f64, |_| true);
        assert!(sizes.iter().all(|size| size.0 <= 8), "{sizes:?}");
        assert_eq!(sizes[2].0, 2);
    }

    #[test]
    fn recovers_from_a_slow_start() {
        // The first directory is slow for any crew, or serves few workers; then the disk serves 64
        // at once.
        for early in [1, 8] {
            let start = Instant::now();
            let mut tuner =
                Tuner::new(Sizes { first: 2, limit: 128, cores: 2 }, false, DiskKind::Unknown, start, 0);
            let (mut now, mut size) = (start, 2);
            for step in 1..=20_000 {
                let at_once = if step < 1_000 { early } else { 64 };
                now += Duration::from_secs_f64(0.003 / size.min(at_once) as f64);
                size = tuner.sample(now, step, true);
            }
            assert_eq!((early, size), (early, 128));
            assert_eq!(tuner.learned(), Some(Learned { size: 128 }));
        }
    }

    #[test]
    fn a_large_crew_that_no_longer_waits_shrinks() {
        let start = Instant::now();
        let mut tuner =
            Tuner::new(Sizes { first: 64, limit: 128, cores: 2 }, true, DiskKind::Unknown, start, 0);
        let mut now = start;
        let mut size = 64;
        for step in 1..500 {
            now += Duration::from_micros(100);
            size = tuner.sample(now, step, false);
        }
        assert_eq!(size, 2);
        assert_eq!(tuner.learned(), None);
    }
}
