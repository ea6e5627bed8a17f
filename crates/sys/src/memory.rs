//! Large pieces of memory straight from the kernel.

use std::{io, ops::Range, os::unix::fs::FileExt as _, thread};

use memmap2::MmapMut;

use crate::{
    File,
    by_path::uninterrupted,
    profile::{self, Phase, call},
    stat_of,
};

/// Anonymous memory, zeroed, in whole pages that are given back the moment this value goes: an allocator
/// may keep as much again in hand. Not to have it is an error, not the end of the process.
#[derive(Debug)]
pub struct Memory {
    map: MmapMut,
    /// Of it, from its start.
    len: usize,
}

/// The page that spares most faults, bytes, where there are such.
const HUGE_PAGE: usize = 2 << 20;

impl Memory {
    /// Maps `len` bytes.
    pub fn zeroed(len: usize) -> io::Result<Memory> {
        // What is mapped in whole huge pages is put where these begin.
        let whole = if len < HUGE_PAGE { Some(len) } else { len.checked_next_multiple_of(HUGE_PAGE) };
        let map = MmapMut::map_anon(whole.ok_or(io::ErrorKind::OutOfMemory)?)?;
        // First touch of so much memory is what it costs; huge pages make that a few faults. Only a hint.
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Memory { map, len })
    }

    /// What is in a file, read by as many threads as are worth it, `threads` at most. Where there are huge pages that is faster than to map a large
    /// file and to touch all of it; and what cannot be read is an error here, not a signal later.
    pub fn of(file: &File, threads: usize) -> io::Result<Memory> {
        let len = stat_of(file)?.size.try_into().map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut memory = Memory::zeroed(len)?;
        let part = len.div_ceil(threads.max(1)).next_multiple_of(HUGE_PAGE).max(HUGE_PAGE);
        let mut parts = memory.chunks_mut(part).enumerate();
        let phase = profile::current();
        let read = |(number, buffer): (usize, &mut [u8])| read_at(file, number * part, buffer);
        let work = |other| {
            let _profiled = profile::thread(phase);
            read(other)
        };
        let first = parts.next();
        let read_all = thread::scope(|scope| {
            let others: Vec<_> = parts.map(|other| scope.spawn(|| work(other))).collect();
            let mut done = vec![first.map_or(Ok(0), read)];
            done.extend(others.into_iter().map(|other| other.join().expect("reading does not panic")));
            done
        });
        // If it has become shorter, some part was not filled.
        let mut whole = 0;
        for (number, done) in read_all.into_iter().enumerate() {
            let done = done?;
            if whole == number * part {
                whole += done;
            }
        }
        memory.len = whole;
        Ok(memory)
    }
}

/// Reads what is in a file from `start` on, until the buffer is full or the file ends. How many bytes that were.
fn read_at(file: &File, start: usize, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        let (rest, from) = (&mut buffer[read..], (start + read) as u64);
        match uninterrupted(|| call(Phase::Read, || file.std().read_at(rest, from)))? {
            0 => break,
            count => read += count,
        }
    }
    Ok(read)
}

/// Has the kernel back the whole pages of this memory by huge ones where it can, as it is filled: a few faults in place of thousands. Only a hint.
pub fn use_huge_pages(memory: Range<*const u8>) {
    // Whole pages, of whatever size they are.
    const PAGE: usize = 64 << 10;
    let (start, end) = (memory.start.addr().next_multiple_of(PAGE), memory.end.addr() / PAGE * PAGE);
    if start < end {
        let first = memory.start.with_addr(start).cast_mut().cast();
        // SAFETY: it changes nothing that is in any memory, whose ever that is: only by what pages it is backed.
        let _ = unsafe { rustix::mm::madvise(first, end - start, rustix::mm::Advice::LinuxHugepage) };
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
        &self.map[..self.len]
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len]
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

    #[test]
    fn a_file_whole_by_any_number_of_threads() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("file");
        for len in [0, 1, 4096, HUGE_PAGE, 5 * HUGE_PAGE + 7] {
            let content: Vec<u8> = (0..len).map(|at| (at / 1000 + at) as u8).collect();
            std::fs::write(&path, &content).expect("written");
            let file = crate::by_path::open(&path).expect("it was just written");
            for threads in [0, 1, 2, 9] {
                assert!(*Memory::of(&file, threads).expect("read") == *content);
            }
        }
        assert!(Memory::of(&crate::by_path::open(dir.path()).expect("opens"), 2).is_err());
    }
}
