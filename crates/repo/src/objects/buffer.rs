//! Memory that is used again and again without being cleared in between.

use std::sync::Arc;

use super::Fault;
use super::pool::{Lease, Pool};

/// Bytes with a length of their own. The memory behind stays initialised, so that taking it again
/// for another object costs nothing.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    storage: Storage,
    len: usize,
}

#[derive(Debug)]
enum Storage {
    Heap(Vec<u8>),
    /// Not the allocator's: a few objects of many megabytes would leave it holding several times their size.
    Mapped(Lease),
}

/// From this many bytes on, memory comes from the pool; below, capacities are powers of two, so that one buffer
/// suits many objects.
const MAPPED: usize = 1 << 20;

impl Buffer {
    /// Makes the buffer `len` bytes long, whatever they are, and returns them.
    pub(super) fn sized(&mut self, len: usize, pool: &Arc<Pool>) -> Result<&mut [u8], Fault> {
        if len > self.capacity() {
            // What is there is of no use, and growing it in place would copy it.
            *self = Buffer::default();
            self.storage = if len < MAPPED {
                Storage::Heap(vec![0; len.next_power_of_two()])
            } else {
                // Eighths of a power of two: fine enough to waste little, coarse enough to be used again.
                let step = (len / 8 + 1).next_power_of_two();
                let capacity = len.checked_next_multiple_of(step).ok_or(Fault::Memory(len as u64))?;
                Storage::Mapped(pool.lease(capacity).map_err(|_| Fault::Memory(len as u64))?)
            };
        }
        self.len = len;
        Ok(match &mut self.storage {
            Storage::Heap(memory) => &mut memory[..len],
            Storage::Mapped(memory) => &mut memory[..len],
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory()[..self.len]
    }

    /// Gives back memory of more than `most` bytes.
    pub(super) fn shed(&mut self, most: usize) {
        if self.capacity() > most {
            *self = Buffer::default();
        }
    }

    /// Memory held, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.memory().len()
    }

    /// Whether the memory goes back to the pool by itself.
    pub(super) fn is_pooled(&self) -> bool {
        matches!(self.storage, Storage::Mapped(_))
    }

    fn memory(&self) -> &[u8] {
        match &self.storage {
            Storage::Heap(memory) => memory,
            Storage::Mapped(memory) => memory,
        }
    }
}

impl Default for Storage {
    fn default() -> Storage {
        Storage::Heap(Vec::new())
    }
}
