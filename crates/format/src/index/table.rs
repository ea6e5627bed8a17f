//! The entries of an index and their paths, either decoded in memory or as stored in the file.
//!
//! A stored table decodes an entry only on demand, and copies no paths. So a lookup of a few
//! entries costs little, and a pass over all entries can be spread over threads. Callers get an
//! entry as a value in both cases. A changed or new entry is written into memory that continues the
//! file, so a change of a few entries costs eight bytes for each of the others, or nothing. If a
//! caller needs all entries as a slice, the table decodes all of them first.
//!
//! Another process may change a mapped file in place, against all conventions, or the file may
//! become unreadable. Entries are then arbitrary, but access stays within the file and does not
//! panic.

use std::ops::Range;

use bstr::{BStr, ByteSlice as _};

use super::{Edit, Entry, Flags, Mode, NewEntry, PathSpan, Stage, Stat};
pub(super) use stored::{Differences, Stored};

mod stored;

#[derive(Clone, Debug)]
pub(super) enum Table {
    /// A NUL follows each path.
    Owned {
        entries: Vec<Entry>,
        paths: Vec<u8>,
    },
    Stored(Stored),
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

    /// Returns false if the entry is known to have an earlier modification time than `seconds`,
    /// without reading it.
    #[inline]
    pub(super) fn may_be_modified_since(&self, at: usize, seconds: u32) -> bool {
        match self {
            Table::Stored(stored) if stored.entries.get().is_none() && stored.newest < seconds => {
                stored.places[at].entry(stored.codec) >= stored.file.len()
            }
            _ => true,
        }
    }

    /// Returns true if the file system monitor reports the entry as unchanged.
    #[inline]
    pub(super) fn is_fsmonitor_valid(&self, at: usize) -> bool {
        match self {
            Table::Owned { entries, .. } => entries[at].flags.contains(Flags::FSMONITOR_VALID),
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].flags.contains(Flags::FSMONITOR_VALID),
                None => stored.fsmonitor_valid.contains(at),
            },
        }
    }

    /// Returns true if the entry at `at` is known to match its file.
    #[inline]
    pub(super) fn is_uptodate(&self, at: usize) -> bool {
        match self {
            Table::Owned { entries, .. } => entries[at].flags.contains(Flags::UPTODATE),
            Table::Stored(stored) => match stored.entries.get() {
                Some(entries) => entries[at].flags.contains(Flags::UPTODATE),
                None => stored.uptodate.contains(at),
            },
        }
    }

    /// Sets or clears the monitor's mark for the entry.
    pub(super) fn set_fsmonitor_valid(&mut self, at: usize, is_marked: bool) {
        match self {
            Table::Stored(stored) if stored.entries.get().is_none() => {
                stored.fsmonitor_valid.set(at, is_marked, stored.places.len());
            }
            _ => self.entries_mut()[at].flags.set(Flags::FSMONITOR_VALID, is_marked),
        }
    }

    /// Clears [`Flags::UNSHARED`] in all entries.
    pub(super) fn clear_unshared(&mut self) {
        match self {
            Table::Stored(stored) if stored.entries.get().is_none() => stored.unshared.clear(),
            _ => self.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::UNSHARED)),
        }
    }

    /// Marks the entry as known to match its file.
    pub(super) fn set_uptodate(&mut self, at: usize) {
        match self {
            Table::Stored(stored) if stored.entries.get().is_none() => {
                stored.uptodate.set(at, true, stored.places.len());
            }
            _ => self.entries_mut()[at].flags.insert(Flags::UPTODATE),
        }
    }

    /// Replaces the entry at `at`, which keeps its path.
    pub(super) fn set(&mut self, at: usize, new: NewEntry) {
        if let Table::Stored(stored) = self
            && stored.entries.get().is_none()
            && stored.set(at, new)
        {
            return;
        }
        let entry = &mut self.entries_mut()[at];
        *entry = new.at(entry.path);
    }

    /// Replaces the entries of each range by those of the edit with its number. Returns false, and
    /// changes nothing, if the entries are decoded.
    pub(super) fn splice_stored(&mut self, edits: &[Edit], ranges: &[Range<usize>]) -> bool {
        match self {
            Table::Stored(stored) => stored.entries.get().is_none() && stored.splice(edits, ranges),
            Table::Owned { .. } => false,
        }
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

    /// Returns true if the entry before this one is known to be in the same directory.
    #[inline]
    pub(super) fn follows_sibling(&self, at: usize) -> bool {
        match self {
            Table::Owned { .. } => false,
            Table::Stored(stored) => stored.places[at].follows_sibling(),
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
    use bytes::Bytes;

    use crate::{
        HashKind,
        index::{entry::Codec, scan::Scan},
    };

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
            let mut table = Table::Stored(Stored::new(other, u32::MAX, codec, places.clone()));
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
