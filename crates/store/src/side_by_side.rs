//! Runs calls that wait for the disk in parallel.
//!
//! Calls run one after the other until a sync is slow ([`sys::are_syncs_slow`]): in memory a thread
//! takes longer to start than a sync takes.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use sys::profile::{self, Phase};

/// The maximum number of parallel calls. A journal commits all waiting calls together.
const MOST: usize = 16;

/// Calls `work` for each item, on several threads if syncs are slow. Uses fewer threads if the
/// system refuses more. Returns the error of the first item that failed, and skips items after it.
pub fn for_each<T: Sync, E: Send>(items: &[T], work: impl Fn(&T) -> Result<(), E> + Sync) -> Result<(), E> {
    let mut items = items;
    while let Some((first, others)) = items.split_first() {
        if !others.is_empty() && sys::are_syncs_slow() {
            return in_parallel(items, work);
        }
        work(first)?;
        items = others;
    }
    Ok(())
}

/// Like [`for_each`], on several threads in any case.
pub(crate) fn in_parallel<T: Sync, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, E)>));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let Err(error) = work(item) else { continue };
            next.fetch_max(items.len(), Ordering::Relaxed);
            let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|(before, _)| at < *before) {
                *first = Some((at, error));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(MOST) {
            let beside = || {
                let _profiled = profile::thread(Phase::Sync);
                run();
            };
            if thread::Builder::new().spawn_scoped(scope, beside).is_err() {
                break;
            }
        }
        run();
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_all_items_and_reports_the_first_error() {
        type Call<'c> = &'c (dyn Fn(&usize) -> Result<(), usize> + Sync);
        let parallel = |items: &[usize], work: Call<'_>| in_parallel(items, work);
        for each in [&parallel as &dyn Fn(&[usize], Call<'_>) -> _, &|items, work| for_each(items, work)] {
            for count in [0, 1, 2, 100] {
                let items: Vec<usize> = (0..count).collect();
                let sum = AtomicUsize::new(0);
                let add = |item: &usize| {
                    sum.fetch_add(*item, Ordering::Relaxed);
                    Ok(())
                };
                assert_eq!(each(&items, &add), Ok(()));
                assert_eq!(sum.into_inner(), count * count.saturating_sub(1) / 2);
                let fails = |item: &usize| if *item < 3 { Err(*item) } else { Ok(()) };
                assert_eq!(each(&items, &fails).is_err(), count > 0);
            }
        }
    }
}
