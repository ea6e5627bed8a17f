//! Work that may run in parallel with other work, for lookups that cost a round trip to a network
//! disk.

use std::{
    panic,
    sync::OnceLock,
    thread::{self, Scope, ScopedJoinHandle},
};

use sys::profile::{self, Phase};

/// A result that is computed when it is needed, unless a thread has already started the
/// computation.
pub struct Deferred<'scope, T> {
    work: &'scope (dyn Fn() -> T + Sync),
    thread: OnceLock<ScopedJoinHandle<'scope, T>>,
}

impl<'scope, T: Send> Deferred<'scope, T> {
    #[allow(missing_docs)]
    pub fn new(work: &'scope (dyn Fn() -> T + Sync)) -> Deferred<'scope, T> {
        Deferred { work, thread: OnceLock::new() }
    }

    /// Starts the work on its own thread, unless it was already started. This pays off on a slow
    /// disk; a local disk responds before a thread has started.
    pub fn start(&self, scope: &'scope Scope<'scope, '_>) {
        if self.thread.get().is_some() {
            return;
        }
        let (phase, work) = (profile::current(), self.work);
        let profiled = move || {
            let _profiled = profile::thread(phase);
            work()
        };
        if let Ok(thread) = thread::Builder::new().spawn_scoped(scope, profiled) {
            let _first = self.thread.set(thread);
        }
    }

    /// Returns the result. Waits for the thread if one was started, otherwise computes the result
    /// on the calling thread.
    pub fn get(self) -> T {
        match self.thread.into_inner() {
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
    fn the_result_does_not_depend_on_the_thread() {
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
