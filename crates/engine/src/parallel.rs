//! Many small jobs on a few threads.

use std::sync::{
    Condvar, Mutex, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use sys::profile::{self, Phase};

/// Runs `work` on each of `jobs`, one thread for each of `states`, and returns the results in the jobs'
/// order. The first failure stops the rest. One state is one thread: the caller's.
pub(crate) fn map<J, S, R, E>(
    jobs: &[J],
    states: &mut [S],
    work: impl Fn(&mut S, &J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E>
where
    J: Sync,
    S: Send,
    R: Send + Sync,
    E: Send,
{
    if let [state] = states {
        return jobs.iter().map(|job| work(state, job)).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<R>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let phase = profile::current();
    std::thread::scope(|scope| {
        let threads: Vec<_> = states
            .iter_mut()
            .map(|state| {
                scope.spawn(|| {
                    let _profiled = profile::thread(phase);
                    let state = state;
                    while let Some((at, job)) = {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        jobs.get(at).map(|job| (at, job))
                    } {
                        match work(state, job) {
                            Ok(result) => assert!(results[at].set(result).is_ok(), "each job is done once"),
                            Err(error) => {
                                next.store(jobs.len(), Ordering::Relaxed);
                                return Err(error);
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let _waiting = profile::span(Phase::Wait);
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let done = |result: OnceLock<R>| result.into_inner().expect("no job failed, so each was done");
    Ok(results.into_iter().map(done).collect())
}

/// Jobs done by one thread before others are asked for help, and how many must wait then.
const ALONE: usize = 32;

/// Does `jobs` and the jobs these bring, the latest first, on up to `most` threads, each with a state of its own. The
/// order is that of a walk in depth, so that few jobs wait at a time. Few jobs start no thread.
pub(crate) fn descend<J: Send, S>(
    mut jobs: Vec<J>,
    most: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J, &mut Vec<J>) + Sync,
) {
    let mut own = state();
    let mut done = 0;
    while let Some(job) = jobs.pop() {
        work(&mut own, job, &mut jobs);
        done += 1;
        if most > 1 && done >= ALONE && jobs.len() >= ALONE {
            break;
        }
    }
    if jobs.is_empty() {
        return;
    }
    drop(own);
    let pool = Pool { waiting: Mutex::new((jobs, 0)), changed: Condvar::new(), idle: AtomicUsize::new(0) };
    let phase = profile::current();
    let _waiting = profile::span(Phase::Wait);
    std::thread::scope(|scope| {
        for _ in 0..most {
            scope.spawn(|| {
                let _profiled = profile::thread(phase);
                let guard = Unblock(&pool, most);
                let (mut state, mut jobs) = (state(), Vec::new());
                while let Some(job) = jobs.pop().or_else(|| pool.take(most)) {
                    work(&mut state, job, &mut jobs);
                    if jobs.len() > 1 && pool.idle.load(Ordering::Relaxed) > 0 {
                        pool.give(&mut jobs);
                    }
                }
                drop(guard);
            });
        }
    });
}

/// Jobs that threads of [`descend`] have for each other, and how many threads have none.
struct Pool<J> {
    waiting: Mutex<(Vec<J>, usize)>,
    changed: Condvar,
    /// As in `waiting`, to be looked at without the lock.
    idle: AtomicUsize,
}

impl<J> Pool<J> {
    /// A job of another thread's; `None` when there are no more.
    fn take(&self, threads: usize) -> Option<J> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.1 += 1;
        self.idle.store(waiting.1, Ordering::Relaxed);
        loop {
            if waiting.1 >= threads && waiting.0.is_empty() {
                self.changed.notify_all();
                return None;
            }
            if let Some(job) = waiting.0.pop() {
                waiting.1 -= 1;
                self.idle.store(waiting.1, Ordering::Relaxed);
                return Some(job);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Half of `jobs`, those that came first and so lead to most, for threads that have none.
    fn give(&self, jobs: &mut Vec<J>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.extend(jobs.drain(..jobs.len() / 2));
        self.changed.notify_all();
    }
}

/// Lets the other threads end if this one panics.
struct Unblock<'p, J>(&'p Pool<J>, usize);

impl<J> Drop for Unblock<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.0.clear();
            waiting.1 = self.1;
            self.0.changed.notify_all();
        }
    }
}

/// How many threads are worth it: one for each `share` of the jobs, at most `most`.
pub(crate) fn threads(jobs: usize, share: usize, most: usize) -> usize {
    (jobs / share).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_and_what_it_brings_is_done_once() {
        for most in [1, 2, 8] {
            let done = AtomicUsize::new(0);
            descend(
                vec![14usize],
                most,
                || (),
                |(), depth, jobs| {
                    done.fetch_add(1, Ordering::Relaxed);
                    jobs.extend((depth > 0).then(|| [depth - 1; 2]).into_iter().flatten());
                },
            );
            assert_eq!(done.into_inner(), (1 << 15) - 1);
        }
    }

    #[test]
    fn order_is_kept_and_failure_stops() {
        let jobs: Vec<usize> = (0..1000).collect();
        for threads in [1, 4] {
            let mut states = vec![0usize; threads];
            let doubled = map(&jobs, &mut states, |count, job| {
                *count += 1;
                Ok::<_, ()>(job * 2)
            })
            .expect("no job fails");
            assert!(doubled.iter().enumerate().all(|(at, &value)| value == at * 2));
            assert_eq!(states.iter().sum::<usize>(), jobs.len());
            let failed = map(&jobs, &mut states, |_, &job| if job == 500 { Err(job) } else { Ok(job) });
            assert_eq!(failed, Err(500));
        }
        assert_eq!((threads(3, 8, 4), threads(100, 8, 4), threads(16, 8, 4)), (1, 4, 2));
    }
}
