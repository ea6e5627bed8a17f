//! The entries of an index and their paths, either decoded in memory or as stored in the file.
//!
//! A stored table decodes an entry only on demand, and copies no paths. So a lookup of a few
//! entries costs little, and a pass over all entries can be spread over threads. Callers get an
//! entry as a value in both cases. If a caller needs all entries as a slice, or changes them, the
//! table decodes all of them first.
//!
//! Another process may change a mapped file in place, against all conventions, or the file may
//! become unreadable. Entries are then arbitrary, but access stays within the file and does not
//! panic.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, ByteSlice as _};
use bytes::Bytes;

use super::{
    Entry, Flags, Mode, PathSpan, Stage, Stat,
    entry::{self, Codec, Previous},
    scan::EntryPlace,
};

#[derive(Clone, Debug)]
pub(super) enum Table {
    /// A NUL follows each path.
    Owned {
        entries: Vec<Entry>,
        paths: Vec<u8>,
    },
    Stored(Stored),
}

/// Well-formed, sorted entries of version 2 or 3.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The file. Paths are spans of the file and of `overlay`.
    file: Bytes,
    /// Entries that a split index adds to those of the shared index. Their offsets follow those of
    /// the file.
    overlay: Bytes,
    /// The offset of the first entry with [`Flags::UNSHARED`].
    unshared_from: usize,
    codec: Codec,
    /// The location of each entry. Copies of an index share this list and the file.
    places: Arc<Vec<EntryPlace>>,
    /// A bit for each entry: set if the file system monitor reports it as unchanged. Empty if no
    /// bit is set.
    fsmonitor_valid: Vec<u64>,
    /// The decoded entries, once they were requested. All their fields except paths may have
    /// changed since then.
    entries: OnceLock<Vec<Entry>>,
}

impl Stored {
    pub(super) fn new(file: Bytes, codec: Codec, places: Vec<EntryPlace>) -> Stored {
        Stored {
            file,
            overlay: Bytes::new(),
            unshared_from: usize::MAX,
            codec,
            places: Arc::new(places),
            fsmonitor_valid: Vec::new(),
            entries: OnceLock::new(),
        }
    }

    /// Returns a table without entries whose overlay holds `changes`, and their places in it. The
    /// first `replacing` changes replace entries; the others are new. Returns `None` if the places
    /// do not fit.
    pub(super) fn with(
        &self,
        changes: &[(&BStr, &Entry)],
        replacing: usize,
    ) -> Option<(Stored, Vec<EntryPlace>)> {
        let (mut overlay, mut places) = (Vec::new(), Vec::with_capacity(changes.len()));
        let mut unshared = usize::MAX;
        for (number, (path, entry)) in changes.iter().enumerate() {
            let start = self.file.len() + overlay.len();
            if number == replacing {
                unshared = start;
            }
            self.codec.write(&mut overlay, entry, path, Previous::Unknown { length: 0 });
            places.push(EntryPlace::of(self.codec, start, path, entry::is_extended(entry))?);
        }
        let table = Stored {
            overlay: overlay.into(),
            unshared_from: unshared,
            ..Stored::new(self.file.clone(), self.codec, Vec::new())
        };
        Some((table, places))
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, place: EntryPlace) {
        Arc::make_mut(&mut self.places).push(place);
    }

    /// Appends the entries at `range` of `other`, which has the same file.
    pub(super) fn append(&mut self, other: &Stored, range: Range<usize>) {
        let places = Arc::make_mut(&mut self.places);
        let first = places.len();
        places.extend_from_slice(&other.places[range]);
        if let Some(place) = places.get_mut(first) {
            *place = place.without_sibling();
        }
    }

    /// Returns the buffer that contains offset `at`, and the offset within it.
    #[inline]
    fn bytes(&self, at: usize) -> (&[u8], usize) {
        match at.checked_sub(self.file.len()) {
            Some(at) if !self.overlay.is_empty() => (&self.overlay, at),
            _ => (&self.file, at),
        }
    }

    /// Returns the buffer that contains the entry at position `at`, and the entry's offset within
    /// it.
    #[inline]
    fn place(&self, at: usize) -> (&[u8], usize) {
        self.bytes(self.places[at].entry(self.codec))
    }

    #[inline]
    pub(super) fn path_at(&self, at: usize) -> &BStr {
        self.path(self.places[at].path())
    }

    #[inline]
    fn path(&self, PathSpan { start, len }: PathSpan) -> &BStr {
        let (bytes, start) = self.bytes(start as usize);
        bytes[start..][..len as usize].as_bstr()
    }

    /// Marks all entries as reported unchanged by the monitor, except `others` and submodules. A
    /// change inside a submodule is not reported for its entry.
    pub(super) fn mark_fsmonitor_valid_except(&mut self, others: Vec<usize>, has_submodules: bool) {
        self.fsmonitor_valid = vec![u64::MAX; self.places.len().div_ceil(64)];
        let submodules = (0..if has_submodules { self.places.len() } else { 0 })
            .filter(|&at| self.mode(at).is_gitlink())
            .collect::<Vec<_>>();
        for at in others.into_iter().chain(submodules) {
            self.fsmonitor_valid[at / 64] &= !(1 << (at % 64));
        }
    }

    fn flags(&self, at: usize, stored: Flags) -> Flags {
        let is_vouched = self.fsmonitor_valid.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
        if is_vouched { stored | Flags::FSMONITOR_VALID } else { stored }
    }

    fn read(&self, at: usize) -> Entry {
        let place = self.places[at];
        let start = place.entry(self.codec);
        let (bytes, offset) = self.bytes(start);
        let mut entry = self.codec.entry(bytes, offset, place.path());
        entry.flags.set(Flags::UNSHARED, start >= self.unshared_from);
        Entry { flags: self.flags(at, entry.flags), ..entry }
    }

    #[inline]
    fn stage(&self, at: usize) -> Stage {
        let (bytes, offset) = self.place(at);
        self.codec.stage(bytes, offset)
    }

    fn mode(&self, at: usize) -> Mode {
        let (bytes, offset) = self.place(at);
        self.codec.mode(bytes, offset)
    }

    #[inline]
    fn has_mode_and_stat(&self, at: usize, mode: Mode, stat: &Stat) -> bool {
        let (bytes, offset) = self.place(at);
        self.codec.has_mode_and_stat(bytes, offset, mode, stat)
    }

    fn entries(&self) -> &Vec<Entry> {
        self.entries.get_or_init(|| (0..self.places.len()).map(|at| self.read(at)).collect())
    }
}

impl Table {
    pub(super) const fn empty() -> Table {
        Table::Owned { entries: Vec::new(), paths: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Table::Owned { entries, .. } => entries.len(),
            Table::Stored(stored) => stored.places.len(),
        }
    }

    #[inline]
    pub(super) fn entry(&self, at: usize) -> Entry {
        match self {
            Table::Owned { entries, .. } => entries[at],
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at],
                None => stored.read(at),
            },
        }
    }

    #[inline]
    pub(super) fn stage(&self, at: usize) -> Stage {
        match self {
            Table::Owned { entries, .. } => entries[at].stage,
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].stage,
                None => stored.stage(at),
            },
        }
    }

    pub(super) fn mode(&self, at: usize) -> Mode {
        match self {
            Table::Owned { entries, .. } => entries[at].mode,
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].mode,
                None => stored.mode(at),
            },
        }
    }

    /// See [`super::Index::has_mode_and_stat`].
    #[inline]
    pub(super) fn has_mode_and_stat(&self, at: usize, mode: Mode, stat: &Stat) -> bool {
        match self {
            Table::Owned { entries, .. } => entries[at].has_mode_and_stat(mode, stat),
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].has_mode_and_stat(mode, stat),
                None => stored.has_mode_and_stat(at, mode, stat),
            },
        }
    }

    /// Returns true if the file system monitor reports the entry as unchanged.
    #[inline]
    pub(super) fn is_fsmonitor_valid(&self, at: usize) -> bool {
        let flags = match self {
            Table::Owned { entries, .. } => entries[at].flags,
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].flags,
                None => stored.flags(at, Flags::empty()),
            },
        };
        flags.contains(Flags::FSMONITOR_VALID)
    }

    /// Sets or clears the monitor's mark for the entry.
    pub(super) fn set_fsmonitor_valid(&mut self, at: usize, is_fsmonitor_valid: bool) {
        let entries = match self {
            Table::Owned { entries, .. } => entries,
            Table::Stored(stored) if stored.entries.get().is_some() || stored.fsmonitor_valid.is_empty() => {
                self.entries_mut()
            }
            Table::Stored(stored) => {
                let (bits, bit) = (&mut stored.fsmonitor_valid[at / 64], 1 << (at % 64));
                *bits = if is_fsmonitor_valid { *bits | bit } else { *bits & !bit };
                return;
            }
        };
        entries[at].flags.set(Flags::FSMONITOR_VALID, is_fsmonitor_valid);
    }

    /// Returns the path of an entry of this table.
    #[inline]
    pub(super) fn path(&self, span: PathSpan) -> &BStr {
        match self {
            Table::Owned { paths, .. } => paths[span.start as usize..][..span.len as usize].as_bstr(),
            Table::Stored(stored) => stored.path(span),
        }
    }

    #[inline]
    pub(super) fn path_at(&self, at: usize) -> &BStr {
        match self {
            Table::Owned { entries, .. } => self.path(entries[at].path),
            Table::Stored(stored) => stored.path_at(at),
        }
    }

    /// Returns the length of the path's directory part, trailing slash included.
    #[inline]
    pub(super) fn directory(&self, at: usize) -> usize {
        match self {
            Table::Owned { .. } => self.path_at(at).rfind_byte(b'/').map_or(0, |slash| slash + 1),
            Table::Stored(stored) => stored.places[at].directory(),
        }
    }

    /// Returns the number of entries from `at` on, up to `bound`, that are known to be in the same
    /// directory.
    #[inline]
    pub(super) fn siblings_from(&self, at: usize, bound: usize) -> usize {
        match self {
            Table::Owned { .. } => 1,
            Table::Stored(stored) => {
                1 + stored.places[at + 1..bound].iter().take_while(|place| place.follows_sibling()).count()
            }
        }
    }

    /// Returns true if the path's last component is `name`.
    #[inline]
    pub(super) fn is_named(&self, at: usize, name: &[u8]) -> bool {
        match self {
            Table::Owned { .. } => {
                self.path_at(at).ends_with(name) && self.path_at(at).len() == self.directory(at) + name.len()
            }
            // Most names differ in length, so their bytes are not read.
            Table::Stored(stored) => {
                let place = stored.places[at];
                place.path().len as usize == place.directory() + name.len()
                    && self.path_at(at).ends_with(name)
            }
        }
    }

    /// Returns the path at `at` from byte `from` on, with its NUL, if the table stores one.
    #[inline]
    pub(super) fn terminated(&self, at: usize, from: usize) -> Option<&[u8]> {
        let (bytes, start, len) = match self {
            Table::Owned { entries, paths } => {
                let PathSpan { start, len } = entries[at].path;
                (&paths[..], start as usize, len)
            }
            Table::Stored(stored) => {
                let PathSpan { start, len } = stored.places[at].path();
                let (bytes, start) = stored.bytes(start as usize);
                (bytes, start, len)
            }
        };
        bytes[start..][..len as usize + 1].get(from..)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match self {
            Table::Owned { entries, .. } => entries,
            Table::Stored(stored) => stored.entries(),
        }
    }

    /// Returns the entries for changes that keep their paths.
    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        match self {
            Table::Owned { entries, .. } => entries,
            Table::Stored(stored) => {
                stored.entries();
                stored.entries.get_mut().expect("they were just read")
            }
        }
    }

    /// Returns entries and paths for any change.
    pub(super) fn owned(&mut self) -> (&mut Vec<Entry>, &mut Vec<u8>) {
        if let Table::Stored(stored) = self {
            stored.entries();
            let entries = stored.entries.take().expect("they were just read");
            // Copies the complete file, so that an entry returned earlier still has its path.
            *self = Table::Owned { entries, paths: [&stored.file[..], &stored.overlay].concat() };
        }
        match self {
            Table::Owned { entries, paths } => (entries, paths),
            Table::Stored(_) => unreachable!("it was just made its own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HashKind, index::scan::Scan};

    /// Simulates another process that overwrites the file.
    #[test]
    fn a_changed_file_gives_arbitrary_entries_without_panic() {
        let codec = Codec { hash: HashKind::Sha1, compressed: false };
        let mut file = vec![0; 12];
        for number in 0..20 {
            let path = format!("a/{number:02}");
            let mut entry = vec![0; 62];
            entry[24..28].copy_from_slice(&0o100644u32.to_be_bytes());
            entry[60..62].copy_from_slice(&(path.len() as u16).to_be_bytes());
            entry.extend_from_slice(path.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            file.append(&mut entry);
        }
        let places = Scan::of(codec, &file, 12..file.len(), 20, &|| ()).places;
        assert_eq!(places.len(), 20);
        for byte in [0, 1, b'/', 0x4f, 0xff] {
            let other = Bytes::from(vec![byte; file.len()]);
            let mut table = Table::Stored(Stored::new(other, codec, places.clone()));
            for at in 0..20 {
                let entry = table.entry(at);
                assert_eq!(table.path(entry.path), [byte; 4].as_bstr());
                assert_eq!(
                    (table.stage(at), table.mode(at).bits()),
                    (entry.stage, u32::from_be_bytes([byte; 4]))
                );
                assert_eq!((table.directory(at), table.terminated(at, 2)), (2, Some(&[byte; 3][..])));
            }
            assert_eq!(table.entries().len(), 20);
            let entry = table.entry(3);
            assert_eq!(table.owned().0.len(), 20);
            assert_eq!(table.path(entry.path), [byte; 4].as_bstr());
        }
    }
}
