//! Makes new threads start without delay.
//!
//! The kernel may queue a new thread behind the thread that created it, although another CPU is
//! idle. Schedulers that fill few virtual CPUs before they use more do so. The new thread then
//! waits for milliseconds, until the creator's time slice ends or the load is balanced, and both
//! threads together take as long as one. The new thread does not run, so it cannot move itself.
//! Instead the creator moves to another CPU.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The time in which an idle CPU wakes up and starts the thread. Moving earlier would disturb this.
const START_TIME: Duration = Duration::from_micros(400);

/// Counts the threads that were created and those that have started.
#[derive(Debug)]
pub struct ThreadStart {
    at: Instant,
    started: AtomicUsize,
    /// The number of threads to wait for.
    awaited: AtomicUsize,
}

impl ThreadStart {
    /// Creates the counter. Call it directly after `threads` threads were created.
    pub fn of(threads: usize) -> ThreadStart {
        ThreadStart { at: Instant::now(), started: AtomicUsize::new(0), awaited: AtomicUsize::new(threads) }
    }

    /// Counts one thread as started. Each thread calls it first.
    pub fn mark_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves the calling thread to another CPU, once, if a thread has not started in time. The
    /// thread that created the others must call it regularly.
    pub fn yield_cpu_if_late(&self) {
        if self.is_due() {
            self.awaited.store(0, Ordering::Relaxed);
            move_to_another_cpu();
        }
    }

    fn is_due(&self) -> bool {
        self.started.load(Ordering::Relaxed) < self.awaited.load(Ordering::Relaxed)
            && self.at.elapsed() > START_TIME
    }
}

/// Moves this thread to another CPU, if it may run on several, so that a thread queued behind it
/// can run on this one. Does nothing if the system forbids it.
fn move_to_another_cpu() {
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(sched_getcpu());
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        // The thread has already moved. The old CPU set is restored so that the scheduler can move
        // it later.
        let _ = sched_setaffinity(None, &all);
    }
}

/// Runs both closures in parallel, `beside` in a thread of its own. If no thread can be created,
/// runs `beside` after `here`. `here` must call its argument at least every 0.1 ms.
pub fn in_parallel(beside: &mut (dyn FnMut() + Send), here: &mut dyn FnMut(&dyn Fn())) {
    let start = ThreadStart::of(1);
    let is_started = thread::scope(|scope| {
        let work = || {
            start.mark_started();
            beside();
        };
        let is_started = thread::Builder::new().spawn_scoped(scope, work).is_ok();
        here(&|| start.yield_cpu_if_late());
        is_started
    });
    if !is_started {
        beside();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_both_once_and_keeps_the_allowed_cpus() {
        let before = sched_getaffinity(None).expect("it is allowed");
        for _ in 0..20 {
            let (mut beside, mut here) = (0, 0);
            let mut count = |tick: &dyn Fn()| {
                tick();
                here += 1;
            };
            in_parallel(&mut || beside += 1, &mut count);
            assert_eq!((beside, here), (1, 1));
        }
        move_to_another_cpu();
        assert_eq!(sched_getaffinity(None).expect("it is allowed"), before);
    }

    #[test]
    fn yields_the_cpu_once_if_a_thread_does_not_start() {
        let start = ThreadStart::of(1);
        thread::sleep(2 * START_TIME);
        assert!(start.is_due());
        start.yield_cpu_if_late();
        assert!(!start.is_due(), "no thread is waited for any more");
        let start = ThreadStart::of(1);
        start.mark_started();
        thread::sleep(2 * START_TIME);
        assert!(!start.is_due());
    }
}
