//! What is found out beside other work, where each question is a round trip to a network disk.

use std::{
    panic,
    thread::{self, Scope, ScopedJoinHandle},
};

use sys::profile::{self, Phase};

/// The answer of some work: one that is under way, or that will be found out when it is asked for.
pub enum Beside<'scope, T> {
    #[allow(missing_docs)]
    UnderWay(ScopedJoinHandle<'scope, T>),
    #[allow(missing_docs)]
    Later(&'scope (dyn Fn() -> T + Sync)),
}

impl<'scope, T: Send> Beside<'scope, T> {
    /// Starts `work` in a thread of its own if it `waits`, as a local disk answers sooner than a thread starts.
    pub fn new(
        scope: &'scope Scope<'scope, '_>,
        waits: bool,
        work: &'scope (dyn Fn() -> T + Sync),
    ) -> Beside<'scope, T> {
        let phase = profile::current();
        let start = || {
            let profiled = move || {
                let _profiled = profile::thread(phase);
                work()
            };
            thread::Builder::new().spawn_scoped(scope, profiled).ok()
        };
        waits.then(start).flatten().map_or(Beside::Later(work), Beside::UnderWay)
    }

    /// The answer.
    pub fn get(self) -> T {
        match self {
            Beside::Later(work) => work(),
            Beside::UnderWay(thread) => {
                let _waiting = profile::span(Phase::Wait);
                thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_same_wherever_it_is_found() {
        for waits in [false, true] {
            let here = thread::current().id();
            let work = || (6 * 7, thread::current().id() == here);
            let answer = thread::scope(|scope| Beside::new(scope, waits, &work).get());
            assert_eq!(answer, (42, !waits));
        }
    }
}
