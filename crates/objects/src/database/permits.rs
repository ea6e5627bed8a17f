//! Permits for large objects: only a few of a large crew's readers hold a large object at once.
//!
//! A reader that waits for a permit holds neither a permit nor large memory, so there is no
//! deadlock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The number of readers that hold large objects at once.
const MAX_PERMITS: usize = 8;

/// The permits of an object database.
#[derive(Debug)]
pub(super) struct Permits {
    left: Mutex<usize>,
    freed: Condvar,
}

impl Default for Permits {
    fn default() -> Permits {
        Permits { left: Mutex::new(MAX_PERMITS), freed: Condvar::new() }
    }
}

/// A permit, which is returned when it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Permits>);

impl Permits {
    /// Waits for a permit.
    pub(super) fn take(self: &Arc<Permits>) -> Permit {
        let waited = self.freed.wait_while(self.left(), |left| *left == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(Arc::clone(self))
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        // A panic cannot leave the number partly changed.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.left() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn never_exceeds_the_limit_and_serves_every_thread() {
        let permits = Arc::new(Permits::default());
        let (now, most, all) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 * MAX_PERMITS {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _permit = permits.take();
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        all.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= MAX_PERMITS);
        assert_eq!(all.into_inner(), 4 * MAX_PERMITS * 50);
        assert_eq!(*permits.left(), MAX_PERMITS);
    }
}
