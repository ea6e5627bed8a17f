//! The index ("dircache") as a value: entries sorted by path and stage, and its extensions.
//!
//! Format: Git's `gitformat-index(5)`. Reading and writing bytes is in [`read`] and [`write`]; files
//! and locks are `store`'s business.

use bstr::{BStr, BString, ByteSlice};

use crate::{HashKind, Mode, ObjectId};

/// The stat fields an index entry keeps, each reduced to 32 bits as Git does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Change time: seconds, nanoseconds.
    pub ctime: (u32, u32),
    /// Modification time: seconds, nanoseconds.
    pub mtime: (u32, u32),
    /// Device number.
    pub dev: u32,
    /// Inode number.
    pub ino: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes, modulo 2^32. Zero in an entry of a non-empty file says "compare the content".
    pub size: u32,
}

bitflags::bitflags! {
    /// Flags of an entry, stage aside.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Flags: u16 {
        /// `update-index --assume-unchanged`; stored in the index.
        const ASSUME_VALID = 1;
        /// `add --intent-to-add`; stored, needs version 3.
        const INTENT_TO_ADD = 1 << 1;
        /// `update-index --skip-worktree` and sparse checkout; stored, needs version 3.
        const SKIP_WORKTREE = 1 << 2;
        /// In memory: fsmonitor vouches for the entry (stored in FSMN).
        const FSMONITOR_VALID = 1 << 3;
        /// In memory: known to match the worktree (Git's `CE_UPTODATE`).
        const UPTODATE = 1 << 4;
    }
}

/// Where an entry stands in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Merged.
    Normal = 0,
    /// Common ancestor.
    Base = 1,
    /// Ours.
    Ours = 2,
    /// Theirs.
    Theirs = 3,
}

/// One entry. Its path is in the [`Index`] it belongs to: [`Index::path`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// What the worktree file looked like when it was last known to match.
    pub stat: Stat,
    /// The blob (or commit for gitlinks, tree for sparse directories).
    pub oid: ObjectId,
    /// The mode.
    pub mode: Mode,
    /// Flags.
    pub flags: Flags,
    /// Merge stage.
    pub stage: Stage,
    pub(crate) path: PathSpan,
}

/// Where a path lies in an index's path storage: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSpan {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// The cache-tree (TREE extension): object names of directories whose index entries are known to
/// equal a tree object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTree {
    /// Name of the directory; empty for the root.
    pub name: BString,
    /// The tree's name and how many index entries it spans; `None` when invalidated.
    pub valid: Option<(ObjectId, u32)>,
    /// Subdirectories, in the order Git stores them (shorter names first, then bytewise).
    pub children: Vec<CacheTree>,
}

/// An extension kept as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawExtension {
    /// The four-byte signature.
    pub signature: [u8; 4],
    /// The payload.
    pub data: Vec<u8>,
}

/// A whole index.
#[derive(Clone, Debug)]
pub struct Index {
    /// On-disk version: 2, 3 or 4. Two and three are chosen when writing, by need.
    pub version: u32,
    /// The repository's hash.
    pub hash: HashKind,
    /// Modification time of the file this was read from (seconds, nanoseconds), for the racy rule;
    /// zero when there was none.
    pub timestamp: (u32, u32),
    /// The cache-tree, if present.
    pub cache_tree: Option<CacheTree>,
    entries: Vec<Entry>,
    paths: Vec<u8>,
}

impl Index {
    /// An index without entries.
    pub fn empty(hash: HashKind) -> Self {
        Index {
            version: 2,
            hash,
            timestamp: (0, 0),
            cache_tree: None,
            entries: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// The entries, sorted by path and stage.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries, for changes that keep their order (stat, flags, oid).
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// The path of one of this index's entries.
    pub fn path(&self, entry: &Entry) -> &BStr {
        self.paths[entry.path.start as usize..][..entry.path.len as usize].as_bstr()
    }

    /// Appends an entry at the end, for building in order. Panics in debug builds if out of order.
    pub fn push(&mut self, path: &BStr, entry: NewEntry) {
        let start = self.paths.len() as u32;
        self.paths.extend_from_slice(path);
        let NewEntry { stat, oid, mode, flags, stage } = entry;
        self.entries.push(Entry {
            stat,
            oid,
            mode,
            flags,
            stage,
            path: PathSpan { start, len: path.len() as u32 },
        });
    }

    /// Where (path, stage) is, or where it would be inserted.
    pub fn position(&self, path: &BStr, stage: Stage) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| self.path(entry).cmp(path).then(entry.stage.cmp(&stage)))
    }

    /// The range of entries strictly below directory `dir` (no trailing slash; empty for all).
    pub fn range_below(&self, _dir: &BStr) -> std::ops::Range<usize> {
        todo!("index")
    }

    /// All entries of `path` whatever their stage.
    pub fn range_of(&self, _path: &BStr) -> std::ops::Range<usize> {
        todo!("index")
    }

    /// Applies edits in one pass; `edits` must be sorted by path. Each edit replaces all stages of
    /// its path by the given entries (none = the path is removed). Invalidates the cache-tree
    /// along the edited paths, and every extension that speaks of entries is kept true.
    pub fn apply(&mut self, _edits: Vec<Edit>) {
        todo!("index")
    }
}

/// What an entry is made of, without its path.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    /// See [`Entry::stat`].
    pub stat: Stat,
    /// See [`Entry::oid`].
    pub oid: ObjectId,
    /// See [`Entry::mode`].
    pub mode: Mode,
    /// See [`Entry::flags`].
    pub flags: Flags,
    /// See [`Entry::stage`].
    pub stage: Stage,
}

/// A change of one path for [`Index::apply`].
#[derive(Clone, Debug)]
pub struct Edit {
    /// The path.
    pub path: BString,
    /// Its entries afterwards, sorted by stage; empty to remove the path.
    pub entries: Vec<NewEntry>,
}
