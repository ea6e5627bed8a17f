//! Entries as stored in a file, and in memory that continues the file.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, ByteSlice as _};
use bytes::Bytes;

use super::super::{
    Edit, Entry, Flags, Mode, NewEntry, PathSpan, Stage, Stat,
    entry::{self, Codec, Previous},
    marks::Marks,
    scan::EntryPlace,
};
use crate::ObjectId;

/// Well-formed, sorted entries of version 2 or 3.
#[derive(Clone, Debug)]
pub(in crate::index) struct Stored {
    /// The file. Paths are spans of the file and of `overlay`.
    pub(super) file: Bytes,
    /// The entries that are not those of the file. Their offsets follow those of the file. It only
    /// grows, so an entry returned earlier keeps its path.
    pub(super) overlay: Vec<u8>,
    /// The latest modification time in the file, in seconds.
    pub(super) newest: u32,
    pub(super) codec: Codec,
    /// The location of each entry. Copies of an index share this list and the file.
    pub(super) places: Arc<Vec<EntryPlace>>,
    /// For a split index, the shared half, which is the file.
    shared: Option<Shared>,
    /// The offsets of the entries with [`Flags::UNSHARED`].
    pub(super) unshared: BTreeSet<usize>,
    /// The entries that the file system monitor reports as unchanged.
    pub(super) fsmonitor_valid: Marks,
    /// The entries with [`Flags::UPTODATE`].
    pub(super) uptodate: Marks,
    /// The decoded entries, once they were requested. All their fields except paths may have
    /// changed since then.
    pub(super) entries: OnceLock<Vec<Entry>>,
}

/// The shared half of a split index.
#[derive(Clone, Debug)]
struct Shared {
    name: ObjectId,
    /// The location of each of its entries.
    places: Arc<Vec<EntryPlace>>,
}

impl Stored {
    /// `newest` is the latest modification time in the file, in seconds.
    pub(in crate::index) fn new(file: Bytes, newest: u32, codec: Codec, places: Vec<EntryPlace>) -> Stored {
        Stored {
            file,
            overlay: Vec::new(),
            newest,
            codec,
            places: Arc::new(places),
            shared: None,
            unshared: BTreeSet::new(),
            fsmonitor_valid: Marks::default(),
            uptodate: Marks::default(),
            entries: OnceLock::new(),
        }
    }

    /// Returns the table of an index that is split from this one, the shared index `name`, and has
    /// the same entries.
    pub(in crate::index) fn split_without_changes(&self, name: ObjectId) -> Stored {
        let shared = Some(Shared { name, places: Arc::clone(&self.places) });
        Stored { shared, ..self.clone() }
    }

    /// Returns a table without entries for an index that is split from this one, the shared index
    /// `name`, with room for `count` entries. Its overlay holds `changes`; their places are
    /// returned. The first `replacing` changes replace entries; the others are new. Returns `None`
    /// if the places do not fit.
    pub(in crate::index) fn with(
        &self,
        name: ObjectId,
        changes: &[(&BStr, &Entry)],
        replacing: usize,
        count: usize,
    ) -> Option<(Stored, Vec<EntryPlace>)> {
        let places = Vec::with_capacity(count);
        let mut table = Stored::new(self.file.clone(), self.newest, self.codec, places);
        table.shared = Some(Shared { name, places: Arc::clone(&self.places) });
        let mut places = Vec::with_capacity(changes.len());
        for (number, (path, entry)) in changes.iter().enumerate() {
            let place = table.write(path, entry)?;
            if number >= replacing {
                table.unshared.insert(place.entry(self.codec));
            }
            places.push(place);
        }
        Some((table, places))
    }

    /// Appends an entry to the overlay. Returns `None` if its place does not fit.
    fn write(&mut self, path: &BStr, entry: &Entry) -> Option<EntryPlace> {
        let start = self.file.len() + self.overlay.len();
        let place = EntryPlace::of(self.codec, start, path, entry::is_extended(entry))?;
        self.codec.write(&mut self.overlay, entry, path, Previous::Unknown { length: 0 });
        Some(place)
    }

    /// Replaces the entry at `at`, which keeps its path. Returns false, and changes nothing, if the
    /// new entry does not fit.
    pub(super) fn set(&mut self, at: usize, new: NewEntry) -> bool {
        let old = self.read(at);
        // A delta compares entries of the overlay only.
        let is_unshared = new.flags.contains(Flags::UNSHARED) && !old.flags.contains(Flags::UNSHARED);
        if is_unshared || new.stored() != old.content().stored() {
            let path = self.path_at(at).to_owned();
            let Some(place) = self.write(path.as_bstr(), &new.at(NO_PATH)) else { return false };
            let is_sibling = self.places[at].follows_sibling();
            Arc::make_mut(&mut self.places)[at] = if is_sibling { place.with_sibling() } else { place };
        }
        self.mark(at, new.flags);
        true
    }

    /// Sets the flags of the entry at `at` that are not stored.
    fn mark(&mut self, at: usize, flags: Flags) {
        let (offset, len) = (self.places[at].entry(self.codec), self.places.len());
        if flags.contains(Flags::UNSHARED) {
            self.unshared.insert(offset);
        } else if !self.unshared.is_empty() {
            self.unshared.remove(&offset);
        }
        self.fsmonitor_valid.set(at, flags.contains(Flags::FSMONITOR_VALID), len);
        self.uptodate.set(at, flags.contains(Flags::UPTODATE), len);
    }

    /// Replaces the entries of each range by those of the edit with its number. Returns false, and
    /// changes nothing, if an entry does not fit.
    pub(super) fn splice(&mut self, edits: &[Edit], ranges: &[Range<usize>]) -> bool {
        let added: usize = edits.iter().map(|edit| edit.entries.len()).sum();
        let mut places: Vec<EntryPlace> = Vec::with_capacity(self.places.len() + added);
        let (mut kept, mut marked, mut from) = (Vec::with_capacity(ranges.len() + 1), Vec::new(), 0);
        let end = self.places.len()..self.places.len();
        let ends = ranges.iter().cloned().chain([end]);
        let edits = edits.iter().map(Some).chain([None]);
        for (range, edit) in ends.zip(edits) {
            kept.push((from..range.start, places.len()));
            append(&mut places, &self.places[from..range.start]);
            from = range.end;
            for new in edit.map(|edit| &edit.entries[..]).unwrap_or_default() {
                let path = edit.map_or(BStr::new(""), |edit| edit.path.as_bstr());
                let Some(place) = self.write(path, &new.at(NO_PATH)) else { return false };
                marked.push((places.len(), new.flags));
                places.push(place);
            }
        }
        self.fsmonitor_valid = self.fsmonitor_valid.moved(&kept, places.len());
        self.uptodate = self.uptodate.moved(&kept, places.len());
        self.places = Arc::new(places);
        marked.into_iter().for_each(|(at, flags)| self.mark(at, flags));
        true
    }

    /// Returns the differences from the shared index `name`, if the table was split from it and its
    /// entries were not decoded. An entry in the overlay may be equal to a shared one.
    pub(in crate::index) fn differences(&self, name: ObjectId) -> Option<Differences> {
        let Shared { name: known, places: shared } = self.shared.as_ref()?;
        if *known != name || self.entries.get().is_some() {
            return None;
        }
        let mut differences = Differences::default();
        let (mut old, mut new) = (0, 0);
        loop {
            let same = shared[old..].iter().zip(&self.places[new..]).take_while(|(a, b)| a.is_at(**b));
            let same = same.count();
            (old, new) = (old + same, new + same);
            match (shared.get(old), self.places.get(new)) {
                (None, None) => return Some(differences),
                (Some(_), None) => {
                    differences.old.push(old);
                    old += 1;
                }
                // An entry of the file: those of the shared half before it are gone.
                (Some(_), Some(place)) if place.entry(self.codec) < self.file.len() => {
                    differences.old.push(old);
                    old += 1;
                }
                (_, Some(_)) => {
                    differences.new.push(new);
                    new += 1;
                }
            }
        }
    }

    #[cfg(test)]
    pub(in crate::index) fn is_decoded(&self) -> bool {
        self.entries.get().is_some()
    }

    /// Returns the entry of the shared half at `at`, and its path.
    pub(in crate::index) fn shared_at(&self, at: usize) -> Option<(Entry, &BStr)> {
        let place = *self.shared.as_ref()?.places.get(at)?;
        let (bytes, offset) = self.bytes(place.entry(self.codec));
        Some((self.codec.entry(bytes, offset, place.path()), self.path(place.path())))
    }

    /// Appends an entry.
    pub(in crate::index) fn push(&mut self, place: EntryPlace) {
        Arc::make_mut(&mut self.places).push(place);
    }

    /// Appends the entries at `range` of `other`, which has the same file.
    pub(in crate::index) fn append(&mut self, other: &Stored, range: Range<usize>) {
        append(Arc::make_mut(&mut self.places), &other.places[range]);
    }

    /// Returns the buffer that contains offset `at`, and the offset within it.
    #[inline]
    pub(super) fn bytes(&self, at: usize) -> (&[u8], usize) {
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
    pub(in crate::index) fn path_at(&self, at: usize) -> &BStr {
        self.path(self.places[at].path())
    }

    #[inline]
    pub(super) fn path(&self, PathSpan { start, len }: PathSpan) -> &BStr {
        let (bytes, start) = self.bytes(start as usize);
        bytes[start..][..len as usize].as_bstr()
    }

    /// Marks all entries as reported unchanged by the monitor, except `others` and submodules. A
    /// change inside a submodule is not reported for its entry.
    pub(in crate::index) fn mark_fsmonitor_valid_except(&mut self, others: Vec<usize>, has_submodules: bool) {
        let len = self.places.len();
        self.fsmonitor_valid = Marks::all(len);
        let submodules = (0..if has_submodules { self.places.len() } else { 0 })
            .filter(|&at| self.mode(at).is_gitlink())
            .collect::<Vec<_>>();
        others.into_iter().chain(submodules).for_each(|at| self.fsmonitor_valid.set(at, false, len));
    }

    pub(super) fn read(&self, at: usize) -> Entry {
        let place = self.places[at];
        let start = place.entry(self.codec);
        let (bytes, offset) = self.bytes(start);
        let mut entry = self.codec.entry(bytes, offset, place.path());
        entry.flags.set(Flags::UNSHARED, !self.unshared.is_empty() && self.unshared.contains(&start));
        entry.flags.set(Flags::FSMONITOR_VALID, self.fsmonitor_valid.contains(at));
        entry.flags.set(Flags::UPTODATE, self.uptodate.contains(at));
        entry
    }

    #[inline]
    pub(super) fn stage(&self, at: usize) -> Stage {
        let (bytes, offset) = self.place(at);
        self.codec.stage(bytes, offset)
    }

    pub(super) fn mode(&self, at: usize) -> Mode {
        let (bytes, offset) = self.place(at);
        self.codec.mode(bytes, offset)
    }

    #[inline]
    pub(super) fn has_mode_and_stat(&self, at: usize, mode: Mode, stat: &Stat) -> bool {
        let (bytes, offset) = self.place(at);
        self.codec.has_mode_and_stat(bytes, offset, mode, stat)
    }

    pub(super) fn entries(&self) -> &Vec<Entry> {
        self.entries.get_or_init(|| (0..self.places.len()).map(|at| self.read(at)).collect())
    }
}

/// The path of an entry that is about to be written, with its path given apart.
const NO_PATH: PathSpan = PathSpan { start: 0, len: 0 };

/// Appends a run of places. The entry before it may now be in another directory.
fn append(places: &mut Vec<EntryPlace>, run: &[EntryPlace]) {
    let first = places.len();
    places.extend_from_slice(run);
    if let Some(place) = places.get_mut(first) {
        *place = place.without_sibling();
    }
}

/// The entries in which a split index differs from its shared half, in ascending order.
#[derive(Debug, Default)]
pub(in crate::index) struct Differences {
    /// Positions in the shared half.
    pub(in crate::index) old: Vec<usize>,
    /// Positions in the index.
    pub(in crate::index) new: Vec<usize>,
}
