//! Many small jobs on a fixed number of threads, which includes the calling thread.

use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use sys::profile::{self, Phase};

/// Runs `work` on each of `jobs`, with one thread per element of `states`
/// (the first is the caller's), and returns the results
/// in the order of the jobs. The first failure stops the rest.
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
    let take = |state: &mut S| {
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
    };
    let Some((own, others)) = states.split_first_mut() else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        // If a thread cannot be started, the other threads do its jobs.
        let threads: Vec<_> = others
            .iter_mut()
            .filter_map(|state| {
                let work = || {
                    let _profiled = profile::thread(phase);
                    take(state)
                };
                std::thread::Builder::new().spawn_scoped(scope, work).ok()
            })
            .collect();
        let mut outcome = take(own);
        let _waiting = profile::span(Phase::Wait);
        for thread in threads {
            match thread.join() {
                Ok(ended) => outcome = outcome.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome
    })?;
    let done = |result: OnceLock<R>| result.into_inner().expect("no job failed, so each was done");
    Ok(results.into_iter().map(done).collect())
}

/// Returns the number of threads that pay off: one for each `share` jobs, at most `most`.
pub(crate) fn threads(jobs: usize, share: usize, most: usize) -> usize {
    (jobs / share).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_stops_at_a_failure() {
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
