//! Large memory blocks, shared by all readers of an object database.
//!
//! The kernel clears memory before it hands it out, which costs as much as inflating a third of it.
//! The pool therefore keeps returned memory while the mapped total, in use or not, is within a
//! budget. Above the budget, memory goes back to the kernel at once.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::Memory;

/// The unused memory, and the total.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Memory that is not in use, in the order in which it was returned.
    spare: Vec<Memory>,
    /// The number of mapped bytes, in use or not.
    mapped: usize,
}

/// The budget in bytes: nothing is kept while more than this is mapped.
const BUDGET: usize = 48 << 20;

/// Memory on loan from the pool.
#[derive(Debug)]
pub(crate) struct Lease {
    /// `Some` until the lease is dropped.
    memory: Option<Memory>,
    pool: Arc<Pool>,
}

impl Pool {
    /// Lends at least `len` bytes and not many more. Their content is unspecified.
    pub(crate) fn lease(self: &Arc<Pool>, len: usize) -> io::Result<Lease> {
        let fits = |memory: &Memory| memory.len() >= len && memory.len() / 4 <= len;
        let mut state = self.state();
        let best = (0..state.spare.len())
            .filter(|&at| fits(&state.spare[at]))
            .min_by_key(|&at| state.spare[at].len());
        let memory = match best {
            Some(at) => state.spare.remove(at),
            None => {
                state.shrink(len);
                let memory = Memory::zeroed(len)?;
                state.mapped += memory.len();
                memory
            }
        };
        Ok(Lease { memory: Some(memory), pool: Arc::clone(self) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No operation under the lock can leave the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Frees unused memory, the oldest first, until `len` more bytes are within the budget.
    fn shrink(&mut self, len: usize) {
        while self.mapped.saturating_add(len) > BUDGET && !self.spare.is_empty() {
            self.mapped -= self.spare.remove(0).len();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.spare.extend(self.memory.take());
        state.shrink(0);
    }
}

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.memory.as_ref().expect("not dropped yet")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().expect("not dropped yet")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn reuses_returned_memory() {
        let pool = Arc::new(Pool::default());
        let (small, large) = (pool.lease(2 * MIB).expect("memory"), pool.lease(6 * MIB).expect("memory"));
        let places = [small.as_ptr(), large.as_ptr()];
        drop((large, small));
        let again = pool.lease(3 * MIB).expect("memory");
        assert_eq!((again.as_ptr(), again.len()), (places[1], 6 * MIB));
        assert_eq!(pool.lease(MIB).expect("memory").as_ptr(), places[0]);
        assert_eq!(pool.state().mapped, 8 * MIB);
        // The kept block is far too large for this request.
        assert_eq!(pool.lease(MIB / 4).expect("memory").len(), MIB / 4);
    }

    #[test]
    fn keeps_nothing_beyond_the_budget() {
        let pool = Arc::new(Pool::default());
        let leases: Vec<Lease> = (0..5).map(|_| pool.lease(20 * MIB).expect("memory")).collect();
        assert_eq!(pool.state().mapped, 100 * MIB);
        drop(leases);
        assert_eq!(pool.state().mapped, 40 * MIB);
        drop(pool.lease(BUDGET).expect("memory"));
        assert_eq!(pool.state().mapped, BUDGET);
        assert!(pool.lease(usize::MAX / 4).is_err());
    }
}
