//! How many workers, and running them.
//!
//! Serial is a crew of one, on the calling thread. A crew may grow while it works: when a worker finds
//! itself waiting for the disk most of the time, the crew is doubled, again and again while that makes the work faster, up
//! to [`WAITING_LIMIT`]. If it did not, those who came last leave and the crew stays as it is: what is waited for are
//! locks of a local file system, and more workers wait for more of them.

use std::{
    ops::Range,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use super::{Workers, batch::Grain, directories::KEPT_OPEN, queue::Queue};

/// How many workers to begin with, and how many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crew {
    pub(super) first: usize,
    pub(super) limit: usize,
}

/// As many as a network disk of a few milliseconds still rewards.
const WAITING_LIMIT: usize = 64;
/// File descriptors that a worker may hold at once: directories, the one in use, the file it writes, a loose
/// object, and one to spare.
const DESCRIPTORS_PER_WORKER: usize = KEPT_OPEN + 4;
/// File descriptors that are not the workers'.
const DESCRIPTORS_ELSEWHERE: usize = 16;
/// A worker more for so many steps: starting one costs what a few files do.
const STEPS_PER_WORKER: usize = 32;
/// A worker sees whether it waits after so many steps,
const STEPS_BETWEEN_LOOKS: usize = 4;
/// and after so much time: the kernel's account of a running thread lags by a tick, 1 to 10 ms.
const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// How much faster a crew of twice the size has to be.
const GAIN: f64 = 1.3;
/// So many steps for each worker tell how fast a crew is.
const STEPS_TO_TELL: usize = 4;

impl Crew {
    /// The crew for so many steps. `threshold` is `checkout.thresholdForParallelism`, which speaks of
    /// worker processes and so binds only a number of workers that was asked for.
    pub(super) fn decide(workers: Workers, threshold: usize, steps: usize) -> Crew {
        let descriptors = usize::try_from(sys::descriptor_limit()).unwrap_or(usize::MAX);
        let most =
            (descriptors.saturating_sub(DESCRIPTORS_ELSEWHERE) / DESCRIPTORS_PER_WORKER).min(steps).max(1);
        match workers {
            Workers::Fixed(count) => {
                let count = if steps < threshold { 1 } else { count.clamp(1, most) };
                Crew { first: count, limit: count }
            }
            Workers::Auto => {
                let cores = thread::available_parallelism().map_or(1, usize::from);
                let first = cores.min(1 + steps / STEPS_PER_WORKER).min(most);
                Crew { first, limit: WAITING_LIMIT.max(cores).min(most) }
            }
        }
    }

    /// Works through all units, given by their weights, which are numbers of steps: `start` makes a worker's own state,
    /// on its thread; `act` does some units and calls the function it is given after each step. Several workers are traced,
    /// each as a span `worker` with their `role`.
    pub(super) fn run<S>(
        self,
        role: &'static str,
        weights: impl ExactSizeIterator<Item = usize>,
        start: impl Fn() -> S + Sync,
        act: impl Fn(&mut S, Range<usize>, &mut dyn FnMut()) + Sync,
    ) {
        if weights.len() == 0 {
            return;
        }
        let queue = Queue::new(weights, self.first, self.limit);
        let shift = Shift {
            queue,
            crew: self,
            size: AtomicUsize::new(self.first),
            steps: AtomicUsize::new(0),
            growth: Mutex::new(Growth::default()),
            role,
            start,
            act,
        };
        thread::scope(|scope| {
            for number in 1..self.first {
                shift.hire(scope, number);
            }
            shift.work(scope, 0);
        });
    }
}

struct Shift<F, G> {
    queue: Queue,
    crew: Crew,
    /// Workers of this number and beyond leave when they have done what they had.
    size: AtomicUsize,
    /// Done so far, by all; told every [`STEPS_BETWEEN_LOOKS`].
    steps: AtomicUsize,
    growth: Mutex<Growth>,
    role: &'static str,
    start: F,
    act: G,
}

/// Whether a crew should grow.
#[derive(Default)]
struct Growth {
    /// When the crew of this size was first looked at, and the steps done by then.
    since: Option<(Instant, usize)>,
    /// The crew before it was last doubled, and its steps a second.
    before: Option<(usize, f64)>,
    settled: bool,
}

impl Growth {
    /// The size a crew of `size` should have when `steps` are done and somebody waits.
    fn next(&mut self, size: usize, limit: usize, steps: usize, now: Instant) -> usize {
        if self.settled {
            return size;
        }
        let Some((since, done)) = self.since else {
            self.since = Some((now, steps));
            return size;
        };
        let (took, done) = ((now - since).as_secs_f64(), steps - done);
        if now - since < TIME_BETWEEN_LOOKS || done < size * STEPS_TO_TELL {
            return size;
        }
        let rate = done as f64 / took;
        match self.before {
            Some((smaller, slower)) if rate < slower * GAIN => {
                self.settled = true;
                smaller
            }
            _ => {
                self.since = Some((now, steps));
                self.before = Some((size, rate));
                self.settled = size * 2 > limit;
                (size * 2).min(limit)
            }
        }
    }
}

impl<S, F: Fn() -> S + Sync, G: Fn(&mut S, Range<usize>, &mut dyn FnMut()) + Sync> Shift<F, G> {
    fn hire<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        // Where no more threads are to be had, those that are there do the work.
        let _ = thread::Builder::new().spawn_scoped(scope, move || self.work(scope, number));
    }

    /// Somebody waits.
    fn grow<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        // Somebody else is at it already.
        let Ok(mut growth) = self.growth.try_lock() else { return };
        let size = self.size.load(Ordering::Relaxed);
        let next = growth.next(size, self.crew.limit, self.steps.load(Ordering::Relaxed), Instant::now());
        self.size.store(next, Ordering::Relaxed);
        for number in size..next {
            self.hire(scope, number);
        }
    }

    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let several = self.crew.first > 1 || number > 0;
        let _traced = several.then(|| tracing::info_span!("worker", role = self.role, number).entered());
        let mut state = (self.start)();
        let mut watch = (self.crew.first < self.crew.limit).then(Watch::start);
        let mut grain = Grain::new();
        let next = |most| match number < self.size.load(Ordering::Relaxed) {
            true => self.queue.next(number, most),
            false => self.queue.own(number, most),
        };
        while let Some(units) = next(grain.most()) {
            (self.act)(&mut state, units, &mut || {
                if let Some(watch) = &mut watch
                    && watch.waits(&self.steps)
                {
                    self.grow(scope);
                }
            });
        }
    }
}

/// Tells whether a thread spends its time waiting: neither running nor ready to run, so that other
/// load on the machine is not mistaken for a slow disk.
struct Watch {
    steps: usize,
    since: Option<(Instant, Duration)>,
}

impl Watch {
    fn start() -> Watch {
        Watch { steps: 0, since: busy().map(|busy| (Instant::now(), busy)) }
    }

    /// To be called after each step; answers once in a while for the time since it last did. Adds to the steps `done` by
    /// all.
    fn waits(&mut self, done: &AtomicUsize) -> bool {
        let Some((then, busy_then)) = self.since else { return false };
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) {
            return false;
        }
        done.fetch_add(STEPS_BETWEEN_LOOKS, Ordering::Relaxed);
        if then.elapsed() < TIME_BETWEEN_LOOKS {
            return false;
        }
        let now = Instant::now();
        self.since = busy().map(|busy| (now, busy));
        self.since.is_some_and(|(_, busy)| busy.saturating_sub(busy_then) * 4 < now - then)
    }
}

/// How long this thread has run or waited for a processor. `None` where the kernel does not tell.
fn busy() -> Option<Duration> {
    let text = sys::by_path::read(Path::new("/proc/thread-self/schedstat")).ok()??;
    let mut fields = text.split(|&byte| byte == b' ').map(|field| str::from_utf8(field).ok()?.parse().ok());
    let (ran, delayed): (u64, u64) = (fields.next()??, fields.next()??);
    Some(Duration::from_nanos(ran + delayed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: usize = 100;

    #[test]
    fn fixed_is_fixed_and_auto_may_grow() {
        let fixed = |count, steps| Crew::decide(Workers::Fixed(count), THRESHOLD, steps);
        assert_eq!(fixed(8, 99), Crew { first: 1, limit: 1 });
        assert_eq!(fixed(8, 100), Crew { first: 8, limit: 8 });
        assert_eq!(fixed(1, 1000), Crew { first: 1, limit: 1 });
        assert_eq!(Crew::decide(Workers::Auto, THRESHOLD, 10).first, 1);
        assert!(Crew::decide(Workers::Auto, THRESHOLD, 1000).limit >= WAITING_LIMIT);
    }

    /// Runs 2,000 steps that do `step` and tells how many workers took part.
    fn crew_after(step: impl Fn() + Sync) -> usize {
        let (workers, steps) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let crew = Crew { first: 1, limit: 8 };
        crew.run(
            "test",
            std::iter::repeat_n(1, 2000),
            || workers.fetch_add(1, Ordering::Relaxed),
            |_, units, done| {
                for _ in units {
                    step();
                    steps.fetch_add(1, Ordering::Relaxed);
                    done();
                }
            },
        );
        assert_eq!(steps.into_inner(), 2000);
        workers.into_inner()
    }

    #[test]
    fn grows_while_waiting_and_not_while_computing() {
        assert_eq!(crew_after(|| thread::sleep(Duration::from_millis(1))), 8);
        let computed = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
        };
        assert_eq!(crew_after(computed), 1);
    }

    #[test]
    fn grows_no_further_than_helps() {
        // The more are at it the slower each is, as with locks, and by far more than a loaded machine can hide.
        let (lock, waiting) = (Mutex::new(()), AtomicUsize::new(0));
        let in_each_others_way = || {
            let others = waiting.fetch_add(1, Ordering::Relaxed);
            let _held = lock.lock().expect("nobody panics");
            thread::sleep(Duration::from_millis(1 + 2 * others as u64));
            waiting.fetch_sub(1, Ordering::Relaxed);
        };
        assert_eq!(crew_after(in_each_others_way), 2);
    }

    #[test]
    fn doubles_while_that_is_faster_and_goes_back_if_not() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut growth = Growth::default();
        assert_eq!(growth.next(2, 64, 10, at(0)), 2, "the first look");
        assert_eq!(growth.next(2, 64, 17, at(50)), 2, "too few steps to tell");
        assert_eq!(growth.next(2, 64, 110, at(100)), 4, "1,000 a second so far");
        assert_eq!(growth.next(4, 64, 130, at(110)), 4, "too little time to tell");
        assert_eq!(growth.next(4, 64, 260, at(200)), 8, "1,500 a second");
        assert_eq!(growth.next(8, 64, 410, at(300)), 4, "1,500 as well");
        assert_eq!(growth.next(4, 64, 9000, at(400)), 4, "settled");
        let mut growth = Growth::default();
        growth.next(4, 6, 0, at(0));
        assert_eq!(growth.next(4, 6, 100, at(100)), 6, "no more than there may be");
    }
}
