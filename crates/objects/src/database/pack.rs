//! A pack and its index, mapped when they are first needed.

use std::collections::HashSet;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use format::idx::Idx;
use format::pack::{self, Entry};
use format::{HashKind, ObjectId};
use sys::Map;

use super::sparse_map::{MAX_REQUEST, SparseMap};
use super::{Fault, PackError};

/// The number of bytes of a pack that may be mapped in before all its pages are released.
const RESIDENT: usize = 16 << 20;
/// The number of bytes that the kernel maps around a touched page.
const FAULT_AROUND: usize = 64 << 10;

/// The part of a pack that a reader read last, in units of [`FAULT_AROUND`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window(usize);

/// A pack from the listing of a directory.
#[derive(Debug)]
pub(super) struct Pack {
    /// Its number, for the keys of the cache and for locations.
    pub(super) id: u32,
    /// The path of the `.pack` file.
    path: PathBuf,
    hash: HashKind,
    idx: OnceLock<Result<Idx<SparseMap>, PackError>>,
    data: OnceLock<Result<SparseMap, PackError>>,
    // The number of bytes mapped in since the pages were last released.
    resident: AtomicUsize,
    // Damaged entries by offset; they are never read again. The flag avoids the lock while there
    // are none.
    any_bad: AtomicBool,
    bad: Mutex<HashSet<u64>>,
    // True once the modification time of the file was updated.
    is_fresh: AtomicBool,
}

impl Pack {
    pub(super) fn new(id: u32, path: PathBuf, hash: HashKind) -> Pack {
        Pack {
            id,
            path,
            hash,
            idx: OnceLock::new(),
            data: OnceLock::new(),
            resident: AtomicUsize::new(0),
            any_bad: AtomicBool::new(false),
            bad: Mutex::default(),
            is_fresh: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the hash of the object names.
    pub(super) fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the index for many lookups, or the reason why it cannot be used.
    pub(super) fn idx(&self) -> Result<&Idx<SparseMap>, &PackError> {
        self.sparse_idx().inspect(|idx| idx.data().announce_many_reads())
    }

    fn sparse_idx(&self) -> Result<&Idx<SparseMap>, &PackError> {
        let open = || {
            let map = map(&self.path.with_extension("idx"))?;
            Idx::parse(SparseMap::new(map), self.hash).map_err(PackError::Index)
        };
        self.idx.get_or_init(open).as_ref()
    }

    /// Returns the pack without its trailer, after a check that pack and index belong together.
    pub(super) fn data(&self) -> Result<&[u8], &PackError> {
        let map = self.data.get_or_init(|| self.open()).as_ref()?;
        Ok(&map[..map.len() - self.hash.len()])
    }

    fn open(&self) -> Result<SparseMap, PackError> {
        let idx = self.sparse_idx().map_err(Clone::clone)?;
        let mut file = sys::by_path::open(&self.path).map_err(PackError::io)?;
        let map = Map::of(&file).map_err(PackError::io)?;
        if map.len() < pack::HEADER_LEN + self.hash.len() {
            return Err(PackError::TooShort);
        }
        // The header is read, not mapped: read-ahead around a page of a mapping can be megabytes.
        let mut header = [0; pack::HEADER_LEN];
        let mut trailer = vec![0; self.hash.len()];
        file.read_exact(&mut header).map_err(PackError::io)?;
        file.seek(SeekFrom::Start((map.len() - trailer.len()) as u64)).map_err(PackError::io)?;
        file.read_exact(&mut trailer).map_err(PackError::io)?;
        let count = pack::parse_header(&header).map_err(PackError::Header)?;
        if count != idx.count() {
            return Err(PackError::Count { pack: count, index: idx.count() });
        }
        if trailer != *idx.pack_checksum() {
            return Err(PackError::Mismatch);
        }
        Ok(SparseMap::new(map))
    }

    /// Returns the offset of an object in this pack, if the pack can be read and the entry is not
    /// known to be damaged.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<u64> {
        self.offset(oid).filter(|&offset| self.usable(offset))
    }

    /// Returns the offset of an object in this pack whose entry is known to be damaged.
    pub(super) fn find_bad(&self, oid: &ObjectId) -> Option<u64> {
        if !self.any_bad.load(Ordering::Acquire) {
            return None;
        }
        self.offset(oid).filter(|&offset| self.is_bad(offset))
    }

    fn offset(&self, oid: &ObjectId) -> Option<u64> {
        let idx = self.sparse_idx().ok()?;
        idx.data().announce_read(|| idx.bucket_of(oid));
        // The decoder reports an invalid offset.
        Some(idx.offset(idx.find(oid)?).unwrap_or(u64::MAX))
    }

    /// Returns true if the pack can be read and the entry is not known to be damaged.
    pub(super) fn usable(&self, offset: u64) -> bool {
        !self.is_bad(offset) && self.data().is_ok()
    }

    /// Reads the header of the entry at an offset.
    pub(super) fn entry(&self, data: &[u8], offset: u64) -> Result<Entry, Fault> {
        let start = usize::try_from(offset).ok().filter(|&start| start >= pack::HEADER_LEN);
        let bytes = start.and_then(|start| data.get(start..)).ok_or(Fault::Outside(offset))?;
        if bytes.is_empty() {
            return Err(Fault::Outside(offset));
        }
        let map = self.data.get().and_then(|map| map.as_ref().ok());
        if let (Some(map), Some(start)) = (map, start) {
            map.announce_read(|| start..start + MAX_REQUEST);
        }
        let entry = pack::parse_entry(bytes, self.hash).map_err(Fault::Entry)?;
        if let Some(map) = map.filter(|_| entry.size > MAX_REQUEST as u64) {
            map.announce_many_reads();
        }
        Ok(entry)
    }

    /// Counts the bytes that reading `bytes` maps in. At the limit it releases all pages, so a walk
    /// through a large pack does not keep all of it mapped; the page cache still has it. `last` is
    /// the reader's last position.
    pub(super) fn count_read(&self, bytes: Range<usize>, last: &mut Window) {
        let (first, end) = (bytes.start / FAULT_AROUND, bytes.end / FAULT_AROUND);
        let windows = end - first + usize::from(*last != Window(first));
        *last = Window(end);
        if windows == 0 {
            return;
        }
        let brought = windows * FAULT_AROUND;
        let resident = self.resident.fetch_add(brought, Ordering::Relaxed) + brought;
        if resident >= RESIDENT
            && self.resident.compare_exchange(resident, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            && let Some(Ok(map)) = self.data.get()
        {
            // This is a hint: if it fails, the pages stay mapped.
            let _ = map.release();
        }
    }

    /// Marks the entry at this offset as damaged.
    pub(super) fn mark_bad(&self, offset: u64) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).insert(offset);
        self.any_bad.store(true, Ordering::Release);
    }

    fn is_bad(&self, offset: u64) -> bool {
        self.any_bad.load(Ordering::Acquire)
            && self.bad.lock().unwrap_or_else(PoisonError::into_inner).contains(&offset)
    }

    /// Updates the modification time of the file once, unless it is a cruft pack. Returns true on
    /// success.
    pub(super) fn freshen(&self) -> bool {
        let update = || {
            let is_cruft = !matches!(sys::by_path::stat(&self.path.with_extension("mtimes")), Ok(None));
            !is_cruft && super::mark_used(&self.path)
        };
        if !self.is_fresh.load(Ordering::Acquire) && update() {
            self.is_fresh.store(true, Ordering::Release);
        }
        self.is_fresh.load(Ordering::Acquire)
    }

    /// Returns true if opening failed because the files no longer exist.
    pub(super) fn is_gone(&self) -> bool {
        self.failure().is_some_and(PackError::is_gone)
    }

    /// Returns the reason why the pack could not be opened; `None` if it was not tried.
    pub(super) fn failure(&self) -> Option<&PackError> {
        let idx = self.idx.get().and_then(|idx| idx.as_ref().err());
        idx.or_else(|| self.data.get().and_then(|data| data.as_ref().err()))
    }
}

pub(super) fn map(path: &Path) -> Result<Map, PackError> {
    sys::by_path::open(path).and_then(|file| Map::of(&file)).map_err(PackError::io)
}
