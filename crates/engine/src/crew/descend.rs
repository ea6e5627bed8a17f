//! A crew for jobs that create further jobs, such as the directories of a tree.
//!
//! Jobs run depth first, so that few of them are queued: a worker does its newest job. It gives its
//! oldest jobs, which lead to most of the tree, to workers that have none. Unless much work is
//! known to be ahead, the caller starts alone and starts other workers only if enough jobs are
//! queued.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Scope},
};

use sys::{
    ThreadStart,
    profile::{self, Phase},
};

use super::{Crew, Tuning, Workers, locked, sampler::Sampler, sizing::Sizing};

/// The number of jobs that the caller does before it starts other workers, and the number that must
/// be queued by then. If the caller waits for the disk, two queued jobs suffice.
const ALONE: usize = 32;
/// With this many steps ahead, the crew starts at once.
const MANY: usize = 1000;

/// Takes reports of a job's progress, and reports whether the crew waits for the disk.
pub(crate) trait StepReporter {
    /// Reports one step, which costs about as much as a stat.
    fn step(&mut self) {
        self.steps(1);
    }
    /// Reports `count` steps.
    fn steps(&mut self, count: usize);
    /// Returns true if the workers wait for the disk.
    fn is_slow(&self) -> bool;
}

/// Does `jobs` and the jobs they create, the newest first. `start` makes a worker's state from its
/// number. `ahead` is a lower bound of the steps that all jobs together need.
pub(crate) fn descend<J: Send, S>(
    role: &'static str,
    tuning: &Tuning,
    workers: Workers,
    ahead: usize,
    mut jobs: Vec<J>,
    start: impl Fn(usize) -> S + Sync,
    work: impl Fn(&mut S, J, &mut Vec<J>, &mut dyn StepReporter) + Sync,
) {
    let mut own = start(0);
    if ahead < MANY {
        let mut alone =
            SingleReporter { sampler: (workers == Workers::Auto).then(Sampler::start), waits: false };
        let mut done = 0;
        while let Some(job) = jobs.pop() {
            work(&mut own, job, &mut jobs, &mut alone);
            done += 1;
            if done >= ALONE && jobs.len() >= ALONE || alone.waits && jobs.len() > 1 {
                break;
            }
        }
        if jobs.is_empty() {
            return;
        }
    }
    let crew = Crew::decide(workers, 0, usize::MAX, Some(tuning));
    let sizing = Sizing::new(crew, role);
    let pool = Pool {
        waiting: Mutex::new(Waiting { jobs, idle: 0, workers: crew.first }),
        changed: Condvar::new(),
        idle: AtomicUsize::new(0),
        sizing,
        phase: profile::current(),
        start_signal: ThreadStart::of(crew.first.saturating_sub(1)),
        start,
        work,
    };
    thread::scope(|scope| {
        for number in 1..crew.first {
            pool.spawn_worker(scope, number);
        }
        pool.work(scope, 0, own);
        let _waiting = profile::span(Phase::Wait);
    });
    pool.sizing.learn();
}

/// The caller while it works alone.
struct SingleReporter {
    sampler: Option<Sampler>,
    waits: bool,
}

impl StepReporter for SingleReporter {
    fn steps(&mut self, count: usize) {
        let Some(sampler) = &mut self.sampler else { return };
        self.waits |= sampler.count(count).is_some() && sampler.sample() == Some(true);
    }

    fn is_slow(&self) -> bool {
        self.waits
    }
}

/// Jobs that workers share.
struct Waiting<J> {
    jobs: Vec<J>,
    /// The number of workers without a job.
    idle: usize,
    /// The number of workers.
    workers: usize,
}

struct Pool<'t, J, F, G> {
    waiting: Mutex<Waiting<J>>,
    changed: Condvar,
    /// A copy of `waiting.idle` that is read without the lock.
    idle: AtomicUsize,
    sizing: Sizing<'t>,
    phase: Phase,
    /// The start of the first workers other than the caller.
    start_signal: ThreadStart,
    start: F,
    work: G,
}

impl<J, S, F, G> Pool<'_, J, F, G>
where
    J: Send,
    F: Fn(usize) -> S + Sync,
    G: Fn(&mut S, J, &mut Vec<J>, &mut dyn StepReporter) + Sync,
{
    fn spawn_worker<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize) {
        let work = move || {
            self.start_signal.mark_started();
            let _profiled = profile::thread(self.phase);
            self.work(scope, number, (self.start)(number));
        };
        if thread::Builder::new().spawn_scoped(scope, work).is_err() {
            self.retire(&mut Vec::new());
        }
    }

    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: usize, mut state: S) {
        let _traced = tracing::info_span!("worker", role = self.sizing.role, number).entered();
        let panicked = Unblock(self);
        let mut reporter = WorkerReporter {
            pool: self,
            scope,
            sampler: self.sizing.sampler(number),
            is_caller: number == 0,
        };
        let mut jobs = Vec::new();
        while let Some(job) = jobs.pop().or_else(|| self.take()) {
            (self.work)(&mut state, job, &mut jobs, &mut reporter);
            // The caller stays even if the crew shrinks, so that one worker remains.
            if number >= self.sizing.size().max(1) {
                self.retire(&mut jobs);
                break;
            }
            if jobs.len() > 1 && self.idle.load(Ordering::Relaxed) > 0 {
                self.give(&mut jobs);
            }
        }
        drop(panicked);
    }

    /// Waits for a job from another worker. Returns `None` when no worker has a job left.
    fn take(&self) -> Option<J> {
        let mut waiting = locked(&self.waiting);
        waiting.idle += 1;
        self.idle.store(waiting.idle, Ordering::Relaxed);
        loop {
            if waiting.idle >= waiting.workers && waiting.jobs.is_empty() {
                self.changed.notify_all();
                return None;
            }
            if let Some(job) = waiting.jobs.pop() {
                waiting.idle -= 1;
                self.idle.store(waiting.idle, Ordering::Relaxed);
                return Some(job);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives half of `jobs`, the oldest ones, to workers that have none.
    fn give(&self, jobs: &mut Vec<J>) {
        let mut waiting = locked(&self.waiting);
        let given = jobs.len() / 2;
        waiting.jobs.extend(jobs.drain(..given));
        if given == 1 { self.changed.notify_one() } else { self.changed.notify_all() }
    }

    /// Removes a worker that leaves or could not be started. Others take over its jobs.
    fn retire(&self, jobs: &mut Vec<J>) {
        let mut waiting = locked(&self.waiting);
        waiting.jobs.append(jobs);
        waiting.workers = waiting.workers.saturating_sub(1);
        self.changed.notify_all();
    }
}

struct WorkerReporter<'scope, 'env, 't, J, F, G> {
    pool: &'scope Pool<'t, J, F, G>,
    scope: &'scope Scope<'scope, 'env>,
    sampler: Option<Sampler>,
    is_caller: bool,
}

impl<J, S, F, G> StepReporter for WorkerReporter<'_, '_, '_, J, F, G>
where
    J: Send,
    F: Fn(usize) -> S + Sync,
    G: Fn(&mut S, J, &mut Vec<J>, &mut dyn StepReporter) + Sync,
{
    fn steps(&mut self, count: usize) {
        let WorkerReporter { pool, scope, sampler, is_caller } = self;
        if *is_caller {
            pool.start_signal.yield_cpu_if_late();
        }
        pool.sizing.steps(count, sampler, pool.idle.load(Ordering::Relaxed), |new| {
            locked(&pool.waiting).workers += new.len();
            new.for_each(|number| pool.spawn_worker(scope, number));
        });
    }

    fn is_slow(&self) -> bool {
        self.pool.sizing.is_slow()
    }
}

/// Lets the other workers end if this one panics.
struct Unblock<'p, J, F, G>(&'p Pool<'p, J, F, G>);

impl<J, F, G> Drop for Unblock<'_, J, F, G> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut waiting = locked(&self.0.waiting);
            waiting.jobs.clear();
            waiting.workers = 0;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn done(workers: Workers, ahead: usize, depth: usize, job: impl Fn() + Sync) -> (usize, usize) {
        let (done, largest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        descend(
            "test",
            &Tuning::default(),
            workers,
            ahead,
            vec![depth],
            |number| largest.fetch_max(number + 1, Ordering::Relaxed),
            |_, depth, jobs, reporter| {
                job();
                done.fetch_add(1, Ordering::Relaxed);
                reporter.step();
                jobs.extend((depth > 0).then(|| [depth - 1; 2]).into_iter().flatten());
            },
        );
        (done.into_inner(), largest.into_inner())
    }

    #[test]
    fn does_every_job_and_its_descendants_once() {
        for workers in [Workers::Fixed(1), Workers::Fixed(2), Workers::Fixed(8), Workers::Auto] {
            assert_eq!(done(workers, 0, 14, || ()).0, (1 << 15) - 1);
            assert_eq!(done(workers, MANY, 14, || ()).0, (1 << 15) - 1);
        }
    }

    #[test]
    fn grows_while_workers_wait() {
        let (done, largest) = done(Workers::Auto, 0, 11, || thread::sleep(Duration::from_millis(1)));
        assert_eq!(done, (1 << 12) - 1);
        assert!(largest > 8, "{largest}");
    }
}
