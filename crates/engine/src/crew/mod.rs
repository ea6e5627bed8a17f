//! Crews: how many workers a phase has, and how it runs them.
//!
//! Serial work is a crew of one, on the calling thread. An automatic crew starts small. It grows
//! while its workers wait, as long as that makes it faster, and it may shrink again (`tuner`).
//! The first few workers sample progress, each after a step, at most every few milliseconds.
//!
//! Workers share the units by stealing (`queue`). A worker that has to leave leaves immediately.
//! The other workers, or in the end the caller, take over its units, so every unit is done. If no
//! more threads can be started, the running ones do the work.

mod batch;
mod deferred;
mod descend;
mod map;
mod meter;
pub(crate) mod parallel;
mod queue;
mod sampler;
mod sizing;
mod tuner;

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    thread::{self, Scope},
    time::{Duration, Instant},
};

use batch::BatchSize;
pub use deferred::Deferred;
pub(crate) use descend::{StepReporter, descend};
pub(crate) use map::map;
pub use meter::Meter;
use queue::Queue;
use repo::objects::{Objects, Reader};
use sizing::Sizing;
use sys::{
    Dir, ThreadStart,
    profile::{self, Phase},
};
use tuner::{DiskKind, Learned, Sizes, Tuner};

/// The number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// sapwood chooses the number, and adapts it while the work runs.
    Auto,
    /// `checkout.workers`; 1 is serial.
    Fixed(usize),
}

/// Measurements of the disk that one phase of an operation passes on to the next phase.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    learned: Mutex<Option<Learned>>,
    disk: DiskKind,
}

impl Tuning {
    /// The tuning for work that reads files below `root`.
    pub(crate) fn reading(root: &Dir) -> Tuning {
        let disk = if root.is_remote() { DiskKind::RemoteRead } else { DiskKind::LocalRead };
        Tuning { learned: Mutex::default(), disk }
    }

    /// The tuning for work that writes `files` files below `root`.
    pub(crate) fn writing(root: &Dir, files: usize) -> Tuning {
        // Fewer files start with one worker on any disk, so the mount is not probed.
        let is_local = files >= STEPS_PER_WORKER && !root.is_remote();
        let disk = if is_local { DiskKind::LocalWrite } else { DiskKind::Unknown };
        Tuning { learned: Mutex::default(), disk }
    }

    /// Returns true if the disk may be a network file system.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.disk, DiskKind::Unknown | DiskKind::RemoteRead)
    }
}

/// The number of workers to start with, and the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew<'t> {
    pub(crate) first: usize,
    pub(crate) limit: usize,
    cores: usize,
    /// True if an earlier phase found that the workers wait.
    large: bool,
    disk: DiskKind,
    tuning: Option<&'t Tuning>,
    order: Order,
}

/// The way in which units are distributed.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Each worker has its own range, takes batches from it, and steals from others when it is
    /// empty.
    Stealing,
    /// Like `Stealing`, one unit per grab: costs vary, and a taken unit cannot be stolen.
    StealingSingly,
    /// All workers take the next unit from one range, so the disk is read at one place.
    Strict,
}

/// The limit on a network disk: with a latency of a few milliseconds this many workers still pay
/// off.
const WAITING_LIMIT: usize = 128;
/// The limit when reading a local disk: more workers disturb its read-ahead.
const READING_LIMIT: usize = 64;
/// The limit when writing a local disk: the kernel buffers the writes, and workers wait only for
/// its locks and its journal.
const WRITING_LIMIT: usize = 8;
/// The fixed number of workers in strict order. More of them request the blocks of one read-ahead
/// window out of order, which ends the read-ahead: see docs/design/scan.md, "A cold disk that
/// serves one read at a time".
const IN_ORDER: usize = 2;
/// Workers per core on a disk that responds nearly as fast as the core sends requests, or that
/// serves many requests at once. More workers would request parts of the same block.
const AT_ONCE_PER_CORE: usize = 16;
/// The part of `AT_ONCE_PER_CORE` that belongs to the concurrent walk, which finds the next paths.
const SECONDARY_PER_CORE: usize = 4;
/// Directories that a worker may keep open: one, its parent, and neighbours that a batch in pack
/// order returns to.
pub(crate) const KEPT_OPEN: usize = 8;
/// File descriptors that a worker may hold at once: its directories, the one in use, the file it
/// writes, a loose object, and one spare.
const DESCRIPTORS_PER_WORKER: usize = KEPT_OPEN + 4;
/// File descriptors that are used outside of the workers.
const DESCRIPTORS_ELSEWHERE: usize = 16;
/// Steps per worker at the start. Starting a worker costs as much as a few files.
const STEPS_PER_WORKER: usize = 32;
/// Steps per worker at the start if each step waits for the disk. Then starting a worker costs less
/// than a step.
const WAITING_STEPS_PER_WORKER: usize = 4;
/// Workers below this number have a full cache of delta bases each.
const FULL_CACHE_WORKERS: usize = 8;
/// The number of workers that sample progress. More samplers would only contend for the tuner.
const SAMPLERS: usize = 4;
/// The time between two samples of a worker.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);
/// The maximum number of steps between two reads of the clock, when steps are short.
const MAX_SKIPPED_STEPS: usize = 15;
/// Samples are discarded while more than one in this many workers is idle: then the rate does not
/// measure the disk.
const IDLE_PART: usize = 4;
/// A worker waits if it runs or is ready to run for less than this part of the time.
const WAITING: f64 = 0.4;

impl<'t> Crew<'t> {
    /// Chooses the crew for `steps` steps. `threshold` is `checkout.thresholdForParallelism`. Git
    /// defines it for worker processes, so it applies only to a given number of workers.
    pub(crate) fn decide(
        workers: Workers,
        threshold: usize,
        steps: usize,
        tuning: Option<&'t Tuning>,
    ) -> Self {
        let descriptors = usize::try_from(sys::descriptor_limit()).unwrap_or(usize::MAX);
        let most =
            (descriptors.saturating_sub(DESCRIPTORS_ELSEWHERE) / DESCRIPTORS_PER_WORKER).min(steps).max(1);
        let most = most.min(sys::thread_limit());
        // Counting the cores takes a dozen system calls, and a crew for this few steps starts with
        // one worker.
        let cores = if steps < STEPS_PER_WORKER { 1 } else { sys::cores() };
        match workers {
            Workers::Fixed(count) => {
                let count = if steps < threshold { 1 } else { count.clamp(1, most) };
                Crew {
                    first: count,
                    limit: count,
                    cores,
                    large: false,
                    disk: DiskKind::Unknown,
                    tuning: None,
                    order: Order::Stealing,
                }
            }
            Workers::Auto => {
                let learned = tuning.and_then(|tuning| *locked(&tuning.learned));
                let (wanted, share) = match learned {
                    Some(learned) => (learned.size, WAITING_STEPS_PER_WORKER),
                    None => (cores, STEPS_PER_WORKER),
                };
                let first = wanted.min(1 + steps / share).min(most);
                let disk = tuning.map_or(DiskKind::Unknown, |tuning| tuning.disk);
                let limit = match disk {
                    DiskKind::Unknown | DiskKind::RemoteRead => WAITING_LIMIT,
                    DiskKind::LocalRead => READING_LIMIT,
                    DiskKind::LocalWrite => WRITING_LIMIT,
                };
                Crew {
                    first,
                    limit: limit.max(cores).min(most),
                    cores,
                    large: learned.is_some(),
                    disk,
                    tuning,
                    order: Order::Stealing,
                }
            }
        }
    }

    fn tuner(self) -> Tuner {
        let sizes = Sizes { first: self.first, limit: self.limit, cores: self.cores };
        Tuner::new(sizes, self.large, self.disk, Instant::now(), self.done(0))
    }

    /// Returns the tuner's measure of progress: steps, or the number of waits on a disk where most
    /// steps find data that was read ahead.
    fn done(self, steps: usize) -> usize {
        match self.disk {
            DiskKind::Unknown | DiskKind::LocalWrite => steps,
            DiskKind::LocalRead | DiskKind::RemoteRead => usize::try_from(sys::waits()).unwrap_or(usize::MAX),
        }
    }

    /// Limits the crew to the number of units, regardless of their weight.
    pub(crate) fn of_units(self, units: usize) -> Self {
        Crew { first: self.first.min(units.max(1)), limit: self.limit.min(units.max(1)), ..self }
    }

    /// Returns a crew that processes its units in strict order, for a disk that reads fastest in
    /// that order.
    pub(crate) fn in_order(self) -> Self {
        let size = self.limit.min(IN_ORDER);
        Crew { first: size, limit: size, order: Order::Strict, ..self }
    }

    /// Returns a crew of fixed size for a disk that responds quickly, or serves many requests at
    /// once. The size is not tuned: a sample takes longer than a quick response, and workers that
    /// wait for the same block, or find data that was read ahead, would make a small crew look
    /// sufficient. Unless it `is_alone`, some of the workers are left to a concurrent crew
    /// ([`secondary`]).
    pub(crate) fn at_once(self, is_alone: bool) -> Self {
        if self.tuning.is_none() {
            return self;
        }
        let others = if is_alone { 0 } else { SECONDARY_PER_CORE };
        let size = self.limit.min((AT_ONCE_PER_CORE - others) * self.cores);
        Crew { first: size, limit: size, large: true, order: Order::StealingSingly, ..self }
    }

    /// Processes all units. `weights` are the units' sizes in steps. `start` creates a worker's
    /// state from its number, on the worker's thread. `act` processes some units and calls the
    /// given function after each step. Each of several workers is traced as a span `worker` with
    /// `role`.
    pub(crate) fn run<S>(
        self,
        role: &'static str,
        weights: impl ExactSizeIterator<Item = usize>,
        start: impl Fn(usize) -> S + Sync,
        act: impl Fn(&mut S, Range<usize>, &mut dyn FnMut()) + Sync,
    ) {
        if weights.len() == 0 {
            return;
        }
        let run = CrewRun {
            queue: match self.order {
                Order::Stealing | Order::StealingSingly => Queue::new(weights, self.first, self.limit),
                Order::Strict => Queue::in_order(weights),
            },
            sizing: Sizing::new(self, role),
            phase: profile::current(),
            start_signal: ThreadStart::of(self.first.saturating_sub(1)),
            start,
            act,
        };
        let waiting = thread::scope(|scope| {
            for number in 1..self.first {
                run.spawn_worker(scope, number);
            }
            run.work(scope, 0);
            profile::span(Phase::Wait)
        });
        drop(waiting);
        // A worker may leave just after it stole units, when all others have already found no work.
        // The caller does these units.
        let mut state = None;
        while let Some(units) = run.queue.next(0, 1) {
            (run.act)(state.get_or_insert_with(|| (run.start)(0)), units, &mut || {});
        }
        run.sizing.learn();
    }
}

/// The number of workers of a crew that runs in parallel with one from [`Crew::at_once`], unless
/// the user set a number. The number is fixed: with tuning it would stay at two, as the other crew
/// keeps the disk busy, and most of the work would be left when that crew ends.
pub(crate) fn secondary(workers: Workers) -> Workers {
    match workers {
        Workers::Auto => Workers::Fixed(SECONDARY_PER_CORE * sys::cores()),
        Workers::Fixed(_) => workers,
    }
}

/// Returns a reader for the worker with this number. Most workers of a large crew wait, so workers
/// with high numbers have small caches.
pub(crate) fn reader(objects: &Objects, number: usize) -> Reader<'_> {
    if number < FULL_CACHE_WORKERS { objects.reader() } else { objects.small_reader() }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // After a panic the value is still consistent: each is a number, or is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct CrewRun<'t, F, G> {
    queue: Queue,
    sizing: Sizing<'t>,
    /// The phase that the profile charges.
    phase: Phase,
    /// The start of the first workers other than the caller.
    start_signal: ThreadStart,
    start: F,
    act: G,
}

impl<S, F: Fn(usize) -> S + Sync, G: Fn(&mut S, Range<usize>, &mut dyn FnMut()) + Sync> CrewRun<'_, F, G> {
    fn spawn_worker<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let work = move || {
            self.start_signal.mark_started();
            let _profiled = profile::thread(self.phase);
            self.work(scope, number);
        };
        let _ = thread::Builder::new().spawn_scoped(scope, work);
    }

    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let sizing = &self.sizing;
        let several = sizing.crew.first > 1 || number > 0;
        let role = sizing.role;
        let _traced = several.then(|| tracing::info_span!("worker", role, number).entered());
        let mut state = (self.start)(number);
        let mut sampler = sizing.sampler(number);
        let mut batch = BatchSize::new(sizing.is_large());
        while number < sizing.size() {
            let most = match sizing.crew.order {
                Order::Stealing => batch.most(),
                Order::StealingSingly | Order::Strict => 1,
            };
            let Some(units) = self.queue.next(number, most) else { break };
            (self.act)(&mut state, units, &mut || {
                if number == 0 {
                    self.start_signal.yield_cpu_if_late();
                }
                sizing
                    .steps(1, &mut sampler, 0, |new| new.for_each(|number| self.spawn_worker(scope, number)));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const THRESHOLD: usize = 100;

    #[test]
    fn a_crew_that_writes_to_a_local_disk_stays_small() {
        let tuning = Tuning { learned: Mutex::default(), disk: DiskKind::LocalWrite };
        let crew = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning));
        assert_eq!(crew.limit, WRITING_LIMIT.max(crew.cores));
        let swept = Crew::decide(Workers::Auto, 0, 100_000, None).in_order();
        assert_eq!((swept.first, swept.limit), (IN_ORDER, IN_ORDER));
        let tuning = Tuning { learned: Mutex::default(), disk: DiskKind::LocalRead };
        let many = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning)).at_once(true);
        assert_eq!((many.first, many.limit), ((16 * many.cores).min(READING_LIMIT), many.first));
        let others = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning)).at_once(false).first;
        assert_eq!(others, (12 * many.cores).min(READING_LIMIT));
        assert_eq!(secondary(Workers::Auto), Workers::Fixed(4 * many.cores));
        for fixed in [1, 3] {
            let crew = Crew::decide(Workers::Fixed(fixed), 0, 100_000, Some(&tuning)).at_once(true);
            assert_eq!((crew.first, secondary(Workers::Fixed(fixed))), (fixed, Workers::Fixed(fixed)));
        }
    }

    #[test]
    fn fixed_crews_keep_their_size_and_automatic_ones_may_grow() {
        let sizes = |workers, steps| {
            let crew = Crew::decide(workers, THRESHOLD, steps, None);
            (crew.first, crew.limit)
        };
        assert_eq!(sizes(Workers::Fixed(8), 99), (1, 1));
        assert_eq!(sizes(Workers::Fixed(8), 100), (8, 8));
        assert_eq!(sizes(Workers::Fixed(1), 1000), (1, 1));
        assert_eq!(sizes(Workers::Auto, 10).0, 1);
        assert!(sizes(Workers::Auto, 1000).1 >= 64);
    }

    #[test]
    fn a_phase_starts_with_what_the_phase_before_learned() {
        let tuning = Tuning::default();
        *locked(&tuning.learned) = Some(Learned { size: 64 });
        let first = |steps| Crew::decide(Workers::Auto, THRESHOLD, steps, Some(&tuning)).first;
        assert_eq!((first(1000), first(40), first(3)), (64, 11, 1));
    }

    /// Runs `steps` steps and returns the largest number of workers that took part.
    fn crew_after(steps: usize, step: impl Fn() + Sync) -> usize {
        let (largest, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let crew = Crew {
            first: 1,
            limit: 8,
            cores: 1,
            large: false,
            disk: DiskKind::Unknown,
            tuning: None,
            order: Order::Stealing,
        };
        crew.run(
            "test",
            std::iter::repeat_n(1, steps),
            |number| largest.fetch_max(number + 1, Ordering::Relaxed),
            |_, units, tell| {
                for _ in units {
                    step();
                    done.fetch_add(1, Ordering::Relaxed);
                    tell();
                }
            },
        );
        assert_eq!(done.into_inner(), steps);
        largest.into_inner()
    }

    #[test]
    fn grows_while_workers_wait_and_not_while_they_compute() {
        assert_eq!(crew_after(2000, || thread::sleep(Duration::from_millis(1))), 8);
        let computed = || {
            let start = sys::thread_time();
            while sys::thread_time() - start < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
        };
        assert_eq!(crew_after(2000, computed), 1);
    }
}
