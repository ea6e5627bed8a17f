//! The index ("dircache") as a value: entries sorted by path and stage, and its extensions.
//!
//! Format: Git's `gitformat-index(5)`. [`read`] and [`mod@write`] turn bytes into an [`Index`] and back;
//! [`edit`](Index::apply) changes one and keeps its extensions true; files and locks are `store`'s
//! business. Nothing in here touches a disk, and no input, however hostile, panics.

use std::{ffi::CStr, ops::Range};

use bstr::{BStr, BString};

use table::Table;

use crate::{HashKind, Mode, ObjectId};

mod bytes;
mod cache_tree;
mod edit;
mod entry;
mod ewah;
mod fsmonitor;
mod offsets;
pub mod read;
mod resolve_undo;
mod scan;
pub mod split;
mod summary;
mod table;
#[cfg(test)]
mod tests;
pub mod untracked;
pub mod write;

pub use cache_tree::CacheTree;
pub use fsmonitor::{Fsmonitor, MonitorAnswer};
pub use resolve_undo::ResolveUndo;
pub use summary::{IndexSummary, summarize};
pub use untracked::UntrackedCache;

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
        /// In memory: the file system monitor asked last vouched for the entry (stored in FSMN). Worth nothing
        /// to who has not asked it again since: see [`Index::is_fsmonitor_valid`].
        const FSMONITOR_VALID = 1 << 3;
        /// In memory: known to match the worktree (Git's `CE_UPTODATE`).
        const UPTODATE = 1 << 4;
        /// In memory: of a split index, an entry that came after the one of its path in the shared index had gone. As
        /// with Git it is stored beside that one's removal, however alike the two are.
        const UNSHARED = 1 << 5;
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

/// The version of the format an index is stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Plain entries.
    V2 = 2,
    /// As 2, with room for the extended flags. Chosen instead of 2 when an entry needs it, never kept
    /// when none does.
    V3 = 3,
    /// Paths share the prefix of their predecessor, entries are not padded.
    V4 = 4,
}

impl Version {
    /// The version of this number, if there is such a version.
    pub const fn from_number(number: u32) -> Option<Version> {
        match number {
            2 => Some(Version::V2),
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            _ => None,
        }
    }
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

impl Entry {
    /// The entry without its path, for putting it elsewhere.
    pub fn content(&self) -> NewEntry {
        let Entry { stat, oid, mode, flags, stage, path: _ } = *self;
        NewEntry { stat, oid, mode, flags, stage }
    }

    /// [`Index::has_mode_and_stat`]
    fn has_mode_and_stat(&self, mode: Mode, stat: &Stat) -> bool {
        let same = Stat { dev: self.stat.dev, ..*stat } == self.stat;
        same && self.mode == mode && self.stage == Stage::Normal && !entry::is_extended(self)
    }
}

/// Where a path lies in an index's path storage: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSpan {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// An extension kept as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawExtension {
    /// The four-byte signature.
    pub signature: [u8; 4],
    /// The payload.
    pub data: Vec<u8>,
}

/// Signature, version and number of entries.
const HEADER: usize = 12;

/// A whole index.
#[derive(Clone, Debug)]
pub struct Index {
    /// The version it was stored in; `None` for one that never was, whose version is then chosen by
    /// `index.version`.
    pub version: Option<Version>,
    /// The repository's hash.
    pub hash: HashKind,
    /// Modification time of the file this was read from (seconds, nanoseconds), for the racy rule;
    /// zero when there was none.
    pub timestamp: (u32, u32),
    /// The cache-tree (TREE), if present.
    pub cache_tree: Option<CacheTree>,
    /// What conflicts were before they were resolved (REUC).
    pub resolve_undo: Option<ResolveUndo>,
    /// The untracked cache (UNTR).
    pub untracked: Option<UntrackedCache>,
    /// The file system monitor's last word (FSMN); see [`Flags::FSMONITOR_VALID`].
    pub fsmonitor: Option<Fsmonitor>,
    /// Whether the index is sparse (sdir): whole directories may stand as one entry, a tree.
    pub sparse: bool,
    /// The name of the shared index this one was split from (link): `sharedindex.<name>`, the checksum of its content.
    pub base: Option<ObjectId>,
    /// Optional extensions sapwood does not know, kept byte for byte.
    pub unknown: Vec<RawExtension>,
    table: Table,
    /// As long as the entries are as they were read.
    overview: Option<Overview>,
}

/// What can be said of all entries of a file at once, so that those who look for a few need not go through all.
#[derive(Clone, Copy, Debug, Default)]
struct Overview {
    /// Those that any has.
    flags: Flags,
    /// Some are not merged, or stand for whole directories.
    unusual: bool,
    /// Some are submodules.
    gitlinks: bool,
    /// The latest modification time, seconds.
    newest: u32,
}

impl Overview {
    #[inline]
    fn add(&mut self, (flags, stage, mode): (Flags, Stage, Mode), modified: u32) {
        self.flags |= flags;
        self.unusual |= stage != Stage::Normal || mode.is_tree();
        self.gitlinks |= mode.is_gitlink();
        self.newest = self.newest.max(modified);
    }

    fn and(self, other: Overview) -> Overview {
        Overview {
            flags: self.flags | other.flags,
            unusual: self.unusual | other.unusual,
            gitlinks: self.gitlinks | other.gitlinks,
            newest: self.newest.max(other.newest),
        }
    }
}

impl Index {
    /// An index without entries.
    pub fn empty(hash: HashKind) -> Self {
        Index {
            version: None,
            hash,
            timestamp: (0, 0),
            cache_tree: None,
            resolve_undo: None,
            untracked: None,
            fsmonitor: None,
            sparse: false,
            base: None,
            unknown: Vec::new(),
            table: Table::empty(),
            overview: None,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at `position`.
    #[inline]
    pub fn entry(&self, position: usize) -> Entry {
        self.table.entry(position)
    }

    /// The mode of the entry at `position`.
    pub fn mode_at(&self, position: usize) -> Mode {
        self.table.mode(position)
    }

    /// Whether the entry at `position` is a merged one, marked at most as assumed to be unchanged, and of just this mode and these stat data, the device
    /// aside. That takes less than to look at all of it.
    #[inline]
    pub fn has_mode_and_stat(&self, position: usize, mode: Mode, stat: &Stat) -> bool {
        self.table.has_mode_and_stat(position, mode, stat)
    }

    /// The stage of the entry at `position`.
    #[inline]
    pub fn stage_at(&self, position: usize) -> Stage {
        self.table.stage(position)
    }

    /// The entries, sorted by path and stage. Of an index that is kept as it is stored ([`read::decode_stored`]) all are read at the first time: what
    /// looks at some of them only had better ask for each.
    pub fn entries(&self) -> &[Entry] {
        self.table.entries()
    }

    /// The entries of `range`, one after the other.
    pub fn entries_in(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Entry> + ExactSizeIterator<Item = Entry> {
        range.map(|at| self.entry(at))
    }

    /// The entries, for changes that keep their order (stat, flags, oid).
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        self.overview = None;
        self.table.entries_mut()
    }

    /// The path of one of this index's entries.
    #[inline]
    pub fn path(&self, entry: &Entry) -> &BStr {
        self.table.path(entry.path)
    }

    /// The path of the entry at `position`.
    #[inline]
    pub fn path_at(&self, position: usize) -> &BStr {
        self.table.path_at(position)
    }

    /// The length of the path of the directory that the entry at `position` is in, with a slash at its end; 0 for the root.
    #[inline]
    pub fn directory_at(&self, position: usize) -> usize {
        self.table.directory(position)
    }

    /// What follows the first `from` bytes of the path at `position`, as a string of C, if this index has it at hand as such.
    #[inline]
    pub fn c_path_at(&self, position: usize, from: usize) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.table.terminated(position, from)?).ok()
    }

    /// Makes room for entries to be pushed, with `path_bytes` of paths in all.
    pub fn reserve(&mut self, entries: usize, path_bytes: usize) {
        let (all, paths) = self.table.owned();
        all.reserve(entries);
        paths.reserve(path_bytes);
    }

    /// Where (path, stage) is, or where it would be inserted.
    pub fn position(&self, path: &BStr, stage: Stage) -> Result<usize, usize> {
        let is_before = |at| self.path_at(at).cmp(path).then_with(|| self.stage_at(at).cmp(&stage)).is_lt();
        let at = partition_point(0..self.len(), is_before);
        match at < self.len() && self.path_at(at) == path && self.stage_at(at) == stage {
            true => Ok(at),
            false => Err(at),
        }
    }

    /// The range of entries below directory `dir` (no trailing slash; empty for all). In a sparse
    /// index the entry of the directory itself, `dir/`, counts as below.
    pub fn range_below(&self, dir: &BStr) -> Range<usize> {
        if dir.is_empty() {
            return 0..self.len();
        }
        let start = partition_point(0..self.len(), |at| before_children(self.path_at(at), dir));
        start..partition_point(start..self.len(), |at| is_below(self.path_at(at), dir))
    }

    /// The first position of `within` whose path is not before `path`; its end if there is none.
    pub fn first_in(&self, within: Range<usize>, path: &BStr) -> usize {
        partition_point(within, |at| self.path_at(at) < path)
    }

    /// The entry of a sparse index that stands for a directory which `path` is in.
    pub fn sparse_directory_above(&self, path: &BStr) -> Option<usize> {
        let at = self.first_in(0..self.len(), path).checked_sub(1)?;
        let dir = self.path_at(at);
        (self.mode_at(at).is_tree() && dir.len() < path.len() && path.starts_with(dir)).then_some(at)
    }

    /// All entries of `path` whatever their stage.
    pub fn range_of(&self, path: &BStr) -> Range<usize> {
        let start = self.first_in(0..self.len(), path);
        start..self.end_of_path(start, path)
    }

    /// Where the entries of `path` end, which begin at `start` if there are any.
    fn end_of_path(&self, start: usize, path: &BStr) -> usize {
        (start..self.len()).find(|&at| self.path_at(at) != path).unwrap_or(self.len())
    }

    /// Whether any entry is unmerged.
    pub fn is_unmerged(&self) -> bool {
        self.overview.is_none_or(|all| all.unusual)
            && (0..self.len()).any(|at| self.stage_at(at) != Stage::Normal)
    }

    /// Whether Git calls `entry` racy: its file may have been changed after it was last compared, yet
    /// within the same tick of the clock as the index was written. Whole seconds count, because
    /// stock builds of Git compare no more, and they will trust what is written here.
    pub fn is_racy(&self, entry: &Entry) -> bool {
        self.timestamp.0 != 0 && !entry.mode.is_gitlink() && self.timestamp.0 <= entry.stat.mtime.0
    }

    /// Whether any entry is racy.
    pub fn has_racy(&self) -> bool {
        self.overview.is_none_or(|all| self.timestamp.0 <= all.newest)
            && (0..self.len()).any(|at| self.is_racy(&self.entry(at)))
    }

    /// Whether any entry has one of these flags, which are not those that are in memory only.
    pub fn has_any(&self, flags: Flags) -> bool {
        self.overview.is_none_or(|all| all.flags.intersects(flags))
            && (0..self.len()).any(|at| self.entry(at).flags.intersects(flags))
    }

    /// The positions of submodules.
    pub fn gitlinks(&self) -> impl Iterator<Item = usize> {
        let len = if self.overview.is_some_and(|all| !all.gitlinks) { 0 } else { self.len() };
        (0..len).filter(|&at| self.mode_at(at).is_gitlink())
    }

    /// The positions of files of this name, in whatever directory.
    pub fn files_named(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |&at| self.table.is_named(at, name))
    }

    /// Whether it is known that all entries are merged files, none of them marked as one that is not looked at. They may not be known.
    pub fn is_plain(&self) -> bool {
        let marks = Flags::SKIP_WORKTREE | Flags::ASSUME_VALID;
        self.overview.is_some_and(|all| !all.unusual && !all.flags.intersects(marks))
    }
}

/// The first of these positions of which `is_before` is false, if it is true of all before it.
fn partition_point(Range { mut start, mut end }: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if is_before(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

/// Whether `path` sorts before everything below directory `dir`.
fn before_children(path: &BStr, dir: &BStr) -> bool {
    let shared = path.len().min(dir.len());
    match path[..shared].cmp(&dir[..shared]) {
        std::cmp::Ordering::Equal => path.get(dir.len()).is_none_or(|&next| next < b'/'),
        unequal => unequal.is_lt(),
    }
}

fn is_below(path: &BStr, dir: &BStr) -> bool {
    path.len() > dir.len() && path[dir.len()] == b'/' && path.starts_with(dir)
}

/// What an entry is made of, without its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
