//! Buffers that are reused without being cleared.

use std::sync::Arc;

use super::Fault;
use super::pool::{Lease, Pool};

/// Bytes with a length. The memory stays initialized, so reusing the buffer for another object does
/// not clear it again.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    storage: Storage,
    len: usize,
}

#[derive(Debug)]
enum Storage {
    Heap(Vec<u8>),
    /// Memory that does not come from the allocator: a few objects of many megabytes would make the
    /// allocator hold several times their size.
    Mapped(Lease),
}

/// From this many bytes on, memory comes from the pool. Below, capacities are powers of two, so one
/// buffer fits many objects.
const MAPPED: usize = 1 << 20;

impl Buffer {
    /// Sets the length to `len` bytes and returns them. Their content is unspecified.
    pub(crate) fn resize(&mut self, len: usize, pool: &Arc<Pool>) -> Result<&mut [u8], Fault> {
        if len > self.capacity() {
            // The content is not needed, and growing the buffer in place would copy it.
            *self = Buffer::default();
            self.storage = if len < MAPPED {
                Storage::Heap(vec![0; len.next_power_of_two()])
            } else {
                // Capacities are multiples of an eighth of a power of two: fine enough to waste
                // little, coarse enough for reuse.
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

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory()[..self.len]
    }

    /// Frees the memory if the capacity exceeds `most` bytes.
    pub(crate) fn shrink_to(&mut self, most: usize) {
        if self.capacity() > most {
            *self = Buffer::default();
        }
    }

    /// Returns the capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.memory().len()
    }

    /// Returns true if dropping the buffer returns its memory to the pool.
    pub(crate) fn is_pooled(&self) -> bool {
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
