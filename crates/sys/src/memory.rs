//! Large pieces of memory straight from the kernel.

use std::{io, ops::Range};

use memmap2::MmapMut;

/// Anonymous memory, zeroed, in whole pages that are given back the moment this value goes: an allocator
/// may keep as much again in hand. Not to have it is an error, not the end of the process.
#[derive(Debug)]
pub struct Memory(MmapMut);

impl Memory {
    /// Maps `len` bytes.
    pub fn zeroed(len: usize) -> io::Result<Memory> {
        let map = MmapMut::map_anon(len)?;
        // First touch of so much memory is what it costs; huge pages make that a few faults. Only a hint.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Memory(map))
    }
}

/// Has the kernel back the pages of this memory, all of which is about to be filled, by huge ones where it can: a few faults in place of thousands. Only a hint. The
/// pages at its ends count: without them the huge pages that they belong to would be small ones. Where memory begins it may be small ones all the same, as the
/// allocator has written there already: those are brought in by one call.
pub fn use_huge_pages(memory: Range<*const u8>) {
    const HUGE: usize = 2 << 20;
    let page = rustix::param::page_size();
    let (start, end) = (memory.start.addr() / page * page, memory.end.addr().next_multiple_of(page));
    let beginning = end.min((start + 1).next_multiple_of(HUGE));
    for (end, advice) in
        [(end, rustix::mm::Advice::LinuxHugepage), (beginning, rustix::mm::Advice::LinuxPopulateWrite)]
    {
        if start < end {
            let first = memory.start.with_addr(start).cast_mut().cast();
            // SAFETY: it changes nothing that is in any memory, whose ever that is: only by what pages it is backed, and since when.
            let _ = unsafe { rustix::mm::madvise(first, end - start, advice) };
        }
    }
}

/// Keeps the allocator from raising the size above which it maps memory piece by piece: as it comes, one large
/// vector freed makes it keep all later ones in its heaps, where they are never given back. To be called
/// once, at the start of the process.
pub fn bound_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes no pointers; no other thread is running yet, by this function's contract, and
    // if one were it would at worst allocate by the old bounds.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIMMED_FROM);
        libc::mallopt(libc::M_TOP_PAD, GROWN_BY);
    }
}

/// The allocator's own initial bound, bytes.
const MAPPED_FROM: libc::c_int = 128 << 10;
/// So much free memory at its end lets a heap shrink, and by so much it grows: with the allocator's own
/// 128 KiB, pages go back and forth between it and the kernel, which clears them each time.
const TRIMMED_FROM: libc::c_int = 4 << 20;
const GROWN_BY: libc::c_int = 1 << 20;

/// Gives memory that was freed back to the system, as far as the allocator knows how. It keeps what one phase
/// has freed, and the next phase's threads do not find it in their own arenas. A few milliseconds.
pub fn release_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl std::ops::Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_and_writable() {
        let mut memory = Memory::zeroed(3_000_000).expect("three megabytes");
        assert!(memory.len() == 3_000_000 && memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        assert_eq!(memory[2_999_999], 7);
        assert!(Memory::zeroed(0).expect("nothing").is_empty());
        assert!(Memory::zeroed(usize::MAX / 4).is_err());
    }
}
