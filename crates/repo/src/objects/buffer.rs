//! Memory that is used again and again without being cleared in between.

use super::Fault;

/// Bytes with a length of their own. The memory behind stays initialised, so that taking it again
/// for another object costs nothing.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Makes the buffer `len` bytes long, whatever they are, and returns them.
    pub(super) fn sized(&mut self, len: usize) -> Result<&mut [u8], Fault> {
        if len > self.memory.len() {
            // What is there is of no use: growing it in place would copy it.
            self.len = 0;
            let capacity = if len < 1 << 20 { len.next_power_of_two() } else { len };
            self.memory = Vec::new();
            // Asked for in one piece and zeroed by the system: a size that only a damaged file
            // could promise fails here, or costs address space and no memory.
            self.memory.try_reserve_exact(capacity).map_err(|_| Fault::Memory(len as u64))?;
            self.memory.resize(capacity, 0);
        }
        self.len = len;
        Ok(&mut self.memory[..len])
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Memory held, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.memory.len()
    }
}
