//! A split index: a small file with the changes, and a shared file with the other entries.
//!
//! The link extension names the shared index and holds two bitmaps over its entries: the deleted
//! and the replaced ones. A replacing entry has no name in the file. Replacing entries come first,
//! in the order of the entries that they replace. Added entries follow. If the shared index is kept
//! as stored ([`super::read::decode_stored`]), merging leaves its entries in place.

use std::{cmp::Ordering, ops::Range};

use bstr::{BStr, ByteSlice};

use super::{
    Entry, Flags, HEADER, Index, PathSpan, Stage, Version,
    bytes::Reader,
    entry::{Codec, EntryKey, Previous, disorder},
    ewah::{self, Bitmap},
    read::{Decoded, Error, Header, PrepareMemory, with_room},
    table::{Differences, Stored, Table},
};
use crate::{HashKind, ObjectId};

/// The link extension.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) base: ObjectId,
    bitmaps: Option<(Bitmap, Bitmap)>,
}

impl Link {
    pub(super) fn read(data: &[u8], hash: HashKind) -> Result<Link, Error> {
        let mut reader = Reader(data);
        let base = reader.oid(hash).ok_or(Error::Link("corrupt link extension (too short)"))?;
        if reader.0.is_empty() {
            return Ok(Link { base, bitmaps: None });
        }
        let deleted =
            Bitmap::read(&mut reader).ok_or(Error::Link("corrupt delete bitmap in link extension"))?;
        let replaced =
            Bitmap::read(&mut reader).ok_or(Error::Link("corrupt replace bitmap in link extension"))?;
        if !reader.0.is_empty() {
            return Err(Error::Link("garbage at the end of link extension"));
        }
        Ok(Link { base, bitmaps: Some((deleted, replaced)) })
    }
}

/// The small file of a split index: its changes to the entries of the shared index.
struct Changes {
    /// Positions in the shared index.
    deleted: Vec<usize>,
    /// Positions in the shared index.
    replaced: Vec<usize>,
    /// The replacing entries without paths, one for each of `replaced`, then the new ones.
    entries: Vec<Entry>,
    names: Vec<u8>,
}

/// A run of entries of a merged index.
enum Piece {
    /// Entries of the shared index.
    Shared(Range<usize>),
    /// The changed entry at this position. The second value is the position in the shared index of
    /// the entry that it replaces, and whose path it has.
    Changed(usize, Option<usize>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Shared(range) => range.len(),
            Piece::Changed(..) => 1,
        }
    }
}

impl Decoded {
    /// Merges the two files of a split index. `base` is the file that [`Decoded::base`] names. If
    /// its entries are kept as stored, the merged index keeps them so.
    pub fn merge(mut self, base: Decoded) -> Result<Index, Error> {
        let (oid, prepare_memory) = (base.checksum(), base.prepare_memory);
        let base = base.finish()?;
        let changes = Changes::read(&mut self, base.len())?;
        let pieces = changes.pieces(&base);
        changes.must_be_in_order(&pieces, &base)?;
        self.index.overview = base.overview.zip(self.index.overview).map(|(one, two)| one.join(two));
        let stored = match &base.table {
            Table::Stored(stored) => changes.overlaid(stored, oid, &pieces).map(Table::Stored),
            Table::Owned { .. } => None,
        };
        self.index.table = match stored {
            Some(table) => table,
            None => changes.decoded(base.table, &pieces, prepare_memory)?,
        };
        self.index.base = Some(oid);
        self.link = None;
        self.disorder = None;
        self.finish()
    }
}

impl Changes {
    /// Reads the changes to a shared index with `size` entries.
    fn read(decoded: &mut Decoded, size: usize) -> Result<Changes, Error> {
        let (entries, names) = decoded.index.table.owned();
        let (entries, names) = (std::mem::take(entries), std::mem::take(names));
        let (mut deleted, mut replaced) = (Vec::new(), Vec::new());
        if let Some((delete, replace)) = decoded.link.as_ref().and_then(|link| link.bitmaps.as_ref()) {
            let out = |what| move |position| Error::LinkPosition { what, position, size };
            replace.for_each(size, |position| replaced.push(position)).map_err(out("replacement"))?;
            delete.for_each(size, |position| deleted.push(position)).map_err(out("delete"))?;
        }
        if replaced.len() > entries.len() {
            return Err(Error::TooManyReplacements { wanted: entries.len() + 1, present: entries.len() });
        }
        if let Some((&position, _)) = replaced.iter().zip(&entries).find(|(_, new)| new.path.len != 0) {
            return Err(Error::LinkName { position, what: "zero length" });
        }
        // Both lists are in ascending order.
        if let Some(both) = deleted.iter().find(|position| replaced.binary_search(position).is_ok()) {
            return Err(Error::ReplacedAndDeleted(*both));
        }
        if let Some(position) = (replaced.len()..entries.len()).find(|&at| entries[at].path.len == 0) {
            return Err(Error::LinkName { position, what: "non-zero length" });
        }
        Ok(Changes { deleted, replaced, entries, names })
    }

    fn name(&self, at: usize) -> &BStr {
        let PathSpan { start, len } = self.entries[at].path;
        self.names[start as usize..][..len as usize].as_bstr()
    }

    /// Returns the merged index as runs. A new entry replaces the entry with its path and stage. A
    /// merged new entry replaces all stages of its path.
    fn pieces(&self, base: &Index) -> Vec<Piece> {
        let mut new: Vec<usize> = (self.replaced.len()..self.entries.len()).collect();
        new.sort_by(|&one, &two| {
            self.name(one).cmp(self.name(two)).then(self.entries[one].stage.cmp(&self.entries[two].stage))
        });
        // For each change, the range of shared entries to leave out. It is empty for an insertion.
        let mut changes: Vec<(Range<usize>, Option<Piece>)> = Vec::new();
        for at in new {
            let (path, stage) = (self.name(at), self.entries[at].stage);
            let (Ok(start) | Err(start)) = base.position(path, stage);
            let goes = |&other: &usize| {
                base.path_at(other) == path && (stage == Stage::Normal || base.stage_at(other) == stage)
            };
            let end = start + (start..base.len()).take_while(goes).count();
            changes.push((start..end, Some(Piece::Changed(at, None))));
        }
        let replaced = self.replaced.iter().enumerate();
        changes.extend(replaced.map(|(new, &at)| (at..at + 1, Some(Piece::Changed(new, Some(at))))));
        changes.extend(self.deleted.iter().map(|&at| (at..at + 1, None)));
        changes.sort_by_key(|(left_out, _)| (left_out.start, left_out.end));
        let (mut pieces, mut next) = (Vec::new(), 0);
        for (left_out, piece) in changes {
            if matches!(piece, Some(Piece::Changed(_, Some(at))) if at < next) {
                continue;
            }
            pieces.push(Piece::Shared(next..left_out.start.max(next)));
            pieces.extend(piece);
            next = next.max(left_out.end);
        }
        pieces.push(Piece::Shared(next..base.len()));
        pieces
    }

    fn must_be_in_order(&self, pieces: &[Piece], base: &Index) -> Result<(), Error> {
        let shared = |at: usize| EntryKey { path: base.path_at(at), stage: base.stage_at(at) };
        let mut before = None;
        for piece in pieces {
            let (first, last) = match piece {
                Piece::Shared(range) if range.is_empty() => continue,
                Piece::Shared(range) => (shared(range.start), shared(range.end - 1)),
                &Piece::Changed(at, replaced) => {
                    let path = replaced.map_or_else(|| self.name(at), |of| base.path_at(of));
                    let key = EntryKey { path, stage: self.entries[at].stage };
                    (key, key)
                }
            };
            if let Some(error) = before.and_then(|before| disorder(before, first)) {
                return Err(error);
            }
            before = Some(last);
        }
        Ok(())
    }

    /// Returns the merged entries, decoded. Reuses the memory of `base` if the number of entries
    /// stays the same.
    fn decoded(
        &self,
        mut base: Table,
        pieces: &[Piece],
        prepare_memory: PrepareMemory,
    ) -> Result<Table, Error> {
        let (old, paths) = base.owned();
        let start = paths.len();
        paths.extend_from_slice(&self.names);
        if u32::try_from(paths.len()).is_err() {
            return Err(Error::Truncated { offset: 0 });
        }
        if self.deleted.is_empty() && self.entries.len() == self.replaced.len() {
            for (&of, new) in self.replaced.iter().zip(&self.entries) {
                old[of] = Entry { path: old[of].path, ..*new };
            }
            return Ok(base);
        }
        let mut entries = with_room(old.len() + self.entries.len(), prepare_memory);
        for piece in pieces {
            match piece {
                Piece::Shared(range) => entries.extend_from_slice(&old[range.clone()]),
                &Piece::Changed(at, Some(of)) => {
                    entries.push(Entry { path: old[of].path, ..self.entries[at] });
                }
                &Piece::Changed(at, None) => {
                    let mut entry = self.entries[at];
                    entry.path.start += start as u32;
                    entry.flags.insert(Flags::UNSHARED);
                    entries.push(entry);
                }
            }
        }
        *old = entries;
        Ok(base)
    }

    /// Returns the merged entries, with those of the shared index `name` as stored. Returns `None`
    /// if that is not possible.
    fn overlaid(&self, base: &Stored, name: ObjectId, pieces: &[Piece]) -> Option<Stored> {
        if self.entries.is_empty() && self.deleted.is_empty() {
            return Some(base.split_without_changes(name));
        }
        let replaced = self.replaced.iter().map(|&of| base.path_at(of));
        let new = (self.replaced.len()..self.entries.len()).map(|at| self.name(at));
        let changes: Vec<_> = replaced.chain(new).zip(&self.entries).collect();
        let count = pieces.iter().map(Piece::len).sum();
        let (mut stored, changed) = base.with(name, &changes, self.replaced.len(), count)?;
        for piece in pieces {
            match piece {
                Piece::Shared(range) => stored.append(base, range.clone()),
                &Piece::Changed(at, _) => stored.push(changed[at]),
            }
        }
        Some(stored)
    }
}

/// The differences between an index and its shared index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Positions in the shared index of entries that the index does not have.
    pub deleted: Vec<usize>,
    /// Positions in the shared index and in the index of entries that differ in anything but path
    /// and stage.
    pub replaced: Vec<(usize, usize)>,
    /// Positions in the index of entries that the shared index does not have.
    pub added: Vec<usize>,
}

impl Delta {
    /// Compares `index` with the shared index in the file `shared`. Reads that file once, from
    /// beginning to end.
    pub fn between(shared: &[u8], index: &Index) -> Result<Delta, Error> {
        let Header { content, version, count, .. } = Header::read(shared, index.hash)?;
        let codec = Codec { hash: index.hash, compressed: version == Version::V4 };
        let mut delta = Delta::default();
        let (mut path, mut offset, mut new) = (None, HEADER, 0);
        let mut written = Vec::new();
        for old in 0..count {
            // Nearly all entries still have the same bytes.
            if !codec.compressed && new < index.len() {
                let two = index.entry(new);
                written.clear();
                codec.write(&mut written, &two, index.path(&two), Previous::Unknown { length: 0 });
                if content[offset..].starts_with(&written) && !two.flags.contains(Flags::UNSHARED) {
                    (offset, new) = (offset + written.len(), new + 1);
                    continue;
                }
            }
            let (one, end) = codec.next(content, offset, &mut path)?;
            let name = path.as_deref().unwrap_or_default().as_bstr();
            offset = end;
            let order = |new: usize| {
                if new < index.len() {
                    index.path_at(new).cmp(name).then(index.stage_at(new).cmp(&one.stage))
                } else {
                    Ordering::Greater
                }
            };
            while order(new) == Ordering::Less {
                delta.added.push(new);
                new += 1;
            }
            if order(new) == Ordering::Greater {
                delta.deleted.push(old);
                continue;
            }
            let two = index.entry(new);
            if two.flags.contains(Flags::UNSHARED) {
                delta.deleted.push(old);
                delta.added.push(new);
            } else if one.content().stored() != two.content().stored() {
                delta.replaced.push((old, new));
            }
            new += 1;
        }
        delta.added.extend(new..index.len());
        Ok(delta)
    }

    /// Returns the differences of an index from the shared index that it was read with. The entries
    /// that stayed in that file are not read. Returns `None` if the entries were decoded.
    pub fn known(index: &Index) -> Option<Delta> {
        let Table::Stored(table) = &index.table else { return None };
        let Differences { old, new } = table.differences(index.base?)?;
        let (mut old, mut delta) = (old.into_iter().peekable(), Delta::default());
        for new in new {
            let two = index.entry(new);
            let key = (index.path_at(new), two.stage);
            let is_before =
                |&at: &usize| table.shared_at(at).is_some_and(|(one, path)| (path, one.stage) < key);
            delta.deleted.extend(std::iter::from_fn(|| old.next_if(is_before)));
            let is_equal =
                |&at: &usize| table.shared_at(at).is_some_and(|(one, path)| (path, one.stage) == key);
            match old.next_if(is_equal) {
                None => delta.added.push(new),
                Some(at) if two.flags.contains(Flags::UNSHARED) => {
                    delta.deleted.push(at);
                    delta.added.push(new);
                }
                Some(at) => {
                    let (one, _) = table.shared_at(at)?;
                    if one.content().stored() != two.content().stored() {
                        delta.replaced.push((at, new));
                    }
                }
            }
        }
        delta.deleted.extend(old);
        Some(delta)
    }

    /// Returns true if enough entries were added to require a new shared index: more than `percent`
    /// of all entries (`splitIndex.maxPercentChange`; 0 means always, 100 never).
    pub fn exceeds(&self, entries: usize, percent: u8) -> bool {
        match percent {
            0 => true,
            100.. => false,
            percent => (entries as u64) * u64::from(percent) < (self.added.len() as u64) * 100,
        }
    }

    /// Appends the payload of the link extension.
    pub(super) fn write(&self, base: ObjectId, out: &mut Vec<u8>) {
        out.extend_from_slice(base.as_bytes());
        ewah::write(out, self.deleted.iter().copied());
        ewah::write(out, self.replaced.iter().map(|(base, _)| *base));
    }
}
