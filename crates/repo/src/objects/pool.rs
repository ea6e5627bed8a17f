//! Large pieces of memory, shared by all readers of a store.
//!
//! The kernel clears memory before it hands it out, which costs as much as inflating a third of it. So
//! what one reader is done with is kept for the next, as long as all of it together, in use or not,
//! stays within a budget; beyond that it goes straight back to the kernel.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sys::Memory;

/// What is kept and what is out.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Stock>);

#[derive(Debug, Default)]
struct Stock {
    /// Not in use, in the order in which it came back.
    spare: Vec<Memory>,
    /// Bytes mapped, in use or not.
    mapped: usize,
}

/// While more than this is mapped, nothing is kept.
const BUDGET: usize = 48 << 20;

/// Memory on loan.
#[derive(Debug)]
pub(super) struct Lease {
    /// There until it is dropped.
    memory: Option<Memory>,
    pool: Arc<Pool>,
}

impl Pool {
    /// At least `len` bytes, whatever they are; not many more.
    pub(super) fn lease(self: &Arc<Pool>, len: usize) -> io::Result<Lease> {
        let fits = |memory: &Memory| memory.len() >= len && memory.len() / 4 <= len;
        let mut stock = self.stock();
        let best = (0..stock.spare.len())
            .filter(|&at| fits(&stock.spare[at]))
            .min_by_key(|&at| stock.spare[at].len());
        let memory = match best {
            Some(at) => stock.spare.remove(at),
            None => {
                stock.shrink(len);
                let memory = Memory::zeroed(len)?;
                stock.mapped += memory.len();
                memory
            }
        };
        Ok(Lease { memory: Some(memory), pool: Arc::clone(self) })
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        // Nothing that is done under the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stock {
    /// Gives back what is not in use, the oldest first, until `len` bytes more are within the budget.
    fn shrink(&mut self, len: usize) {
        while self.mapped.saturating_add(len) > BUDGET && !self.spare.is_empty() {
            self.mapped -= self.spare.remove(0).len();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut stock = self.pool.stock();
        stock.spare.extend(self.memory.take());
        stock.shrink(0);
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
    fn what_came_back_is_handed_out_again() {
        let pool = Arc::new(Pool::default());
        let (small, large) = (pool.lease(2 * MIB).expect("memory"), pool.lease(6 * MIB).expect("memory"));
        let places = [small.as_ptr(), large.as_ptr()];
        drop((large, small));
        let again = pool.lease(3 * MIB).expect("memory");
        assert_eq!((again.as_ptr(), again.len()), (places[1], 6 * MIB));
        assert_eq!(pool.lease(MIB).expect("memory").as_ptr(), places[0]);
        assert_eq!(pool.stock().mapped, 8 * MIB);
        // Far too large for what is asked.
        assert_eq!(pool.lease(MIB / 4).expect("memory").len(), MIB / 4);
    }

    #[test]
    fn beyond_the_budget_nothing_is_kept() {
        let pool = Arc::new(Pool::default());
        let leases: Vec<Lease> = (0..5).map(|_| pool.lease(20 * MIB).expect("memory")).collect();
        assert_eq!(pool.stock().mapped, 100 * MIB);
        drop(leases);
        assert_eq!(pool.stock().mapped, 40 * MIB);
        drop(pool.lease(BUDGET).expect("memory"));
        assert_eq!(pool.stock().mapped, BUDGET);
        assert!(pool.lease(usize::MAX / 4).is_err());
    }
}
