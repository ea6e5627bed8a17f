//! A split index: a small file with what changed, and a shared one with all the rest.
//!
//! The link extension names the shared index and holds two bitmaps over its entries: those deleted,
//! and those replaced. A replacing entry has no name on disk; replacing entries come first, in the
//! order of what they replace, and added ones after them.

use std::sync::Arc;

use bstr::ByteSlice;

use super::{
    Entry, Flags, Index, Stage,
    bytes::Reader,
    entry::disorder,
    ewah::{self, Bitmap},
    read::{Decoded, Error},
};
use crate::{HashKind, ObjectId};

/// A shared index, and the name its file goes by: `sharedindex.<oid>`, the checksum of its content.
#[derive(Clone, Debug)]
pub struct Base {
    /// Its name.
    pub oid: ObjectId,
    /// Its entries.
    pub index: Index,
}

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

impl Decoded {
    /// Puts the two halves of a split index together; `base` is the file [`Decoded::base`] names.
    pub fn merge(mut self, base: Decoded) -> Result<Index, Error> {
        let oid = base.checksum();
        let base = base.finish()?;
        let (changes, names) = self.index.table.owned();
        let (changes, names) = (std::mem::take(changes), std::mem::take(names));
        let mut table = base.table.clone();
        let (entries, _) = table.owned();
        let (mut deleted, mut replaced) = (Vec::new(), Vec::new());
        if let Some((delete, replace)) = self.link.as_ref().and_then(|link| link.bitmaps.as_ref()) {
            let size = entries.len();
            let out = |what| move |position| Error::LinkPosition { what, position, size };
            replace.for_each(size, |position| replaced.push(position)).map_err(out("replacement"))?;
            delete.for_each(size, |position| deleted.push(position)).map_err(out("delete"))?;
        }
        if replaced.len() > changes.len() {
            return Err(Error::TooManyReplacements { wanted: changes.len() + 1, present: changes.len() });
        }
        let (replacing, added) = changes.split_at(replaced.len());
        for (&position, new) in replaced.iter().zip(replacing) {
            if new.path.len != 0 {
                return Err(Error::LinkName { position, what: "zero length" });
            }
            entries[position] = Entry { path: entries[position].path, ..*new };
        }
        // Deleting is done last to first place by one pass; both lists ascend.
        if let Some(both) = deleted.iter().find(|position| replaced.binary_search(position).is_ok()) {
            return Err(Error::ReplacedAndDeleted(*both));
        }
        let mut gone = deleted.into_iter().peekable();
        let mut position = 0;
        entries.retain(|_| {
            position += 1;
            gone.next_if_eq(&(position - 1)).is_none()
        });
        self.index.table = table;
        self.index.overview = None;
        for (at, new) in added.iter().enumerate() {
            if new.path.len == 0 {
                return Err(Error::LinkName { position: replaced.len() + at, what: "non-zero length" });
            }
        }
        self.index.merge_added(added, &names)?;
        self.index.base = Some(Arc::new(Base { oid, index: base }));
        self.link = None;
        self.disorder = None;
        self.finish()
    }
}

impl Index {
    /// Inserts entries whose paths are in `names`, each in the place of one of the same path and stage.
    /// A merged entry takes the place of all stages.
    fn merge_added(&mut self, added: &[Entry], names: &[u8]) -> Result<(), Error> {
        let name = |entry: &Entry| names[entry.path.start as usize..][..entry.path.len as usize].as_bstr();
        let (old, paths) = self.table.owned();
        if u32::try_from(paths.len() + names.len()).is_err() {
            return Err(Error::Truncated { offset: 0 });
        }
        let mut added: Vec<Entry> = added.to_vec();
        added.sort_by(|one, two| name(one).cmp(name(two)).then(one.stage.cmp(&two.stage)));
        let old = std::mem::take(old);
        let mut merged: Vec<Entry> = Vec::with_capacity(old.len() + added.len());
        let mut old = old.into_iter().peekable();
        let base = paths.len() as u32;
        paths.extend_from_slice(names);
        for mut new in added {
            new.path.start += base;
            new.flags.insert(Flags::UNSHARED);
            while let Some(before) = old.next_if(|entry| {
                self.path(entry).cmp(self.path(&new)).then(entry.stage.cmp(&new.stage)).is_lt()
            }) {
                merged.push(before);
            }
            while old
                .next_if(|entry| {
                    self.path(entry) == self.path(&new)
                        && (new.stage == Stage::Normal || entry.stage == new.stage)
                })
                .is_some()
            {}
            merged.push(new);
        }
        merged.extend(old);
        let neighbours = merged.windows(2);
        for pair in neighbours {
            let of = |entry: &Entry| (self.path(entry).to_owned(), entry.stage);
            if self.path(&pair[0]) < self.path(&pair[1]) {
                continue;
            }
            let (one, two) = (of(&pair[0]), of(&pair[1]));
            if let Some(error) = disorder((one.0.as_bstr(), one.1), (two.0.as_bstr(), two.1)) {
                return Err(error);
            }
        }
        *self.table.owned().0 = merged;
        self.overview = None;
        Ok(())
    }
}

/// How an index differs from the shared one it is to be split from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Positions in the base of entries the index does not have.
    pub deleted: Vec<usize>,
    /// Positions in base and index of entries that differ in anything but path and stage.
    pub replaced: Vec<(usize, usize)>,
    /// Positions in the index of entries the base does not have.
    pub added: Vec<usize>,
}

impl Delta {
    /// Compares.
    pub fn between(base: &Index, index: &Index) -> Delta {
        let mut delta = Delta::default();
        let (mut old, mut new) = (0, 0);
        loop {
            match (base.entries().get(old), index.entries().get(new)) {
                (None, None) => return delta,
                (Some(_), None) => {
                    delta.deleted.push(old);
                    old += 1;
                }
                (None, Some(_)) => {
                    delta.added.push(new);
                    new += 1;
                }
                (Some(one), Some(two)) => {
                    match base.path(one).cmp(index.path(two)).then(one.stage.cmp(&two.stage)) {
                        std::cmp::Ordering::Less => {
                            delta.deleted.push(old);
                            old += 1;
                        }
                        std::cmp::Ordering::Greater => {
                            delta.added.push(new);
                            new += 1;
                        }
                        std::cmp::Ordering::Equal => {
                            if two.flags.contains(Flags::UNSHARED) {
                                delta.deleted.push(old);
                                delta.added.push(new);
                            } else if stored(one) != stored(two) {
                                delta.replaced.push((old, new));
                            }
                            old += 1;
                            new += 1;
                        }
                    }
                }
            }
        }
    }

    /// Whether so much was added that a new shared index is due: more than `percent` of all entries
    /// (`splitIndex.maxPercentChange`; 0 always, 100 never).
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

/// What of an entry is stored.
fn stored(entry: &Entry) -> super::NewEntry {
    let mut content = entry.content();
    content.flags &= Flags::ASSUME_VALID | Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE;
    content
}
