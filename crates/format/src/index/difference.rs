//! The small file of a split index, written without its shared file: the changes are given as
//! positions in the shared file.
//!
//! An index of a million entries that differs from a known one in ten is thus written without
//! decoding the million.

use std::convert::Infallible;

use bstr::BString;

use super::{
    Fsmonitor, Index, MonitorAnswer, RawExtension, Version,
    split::Delta,
    write::{self, Error, Options, Part},
};
use crate::ObjectId;

/// The changes to a shared index. The new and the replacing entries are in an [`Index`] that has no
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Positions in the shared index of deleted entries, in ascending order.
    pub deleted: Vec<usize>,
    /// Replaced entries, in ascending order.
    pub replaced: Vec<Replaced>,
    /// New entries, in ascending order.
    pub added: Vec<Added>,
}

/// An entry that replaces one of the shared index with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The position in the shared index.
    pub shared: usize,
    /// The position in the index of changed entries.
    pub changed: usize,
}

/// An entry whose path the shared index lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The position in the shared index of the first entry that comes after it.
    pub before: usize,
    /// The position in the index of changed entries.
    pub changed: usize,
}

impl Changes {
    /// Returns the position in the whole index of an entry of the shared index that is kept or
    /// replaced.
    fn position_of(&self, shared: usize) -> usize {
        let deleted = self.deleted.partition_point(|&at| at < shared);
        shared - deleted + self.added.partition_point(|added| added.before <= shared)
    }

    /// Returns the position in the whole index of a new entry.
    fn position_of_added(&self, number: usize) -> usize {
        let before = self.added[number].before;
        before - self.deleted.partition_point(|&at| at < before) + number
    }

    /// Returns the entries that the file system monitor does not vouch for: those of `unmonitored`,
    /// which are positions in the shared index, that are kept, and changed submodules.
    fn unmonitored(&self, index: &Index, unmonitored: &[usize]) -> Vec<usize> {
        let is_kept = |at: &&usize| {
            self.deleted.binary_search(at).is_err()
                && self.replaced.binary_search_by_key(at, |replaced| &replaced.shared).is_err()
        };
        let is_submodule = |changed: usize| index.mode_at(changed).is_gitlink();
        let kept = unmonitored.iter().filter(is_kept).map(|&at| self.position_of(at));
        let replaced = self.replaced.iter().filter(|replaced| is_submodule(replaced.changed));
        let replaced = replaced.map(|replaced| self.position_of(replaced.shared));
        let added = (0..self.added.len()).filter(|&number| is_submodule(self.added[number].changed));
        let added = added.map(|number| self.position_of_added(number));
        let mut all: Vec<usize> = kept.chain(replaced).chain(added).collect();
        all.sort_unstable();
        all
    }

    /// Writes the small file over the shared index `base`, trailer included. `index` has the
    /// changed entries and the extensions of the whole index. `token` is that of the file system
    /// monitor, which vouches for all entries except `unmonitored`, positions in the shared index,
    /// and submodules.
    pub fn to_vec(
        &self,
        index: &mut Index,
        base: ObjectId,
        token: BString,
        unmonitored: &[usize],
    ) -> Result<Vec<u8>, Error<Infallible>> {
        let mut data = Vec::new();
        let monitor = Fsmonitor { token, answer: MonitorAnswer::NotAsked };
        monitor.write_with(self.unmonitored(index, unmonitored), &mut data);
        index.fsmonitor = None;
        index.unknown.push(RawExtension { signature: *b"FSMN", data });
        let delta = Delta {
            deleted: self.deleted.clone(),
            replaced: self.replaced.iter().map(|replaced| (replaced.shared, replaced.changed)).collect(),
            added: self.added.iter().map(|added| added.changed).collect(),
        };
        let options = Options { version: Version::V2, end_of_entries: false, blocks: 0 };
        let written = write::to_vec(index, Part::Split { base, delta: &delta }, &options);
        index.unknown.pop();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        HashKind, Mode,
        index::{
            Flags, NewEntry, Stage, Stat,
            parts::Small,
            read::{Options as ReadOptions, checksum, decode},
        },
    };

    fn entry(mode: Mode, number: u8) -> NewEntry {
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes");
        NewEntry { stat: Stat::default(), oid, mode, flags: Flags::empty(), stage: Stage::Normal }
    }

    #[test]
    fn reads_back_as_the_changed_index() {
        let mut shared = Index::empty(HashKind::Sha1);
        for (path, mode) in [
            ("a", Mode::FILE),
            ("b", Mode::GITLINK),
            ("c/x", Mode::FILE),
            ("c/y", Mode::FILE),
            ("d", Mode::FILE),
            ("e", Mode::GITLINK),
            ("f", Mode::GITLINK),
        ] {
            shared.push(path.into(), entry(mode, 1));
        }
        let options = Options { version: Version::V2, end_of_entries: false, blocks: 0 };
        let shared = write::to_vec(&shared, Part::Shared, &options).expect("written");
        let base = checksum(&shared, HashKind::Sha1).expect("a trailer");
        let mut changed = Index::empty(HashKind::Sha1);
        for (path, mode) in [
            ("a0", Mode::GITLINK),
            ("c", Mode::FILE),
            ("d", Mode::GITLINK),
            ("e", Mode::FILE),
            ("g", Mode::FILE),
        ] {
            changed.push(path.into(), entry(mode, 2));
        }
        let changes = Changes {
            deleted: vec![2, 3],
            replaced: vec![Replaced { shared: 4, changed: 2 }, Replaced { shared: 5, changed: 3 }],
            added: vec![
                Added { before: 1, changed: 0 },
                Added { before: 2, changed: 1 },
                Added { before: 7, changed: 4 },
            ],
        };
        let small = changes.to_vec(&mut changed, base, "token".into(), &[1, 5, 6]).expect("written");
        let read = |bytes: &[u8]| decode(bytes, HashKind::Sha1, ReadOptions::new(1, true)).expect("read");
        let merged = read(&small).merge(read(&shared)).expect("merged");
        let found: Vec<_> = (0..merged.len())
            .map(|at| {
                let entry = merged.entry(at);
                let is_monitored = entry.flags.contains(Flags::FSMONITOR_VALID);
                (merged.path_at(at).to_string(), entry.mode, entry.oid.as_bytes()[0], is_monitored)
            })
            .collect();
        let expected = [
            ("a", Mode::FILE, 1, true),
            ("a0", Mode::GITLINK, 2, false),
            ("b", Mode::GITLINK, 1, false),
            ("c", Mode::FILE, 2, true),
            ("d", Mode::GITLINK, 2, false),
            ("e", Mode::FILE, 2, true),
            ("f", Mode::GITLINK, 1, false),
            ("g", Mode::FILE, 2, true),
        ];
        assert_eq!(
            found,
            expected.map(|(path, mode, oid, monitored)| (path.to_owned(), mode, oid, monitored))
        );
        let small = Small::parse(&small, HashKind::Sha1).expect("entries are passed over");
        assert_eq!(small.unmonitored(8), Some(vec![1, 2, 4, 6]));
    }
}
