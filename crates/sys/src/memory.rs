//! Large memory blocks directly from the kernel.

use std::{io, ops::Range, sync::LazyLock};

use memmap2::MmapMut;

/// Zeroed anonymous memory in whole pages. Dropping it returns the pages to the kernel at once,
/// while an allocator may keep them. If the memory is not available, the result is an error and the
/// process continues.
#[derive(Debug)]
pub struct Memory(MmapMut);

impl Memory {
    /// Maps `len` bytes.
    pub fn zeroed(len: usize) -> io::Result<Memory> {
        let map = MmapMut::map_anon(len)?;
        // The page faults of the first access dominate the cost; huge pages reduce them to a few.
        // This is only a hint.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Memory(map))
    }
}

/// Requests huge pages for memory that is about to be filled: a few page faults instead of
/// thousands. This is only a hint. The range includes the partial pages at both ends, because the
/// huge pages that contain them would otherwise stay small. The start of the range may have small
/// pages already, because the allocator has written there; one call replaces them.
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
            // SAFETY: the calls change no content, whoever owns the memory. They change only the
            // pages behind it and when those are allocated.
            let _ = unsafe { rustix::mm::madvise(first, end - start, advice) };
        }
    }
}

/// Fixes the size above which the C allocator maps each block separately. By default the allocator
/// raises this threshold once a large vector is freed. It then keeps later large vectors in its
/// heaps and never returns them to the kernel. Call it once, at the start of the process.
pub fn bound_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes no pointers. By this function's contract no other thread runs yet;
    // another thread would at worst allocate with the old thresholds.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIMMED_FROM);
        libc::mallopt(libc::M_TOP_PAD, GROWN_BY);
        // Each arena reserves 64 MiB of addresses.
        if address_space().is_some() {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// The allocator's own initial threshold in bytes.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: libc::c_int = 128 << 10;
/// A heap shrinks if it has this many free bytes at its end, and grows by `GROWN_BY` bytes. With
/// the allocator's default of 128 KiB, pages move back and forth between heap and kernel, which
/// clears them each time.
#[cfg(target_env = "gnu")]
const TRIMMED_FROM: libc::c_int = 4 << 20;
#[cfg(target_env = "gnu")]
const GROWN_BY: libc::c_int = 1 << 20;

/// Returns freed memory to the kernel, as far as the allocator can. The allocator keeps memory that
/// one phase has freed, and the threads of the next phase cannot use it in their own arenas. Takes
/// a few milliseconds.
pub fn release_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes no pointers and may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLeft {
    /// The bytes that it occupies.
    pub used: u64,
    /// The bytes that it may still get: from the machine, under `ulimit -v`, and in its control
    /// group.
    pub free: u64,
}

/// Returns the memory of this process; `None` if the system does not tell. Takes some tens of
/// microseconds.
pub fn memory_left() -> Option<MemoryLeft> {
    let text = |path: &str| std::fs::read_to_string(path).ok();
    let page = rustix::param::page_size() as u64;
    let pages = text("/proc/self/statm")?;
    let mut pages = pages.split_ascii_whitespace().map(|field| Some(field.parse::<u64>().ok()? * page));
    let (mapped, used) = (pages.next()??, pages.next()??);
    let of_machine = field(&text("/proc/meminfo")?, "MemAvailable:")? << 10;
    let of_limit = address_space().map(|limit| limit.saturating_sub(mapped));
    let of_group = text("/proc/self/cgroup").and_then(|groups| {
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let read = |name: &str| text(&format!("/sys/fs/cgroup{group}/{name}"));
        let limit: u64 = read("memory.max")?.trim().parse().ok()?;
        // The kernel frees the cache of files when it needs the memory.
        let taken = field(&read("memory.stat")?, "anon")?;
        Some(limit.saturating_sub(taken))
    });
    let free = [of_limit, of_group].into_iter().flatten().fold(of_machine, u64::min);
    Some(MemoryLeft { used, free })
}

/// Returns the limit of the address space (`ulimit -v`), in bytes, if there is one.
fn address_space() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

/// Returns the number of threads for which there are addresses.
pub fn thread_limit() -> usize {
    static LIMIT: LazyLock<usize> = LazyLock::new(|| {
        let limit = address_space().map(|limit| limit / ADDRESSES_PER_THREAD);
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX).max(1))
    });
    *LIMIT
}

/// The part of the address space for one thread: its stack, its buffers, and the maps that others
/// need beside them.
const ADDRESSES_PER_THREAD: u64 = 64 << 20;

/// Returns the number after a name at the start of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_ascii_whitespace().next()?.parse().ok()
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
    fn the_memory_left_is_known() {
        let left = memory_left().expect("Linux tells");
        assert!(left.used > 0 && left.free > 0, "{left:?}");
    }

    #[test]
    fn is_zeroed_and_writable() {
        let mut memory = Memory::zeroed(3_000_000).expect("three megabytes");
        assert!(memory.len() == 3_000_000 && memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        assert_eq!(memory[2_999_999], 7);
        assert!(Memory::zeroed(0).expect("nothing").is_empty());
        assert!(Memory::zeroed(usize::MAX / 4).is_err());
    }
}
