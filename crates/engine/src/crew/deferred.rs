//! What is found out beside other work, where each question is a round trip to a network disk.

use std::{
    panic,
    sync::OnceLock,
    thread::{self, Scope, ScopedJoinHandle},
};

use sys::profile::{self, Phase};

/// The answer of some work, which is found out when it is asked for, unless somebody had it started before.
pub struct Deferred<'scope, T> {
    work: &'scope (dyn Fn() -> T + Sync),
    under_way: OnceLock<ScopedJoinHandle<'scope, T>>,
}

impl<'scope, T: Send> Deferred<'scope, T> {
    #[allow(missing_docs)]
    pub fn new(work: &'scope (dyn Fn() -> T + Sync)) -> Deferred<'scope, T> {
        Deferred { work, under_way: OnceLock::new() }
    }

    /// Starts the work in a thread of its own, for where it waits: a local disk answers sooner than a thread starts. Not twice.
    pub fn start(&self, scope: &'scope Scope<'scope, '_>) {
        if self.under_way.get().is_some() {
            return;
        }
        let (phase, work) = (profile::current(), self.work);
        let profiled = move || {
            let _profiled = profile::thread(phase);
            work()
        };
        if let Ok(thread) = thread::Builder::new().spawn_scoped(scope, profiled) {
            let _first = self.under_way.set(thread);
        }
    }

    /// The answer.
    pub fn get(self) -> T {
        match self.under_way.into_inner() {
            None => (self.work)(),
            Some(thread) => {
                let _waiting = profile::span(Phase::Wait);
                thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_answer_is_the_same_wherever_it_is_found() {
        for starts in [0, 1, 2] {
            let (here, begun) = (thread::current().id(), AtomicUsize::new(0));
            let work = || {
                begun.fetch_add(1, Ordering::Relaxed);
                (6 * 7, thread::current().id() == here)
            };
            let answer = thread::scope(|scope| {
                let deferred = Deferred::new(&work);
                (0..starts).for_each(|_| deferred.start(scope));
                deferred.get()
            });
            assert_eq!((answer, begun.into_inner()), ((42, starts == 0), 1));
        }
    }
}
