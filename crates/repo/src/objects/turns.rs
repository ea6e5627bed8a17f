//! Turns at large objects: of the readers of a large crew, only a few hold a large object at once.
//!
//! A reader that waits for a turn has none and holds no large memory, so there is no deadlock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The number of readers that hold large objects at once.
const AT_ONCE: usize = 8;

/// The turns of an object database.
#[derive(Debug)]
pub(super) struct Turns {
    left: Mutex<usize>,
    freed: Condvar,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { left: Mutex::new(AT_ONCE), freed: Condvar::new() }
    }
}

/// A turn, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<Turns>);

impl Turns {
    /// Waits for a turn.
    pub(super) fn take(self: &Arc<Turns>) -> Turn {
        let waited = self.freed.wait_while(self.left(), |left| *left == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(Arc::clone(self))
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        // The number is never half changed.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
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
    fn never_more_at_once_and_everybody_gets_one() {
        let turns = Arc::new(Turns::default());
        let (now, most, all) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 * AT_ONCE {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _turn = turns.take();
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        all.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= AT_ONCE);
        assert_eq!(all.into_inner(), 4 * AT_ONCE * 50);
        assert_eq!(*turns.left(), AT_ONCE);
    }
}
