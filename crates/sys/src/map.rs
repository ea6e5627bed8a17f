//! Files mapped for reading.

use std::{io, ops::Range};

use memmap2::{Mmap, MmapOptions, UncheckedAdvice};

use crate::{File, stat_of};

/// A file mapped for reading. The mapping is private. If another process shrinks the file, or its
/// disk fails, a read raises SIGBUS (see [`crate::survive_unreadable_maps`]). Map only files that
/// Git never changes in place: packs and their indices.
///
/// The pages belong to the page cache. They count in the resident size while mapped, but they are
/// not anonymous memory, and [`Map::release`] unmaps them early.
#[derive(Debug)]
pub struct Map(Mmap);

/// The expected access pattern of a mapping (`madvise(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The kernel's default read-ahead.
    Normal,
    /// No read-ahead.
    Random,
    /// Much read-ahead.
    Sequential,
    /// Start reading now.
    WillNeed,
}

impl Map {
    /// Maps a whole open file. An empty file gives an empty map.
    pub fn of(file: &File) -> io::Result<Map> {
        let size = stat_of(file)?.size;
        let mut options = MmapOptions::new();
        options.len(usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?);
        // SAFETY: the map is private and read-only, so nothing in this process changes the bytes.
        // Callers must map only files that are replaced by rename and never rewritten or truncated
        // in place, as `Map` documents.
        unsafe { options.map_copy_read_only(file.std()) }.map(Map)
    }

    /// Sets the access pattern of the whole map for the kernel. This is only a hint.
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        self.0.advise(advice.into())
    }

    /// Like [`Map::advise`] for a part. The range is widened to whole pages and must lie within the
    /// map.
    pub fn advise_range(&self, advice: Advice, range: Range<usize>) -> io::Result<()> {
        self.0.advise_range(advice.into(), range.start, range.len())
    }

    /// Starts reading the whole file into memory in the background. This is only a hint.
    ///
    /// For one hint, the kernel reads at most as much as the device takes in one request, or as its
    /// read-ahead. If one hint for the whole map is not enough, this gives one hint per 128 KiB.
    /// Source: `mm/readahead.c`, `force_page_cache_ra`.
    pub fn prefetch(&self) {
        const STEP: usize = 128 << 10;
        let _ = self.advise(Advice::WillNeed);
        let Some(last) = self.len().checked_sub(1).filter(|last| *last >= STEP) else { return };
        if self.is_resident(last) {
            return;
        }
        for start in (STEP..self.len()).step_by(STEP) {
            let _ = self.advise_range(Advice::WillNeed, start..self.len().min(start + STEP));
        }
    }

    /// Returns true if the page with this byte is in memory, or being read. Returns true also if
    /// the kernel does not report this, as for a file of another user.
    fn is_resident(&self, at: usize) -> bool {
        const PAGE: usize = 4096;
        let mut state = 0_u8;
        let page = self[at - at % PAGE..].as_ptr();
        // SAFETY: `page` is in this mapping, which begins at a page boundary. The call queries one
        // page, so the kernel writes one byte.
        let asked = unsafe { libc::mincore(page.cast_mut().cast(), 1, &mut state) };
        asked != 0 || state & 1 == 1
    }

    /// Unmaps the range's pages from this process. The next read loads them from the file again.
    pub fn release(&self, range: Range<usize>) -> io::Result<()> {
        // SAFETY: MADV_DONTNEED loses only data written to private pages, and this map is
        // read-only. The next access reads the same bytes from the file.
        unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) }
    }
}

impl From<Advice> for memmap2::Advice {
    fn from(advice: Advice) -> Self {
        match advice {
            Advice::Normal => memmap2::Advice::Normal,
            Advice::Random => memmap2::Advice::Random,
            Advice::Sequential => memmap2::Advice::Sequential,
            Advice::WillNeed => memmap2::Advice::WillNeed,
        }
    }
}

impl std::ops::Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path::open;

    #[test]
    fn maps_whole_and_empty_files_and_releases_them() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).expect("written");
        let file = open(&path).expect("it was just written");
        let map = Map::of(&file).expect("maps");
        map.advise(Advice::Sequential).expect("a hint");
        map.advise_range(Advice::WillNeed, 5..9_000).expect("a hint");
        map.prefetch();
        assert_eq!(map[99_999], 7);
        map.release(0..100_000).expect("released");
        assert!(map.iter().all(|&byte| byte == 7));
        std::fs::write(&path, b"").expect("written");
        assert!(Map::of(&open(&path).expect("opens")).expect("maps").is_empty());
    }

    /// A single hint reads one device request, usually 1.25 MB.
    #[test]
    fn prefetches_a_whole_large_file() {
        const SIZE: usize = 16 << 20;
        // The directory for tests may be in memory; the directory of this program is not.
        let program = std::env::current_exe().expect("it runs");
        let place = program.parent().expect("a directory");
        let dir = tempfile::tempdir_in(place).expect("a directory for tests");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; SIZE]).expect("written");
        let file = open(&path).expect("it was just written");
        file.std().sync_all().expect("a disk");
        let map = Map::of(&file).expect("maps");
        rustix::fs::fadvise(file.std(), 0, None, rustix::fs::Advice::DontNeed).expect("a hint");
        let pages = || (0..SIZE).step_by(4096).filter(|&at| map.is_resident(at)).count();
        if pages() > 0 {
            println!("skipped: the file system does not let go of what it holds");
            return;
        }
        map.prefetch();
        let start = std::time::Instant::now();
        while pages() < SIZE / 4096 {
            assert!(start.elapsed().as_secs() < 60, "{} pages came", pages());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
