//! A crew in which each job returns a result.

use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::{Crew, Tuning, Workers, locked};

/// Runs `work` on each of `jobs` with a crew of tuned size, and returns the results in the order of
/// the jobs. `start` makes a worker's state from its number. States in `spare` are used first and
/// are put back when their workers end. `weight` returns a job's size in steps; a step costs about
/// as much as one file. The first failure stops the rest.
pub(crate) fn map<J: Sync, S: Send, R: Send + Sync, E: Send>(
    role: &'static str,
    tuning: &Tuning,
    jobs: &[J],
    weight: impl Fn(&J) -> usize,
    spare: &Mutex<Vec<S>>,
    start: impl Fn(usize) -> S + Sync,
    work: impl Fn(&mut S, &J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let results: Vec<OnceLock<R>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let (failed, failure) = (AtomicBool::new(false), Mutex::new(None));
    let weights: Vec<usize> = jobs.iter().map(weight).collect();
    let crew = Crew::decide(Workers::Auto, 0, weights.iter().sum(), Some(tuning)).of_units(jobs.len());
    crew.run(
        role,
        weights.into_iter(),
        |number| Borrowed { state: Some(locked(spare).pop().unwrap_or_else(|| start(number))), spare },
        |borrowed, jobs_taken, done| {
            for at in jobs_taken {
                if failed.load(Ordering::Relaxed) {
                    return;
                }
                match work(borrowed.state.as_mut().expect("until it is dropped"), &jobs[at]) {
                    Ok(result) => assert!(results[at].set(result).is_ok(), "each job is done once"),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        locked(&failure).get_or_insert(error);
                    }
                }
                done();
            }
        },
    );
    match failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            let done = |result: OnceLock<R>| result.into_inner().expect("no job failed, so each was done");
            Ok(results.into_iter().map(done).collect())
        }
    }
}

/// A worker's state, which is put back into `spare` when it is dropped.
struct Borrowed<'s, S> {
    state: Option<S>,
    spare: &'s Mutex<Vec<S>>,
}

impl<S> Drop for Borrowed<'_, S> {
    fn drop(&mut self) {
        locked(self.spare).extend(self.state.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_stops_at_a_failure() {
        let jobs: Vec<usize> = (0..1000).collect();
        for weight in [1, 64] {
            let spare = Mutex::new(Vec::new());
            let count = |count: &mut usize, job: &usize| {
                *count += 1;
                Ok::<_, ()>(job * 2)
            };
            let doubled = map("test", &Tuning::default(), &jobs, |_| weight, &spare, |_| 0, count);
            let doubled = doubled.expect("no job fails");
            assert!(doubled.iter().enumerate().all(|(at, &value)| value == at * 2));
            assert_eq!(locked(&spare).iter().sum::<usize>(), jobs.len());
            let fails = |_: &mut usize, &job: &usize| if job == 500 { Err(job) } else { Ok(job) };
            assert_eq!(map("test", &Tuning::default(), &jobs, |_| weight, &spare, |_| 0, fails), Err(500));
        }
    }
}
