//! Crews: how many workers a phase has, and running them.
//!
//! Serial is a crew of one, on the calling thread. A crew begins small and may grow while it works, and shrink again
//! ([`tuner`]): while its workers wait it becomes larger for as long as that makes it faster. Who looks are the first few workers,
//! each after a step, now and then.
//!
//! Work is shared by stealing ([`queue`]); a worker that is to leave leaves at once, and what it had is taken over, at the
//! latest by the caller when all others are gone: no unit is ever left out.
//! Where no more threads are to be had, those that are there do the work.

mod deferred;
mod descend;
mod grain;
mod map;
pub(crate) mod parallel;
mod queue;
mod tuner;

use std::{
    ops::Range,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

pub use deferred::Deferred;
pub(crate) use descend::{Pace, descend};
use grain::Grain;
pub(crate) use map::map;
use queue::Queue;
use repo::objects::{Objects, Reader};
use sys::{
    Dir, ThreadStart,
    profile::{self, Phase},
};
use tuner::{Learnt, Nature, Tuner};

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// sapwood decides, and goes on deciding while the work runs.
    Auto,
    /// `checkout.workers`, 1 = serial.
    Fixed(usize),
}

/// What the phases of one piece of work learn from each other about the disk.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    learnt: Mutex<Option<Learnt>>,
    nature: Nature,
}

impl Tuning {
    /// Of work that reads what is below `root`.
    pub(crate) fn reading(root: &Dir) -> Tuning {
        let nature = if root.is_remote() { Nature::Asked } else { Nature::ReadsAhead };
        Tuning { learnt: Mutex::default(), nature }
    }

    /// Of work that writes so many files below `root`.
    pub(crate) fn writing(root: &Dir, files: usize) -> Tuning {
        // So few begin with one worker, wherever they go.
        let is_local = files >= STEPS_PER_WORKER && !root.is_remote();
        let nature = if is_local { Nature::KeepsWrites } else { Nature::Any };
        Tuning { learnt: Mutex::default(), nature }
    }

    /// Whether what is read comes from another machine.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.nature, Nature::Any | Nature::Asked)
    }
}

/// How many workers to begin with, and how many at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew<'t> {
    pub(crate) first: usize,
    pub(crate) limit: usize,
    cores: usize,
    /// It is known that they will wait.
    large: bool,
    nature: Nature,
    tuning: Option<&'t Tuning>,
    order: Order,
}

/// Who does what.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Each worker has a part of its own, and takes of others' when it is done.
    Parts,
    /// The same, one unit at a time: what the last took says nothing of the next, which nobody can take over once it was taken.
    Singly,
    /// The next unit is that of whoever is free: all are at one place, which moves through the units.
    Strict,
}

/// As many as a network disk of a few milliseconds still rewards.
const WAITING_LIMIT: usize = 128;
/// As many, where more would be in the way of what the disk reads ahead for others.
const READING_LIMIT: usize = 64;
/// As many, where the kernel keeps what is written, and who waits does so for its locks and its journal.
const WRITING_LIMIT: usize = 8;
/// As many are at one place, from the beginning to the end. More ask for the pieces of what is read as one in another order, and break the reading
/// ahead: see docs/design/status.md, "The scan".
const IN_ORDER: usize = 2;
/// Workers for each core, for a disk that answers nearly as soon as the core has thought of the next question, or many at once. More would ask for
/// pieces of what is read as one.
const AT_ONCE_PER_CORE: usize = 16;
/// Of these, as many as go beside the others and find for them what they ask for next.
const BESIDE_PER_CORE: usize = 4;
/// Directories that a worker may keep open: one, its parent, and neighbours that a batch in pack
/// order returns to.
pub(crate) const KEPT_OPEN: usize = 8;
/// File descriptors that a worker may hold at once: directories, the one in use, the file it writes, a loose
/// object, and one to spare.
const DESCRIPTORS_PER_WORKER: usize = KEPT_OPEN + 4;
/// File descriptors that are not the workers'.
const DESCRIPTORS_ELSEWHERE: usize = 16;
/// A worker more for so many steps: starting one costs what a few files do,
const STEPS_PER_WORKER: usize = 32;
/// and where each step waits it costs less than one.
const WAITING_STEPS_PER_WORKER: usize = 4;
/// So many workers have a whole cache of delta bases each.
const WELL_EQUIPPED: usize = 8;
/// Who looks. More would only be in each other's way.
const WATCHERS: usize = 4;
/// A watcher looks after so much time.
const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Steps without a look at the clock, when steps are short.
const MOST_UNHEEDED: usize = 15;
/// A time in which more than one in so many workers found nothing to do tells nothing of the disk.
const IDLE_PART: usize = 4;
/// Who runs or is ready to run for less than this part of the time waits.
const WAITING: f64 = 0.4;

impl<'t> Crew<'t> {
    /// The crew for so many steps. `threshold` is `checkout.thresholdForParallelism`, which speaks of
    /// worker processes and so binds only a number of workers that was asked for.
    pub(crate) fn decide(
        workers: Workers,
        threshold: usize,
        steps: usize,
        tuning: Option<&'t Tuning>,
    ) -> Self {
        let descriptors = usize::try_from(sys::descriptor_limit()).unwrap_or(usize::MAX);
        let most =
            (descriptors.saturating_sub(DESCRIPTORS_ELSEWHERE) / DESCRIPTORS_PER_WORKER).min(steps).max(1);
        // It takes a dozen system calls to know, and so few steps begin with one worker anyway.
        let cores = if steps < STEPS_PER_WORKER { 1 } else { sys::cores() };
        match workers {
            Workers::Fixed(count) => {
                let count = if steps < threshold { 1 } else { count.clamp(1, most) };
                Crew {
                    first: count,
                    limit: count,
                    cores,
                    large: false,
                    nature: Nature::Any,
                    tuning: None,
                    order: Order::Parts,
                }
            }
            Workers::Auto => {
                let learnt = tuning.and_then(|tuning| *locked(&tuning.learnt));
                let (wanted, share) = match learnt {
                    Some(learnt) => (learnt.size, WAITING_STEPS_PER_WORKER),
                    None => (cores, STEPS_PER_WORKER),
                };
                let first = wanted.min(1 + steps / share).min(most);
                let nature = tuning.map_or(Nature::Any, |tuning| tuning.nature);
                let limit = match nature {
                    Nature::Any | Nature::Asked => WAITING_LIMIT,
                    Nature::ReadsAhead => READING_LIMIT,
                    Nature::KeepsWrites => WRITING_LIMIT,
                };
                Crew {
                    first,
                    limit: limit.max(cores).min(most),
                    cores,
                    large: learnt.is_some(),
                    nature,
                    tuning,
                    order: Order::Parts,
                }
            }
        }
    }

    fn tuner(self) -> Tuner {
        let now = (Instant::now(), self.done(0));
        Tuner::new((self.first, self.limit), self.cores, self.large, self.nature, now)
    }

    /// What the crew is judged by: steps, unless most of these find what was read ahead. Then what had to be waited for.
    fn done(self, steps: usize) -> usize {
        match self.nature {
            Nature::Any | Nature::KeepsWrites => steps,
            Nature::ReadsAhead | Nature::Asked => usize::try_from(sys::waits()).unwrap_or(usize::MAX),
        }
    }

    /// A crew for so many units, whatever their weight.
    pub(crate) fn of_units(self, units: usize) -> Self {
        Crew { first: self.first.min(units.max(1)), limit: self.limit.min(units.max(1)), ..self }
    }

    /// One that goes through its units in strict order, for a disk that is read best like that.
    pub(crate) fn in_order(self) -> Self {
        let size = self.limit.min(IN_ORDER);
        Crew { first: size, limit: size, order: Order::Strict, ..self }
    }

    /// One for a disk that answers quickly, or many at once, whatever the order: as many as keep it busy, from the beginning to the end. A look takes
    /// longer than a quick answer; and those that wait for the same block, and what was read ahead, would make fewer seem to do.
    /// Some of them are those that go [`beside`] the others, unless it `is_alone`.
    pub(crate) fn at_once(self, is_alone: bool) -> Self {
        if self.tuning.is_none() {
            return self;
        }
        let others = if is_alone { 0 } else { BESIDE_PER_CORE };
        let size = self.limit.min((AT_ONCE_PER_CORE - others) * self.cores);
        Crew { first: size, limit: size, large: true, order: Order::Singly, ..self }
    }

    /// Works through all units, given by their weights, which are numbers of steps: `start` makes a worker's own state,
    /// on its thread, by its number; `act` does some units and calls the function it is given after each step. Several
    /// workers are traced, each as a span `worker` with their `role`.
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
        let shift = Shift {
            queue: match self.order {
                Order::Parts | Order::Singly => Queue::new(weights, self.first, self.limit),
                Order::Strict => Queue::in_order(weights),
            },
            sizing: Sizing::new(self, role),
            phase: profile::current(),
            beginning: ThreadStart::of(self.first.saturating_sub(1)),
            start,
            act,
        };
        let waiting = thread::scope(|scope| {
            for number in 1..self.first {
                shift.hire(scope, number);
            }
            shift.work(scope, 0);
            profile::span(Phase::Wait)
        });
        drop(waiting);
        // Who was to leave just when it had taken over what was left, while all others had found nothing, left it.
        let mut state = None;
        while let Some(units) = shift.queue.next(0, 1) {
            (shift.act)(state.get_or_insert_with(|| (shift.start)(0)), units, &mut || {});
        }
        shift.sizing.learn();
    }
}

/// How many there are beside a crew that asks for much at once, unless their number is given. Left to find their size they stay at two, as that crew keeps the
/// disk busy, and have most left to do when it has ended.
pub(crate) fn beside(workers: Workers) -> Workers {
    match workers {
        Workers::Auto => Workers::Fixed(BESIDE_PER_CORE * sys::cores()),
        Workers::Fixed(_) => workers,
    }
}

/// A reader for the worker of this number: those of a large crew mostly wait, and have little memory each.
pub(crate) fn reader(objects: &Objects, number: usize) -> Reader<'_> {
    if number < WELL_EQUIPPED { objects.reader() } else { objects.small_reader() }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What a worker that panicked left is whole: a size, or a state that is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many workers there are, while they work.
struct Sizing<'t> {
    crew: Crew<'t>,
    /// Workers of this number and beyond leave.
    size: AtomicUsize,
    /// Done so far, by all.
    steps: AtomicUsize,
    /// Whoever looked last has been waiting.
    waits: AtomicBool,
    tuner: Mutex<Tuner>,
    role: &'static str,
}

impl<'t> Sizing<'t> {
    fn new(crew: Crew<'t>, role: &'static str) -> Self {
        if crew.limit > 1 {
            tracing::info!(target: "workers", role, size = crew.first);
        }
        Sizing {
            crew,
            size: AtomicUsize::new(crew.first),
            steps: AtomicUsize::new(0),
            // Until somebody has looked.
            waits: AtomicBool::new(crew.nature == Nature::Asked),
            tuner: Mutex::new(crew.tuner()),
            role,
        }
    }

    fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// There are more workers than cores, as they wait.
    fn is_large(&self) -> bool {
        self.size() > self.crew.cores
    }

    /// They wait, however many they are.
    fn is_slow(&self) -> bool {
        self.is_large() || self.waits.load(Ordering::Relaxed)
    }

    /// Whether the size is found, or fixed.
    fn is_tuned(&self) -> bool {
        self.crew.first < self.crew.limit
    }

    /// For the worker of this number, if it is to look.
    fn watch(&self, number: usize) -> Option<Watch> {
        (self.is_tuned() && number < WATCHERS).then(Watch::start)
    }

    /// A worker has done so many steps, and maybe looked whether it waits; workers with these numbers may have to be hired. `idle` are
    /// without work just now.
    fn steps(&self, count: usize, watch: &mut Option<Watch>, idle: usize, hire: impl FnOnce(Range<usize>)) {
        if !self.is_tuned() {
            return;
        }
        let Some(done) = watch.as_mut().map_or(Some(count), |watch| watch.heed(count)) else { return };
        self.steps.fetch_add(done, Ordering::Relaxed);
        let Some(waits) = watch.as_mut().and_then(Watch::look) else { return };
        self.waits.store(waits, Ordering::Relaxed);
        // Somebody else is at it already.
        let Ok(mut tuner) = self.tuner.try_lock() else { return };
        let size = self.size();
        let (now, steps) = (Instant::now(), self.crew.done(self.steps.load(Ordering::Relaxed)));
        if idle > size / IDLE_PART {
            return tuner.pass_over(now, steps);
        }
        let next = tuner.look(now, steps, waits);
        if next == size {
            return;
        }
        tracing::info!(target: "workers", role = self.role, size = next);
        self.size.store(next, Ordering::Relaxed);
        if size < next {
            hire(size..next);
        }
    }

    /// Leaves what was found to the next phase.
    fn learn(&self) {
        if let Some(tuning) = self.crew.tuning
            && let Some(learnt) = locked(&self.tuner).learnt()
        {
            *locked(&tuning.learnt) = Some(learnt);
        }
    }
}

struct Shift<'t, F, G> {
    queue: Queue,
    sizing: Sizing<'t>,
    /// What the crew is hired for.
    phase: Phase,
    /// Of those that are there from the beginning, but for the caller.
    beginning: ThreadStart,
    start: F,
    act: G,
}

impl<S, F: Fn(usize) -> S + Sync, G: Fn(&mut S, Range<usize>, &mut dyn FnMut()) + Sync> Shift<'_, F, G> {
    fn hire<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let work = move || {
            self.beginning.mark_started();
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
        let mut watch = sizing.watch(number);
        let mut grain = Grain::new(sizing.is_large());
        while number < sizing.size() {
            let most = match sizing.crew.order {
                Order::Parts => grain.most(),
                Order::Singly | Order::Strict => 1,
            };
            let Some(units) = self.queue.next(number, most) else { break };
            (self.act)(&mut state, units, &mut || {
                if number == 0 {
                    self.beginning.yield_cpu_if_late();
                }
                sizing.steps(1, &mut watch, 0, |new| new.for_each(|number| self.hire(scope, number)));
            });
        }
    }
}

/// Tells whether a thread spends its time waiting: neither running nor ready to run, so that other
/// load on the machine is not mistaken for a slow disk.
struct Watch {
    since: Instant,
    ran: Duration,
    delayed: Duration,
    /// Steps that pass until the clock is read again and they are counted: both cost as much as a tenth of a stat.
    let_pass: usize,
    passed: usize,
    /// How often the clock was read since the last look.
    quick: usize,
}

impl Watch {
    fn start() -> Watch {
        Watch {
            since: Instant::now(),
            ran: sys::thread_time(),
            // What came before the thread's first wait is asked for then: at worst that wait is taken for load on the machine.
            delayed: Duration::ZERO,
            let_pass: 0,
            passed: 0,
            quick: 0,
        }
    }

    /// To be called after so many steps. How many are to be counted, now and then.
    fn heed(&mut self, count: usize) -> Option<usize> {
        self.passed += count;
        if self.passed <= self.let_pass {
            return None;
        }
        self.let_pass = 0;
        Some(std::mem::take(&mut self.passed))
    }

    /// To be called after each step that is heeded; answers once in a while, for the time since it last did.
    fn look(&mut self) -> Option<bool> {
        let now = Instant::now();
        let took = now - self.since;
        if took < TIME_BETWEEN_LOOKS {
            // While many steps fit between two looks, most of them need no clock.
            self.quick += 1;
            self.let_pass = self.quick.min(MOST_UNHEEDED);
            return None;
        }
        self.quick = 0;
        let ran = sys::thread_time();
        let mut busy = (ran - self.ran).as_secs_f64();
        let mut waits = busy < took.as_secs_f64() * WAITING;
        // Only then it matters why it did not run.
        if waits {
            let delayed = delayed();
            busy += delayed.saturating_sub(self.delayed).as_secs_f64();
            self.delayed = delayed;
            waits = busy < took.as_secs_f64() * WAITING;
        }
        (self.since, self.ran) = (now, ran);
        Some(waits)
    }
}

/// How long this thread has been ready to run and did not; nothing where the kernel does not tell.
fn delayed() -> Duration {
    let text = sys::by_path::read(Path::new("/proc/thread-self/schedstat")).ok().flatten();
    let field = text.as_deref().and_then(|text| text.split(|&byte| byte == b' ').nth(1));
    let nanos = field.and_then(|field| str::from_utf8(field).ok()?.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: usize = 100;

    #[test]
    fn who_writes_to_memory_stays_few() {
        let tuning = Tuning { learnt: Mutex::default(), nature: Nature::KeepsWrites };
        let crew = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning));
        assert_eq!(crew.limit, WRITING_LIMIT.max(crew.cores));
        let swept = Crew::decide(Workers::Auto, 0, 100_000, None).in_order();
        assert_eq!((swept.first, swept.limit), (IN_ORDER, IN_ORDER));
        let tuning = Tuning { learnt: Mutex::default(), nature: Nature::ReadsAhead };
        let many = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning)).at_once(true);
        assert_eq!((many.first, many.limit), ((16 * many.cores).min(READING_LIMIT), many.first));
        let others = Crew::decide(Workers::Auto, 0, 100_000, Some(&tuning)).at_once(false).first;
        assert_eq!(others, (12 * many.cores).min(READING_LIMIT));
        assert_eq!(beside(Workers::Auto), Workers::Fixed(4 * many.cores));
        for fixed in [1, 3] {
            let crew = Crew::decide(Workers::Fixed(fixed), 0, 100_000, Some(&tuning)).at_once(true);
            assert_eq!((crew.first, beside(Workers::Fixed(fixed))), (fixed, Workers::Fixed(fixed)));
        }
    }

    #[test]
    fn fixed_is_fixed_and_auto_may_grow() {
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
    fn what_one_phase_learnt_the_next_begins_with() {
        let tuning = Tuning::default();
        *locked(&tuning.learnt) = Some(Learnt { size: 64 });
        let first = |steps| Crew::decide(Workers::Auto, THRESHOLD, steps, Some(&tuning)).first;
        assert_eq!((first(1000), first(40), first(3)), (64, 11, 1));
    }

    /// Runs `steps` steps and tells how many workers took part at most.
    fn crew_after(steps: usize, step: impl Fn() + Sync) -> usize {
        let (largest, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let crew = Crew {
            first: 1,
            limit: 8,
            cores: 1,
            large: false,
            nature: Nature::Any,
            tuning: None,
            order: Order::Parts,
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
    fn grows_while_waiting_and_not_while_computing() {
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
