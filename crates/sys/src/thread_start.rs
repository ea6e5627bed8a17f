//! Threads that begin at once.
//!
//! A new thread may be queued behind the one that started it although another CPU idles: schedulers that fill few virtual CPUs before they use more do so. There
//! it waits for milliseconds, until that thread's time is over or somebody balances the load, and both together take as long as one. The new thread cannot
//! help itself, as it does not run; so the other steps aside.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// In that time an idle CPU has been woken up and has started: who moved there before would be in the way.
const PATIENCE: Duration = Duration::from_micros(400);

/// Threads that were started, and whether they have started.
#[derive(Debug)]
pub struct ThreadStart {
    at: Instant,
    started: AtomicUsize,
    /// How many are waited for.
    awaited: AtomicUsize,
}

impl ThreadStart {
    /// Of so many threads, just now.
    pub fn of(threads: usize) -> ThreadStart {
        ThreadStart { at: Instant::now(), started: AtomicUsize::new(0), awaited: AtomicUsize::new(threads) }
    }

    /// To be called by each of them as it begins.
    pub fn mark_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// To be called now and then by who started them: steps aside, once, if some have not started for too long.
    pub fn yield_cpu_if_late(&self) {
        if self.is_due() {
            self.awaited.store(0, Ordering::Relaxed);
            step_aside();
        }
    }

    fn is_due(&self) -> bool {
        self.started.load(Ordering::Relaxed) < self.awaited.load(Ordering::Relaxed)
            && self.at.elapsed() > PATIENCE
    }
}

/// Moves this thread to another CPU, if it may run on several, so that what is queued behind it can run here. Where that is forbidden nothing happens.
fn step_aside() {
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(sched_getcpu());
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        // It stays there; where it may be later is not for us to say.
        let _ = sched_setaffinity(None, &all);
    }
}

/// Does both at once, `beside` in a thread of its own; if there is none to be had, afterwards. `here` calls what it is given now and then.
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
    fn both_are_done_once_and_all_cpus_stay_allowed() {
        let before = sched_getaffinity(None).expect("it is allowed");
        for _ in 0..20 {
            let (mut beside, mut here) = (0, 0);
            let mut count = |now_and_then: &dyn Fn()| {
                now_and_then();
                here += 1;
            };
            in_parallel(&mut || beside += 1, &mut count);
            assert_eq!((beside, here), (1, 1));
        }
        step_aside();
        assert_eq!(sched_getaffinity(None).expect("it is allowed"), before);
    }

    #[test]
    fn who_started_a_thread_that_does_not_begin_steps_aside_once() {
        let start = ThreadStart::of(1);
        thread::sleep(2 * PATIENCE);
        assert!(start.is_due());
        start.yield_cpu_if_late();
        assert!(!start.is_due(), "nobody is waited for any more");
        let start = ThreadStart::of(1);
        start.mark_started();
        thread::sleep(2 * PATIENCE);
        assert!(!start.is_due());
    }
}
