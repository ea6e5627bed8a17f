//! The index ("dircache") as a value: entries sorted by path and stage, and its extensions.
//!
//! Format: Git's `gitformat-index(5)`. [`read`] and [`mod@write`] convert between bytes and an
//! [`Index`]. [`Index::apply`] changes an index and keeps its extensions valid. The crate `store`
//! handles files and locks. This module does no I/O, and no input makes it panic.

use std::{ffi::CStr, ops::Range};

use bstr::{BStr, BString};

use table::Table;

use crate::{HashKind, Mode, ObjectId};

mod bytes;
#[cfg(test)]
mod cache_tests;
mod cache_tree;
pub mod difference;
mod edit;
mod entry;
mod ewah;
mod fsmonitor;
mod marks;
mod offsets;
pub mod parts;
pub mod places;
pub mod read;
mod resolve_undo;
mod scan;
pub mod split;
#[cfg(test)]
mod stored_tests;
mod summary;
mod table;
#[cfg(test)]
mod tests;
pub mod untracked;
pub mod write;

pub use cache_tree::CacheTree;
pub use fsmonitor::{Fsmonitor, MonitorAnswer};
pub use resolve_undo::ResolveUndo;
pub use summary::{IndexSummary, cached_tree, has_entry_below, summarize};
pub use untracked::UntrackedCache;

/// The stat fields of an index entry, each reduced to 32 bits as in Git.
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
    /// Size in bytes, modulo 2^32. Zero for a non-empty file means that its content must be
    /// compared.
    pub size: u32,
}

bitflags::bitflags! {
    /// Flags of an entry, without the stage.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Flags: u16 {
        /// `update-index --assume-unchanged`; stored in the index.
        const ASSUME_VALID = 1;
        /// `add --intent-to-add`; stored, needs version 3.
        const INTENT_TO_ADD = 1 << 1;
        /// `update-index --skip-worktree` and sparse checkout; stored, needs version 3.
        const SKIP_WORKTREE = 1 << 2;
        /// In memory: the file system monitor reported the file as unchanged when it was last
        /// queried (stored in FSMN). The flag is valid only after a new query; see
        /// [`Index::is_fsmonitor_valid`].
        const FSMONITOR_VALID = 1 << 3;
        /// In memory: the entry is known to match the worktree (Git's `CE_UPTODATE`).
        const UPTODATE = 1 << 4;
        /// In memory: in a split index, an entry that was added after the entry of its path was
        /// deleted from the shared index. Like Git, [`mod@write`] stores the addition and the
        /// deletion, even if both entries are equal.
        const UNSHARED = 1 << 5;
    }
}

/// The stage of an entry in a merge.
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

/// The format version of a stored index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Plain entries.
    V2 = 2,
    /// Like 2, with extended flags. The writer uses it instead of 2 only if an entry needs extended
    /// flags.
    V3 = 3,
    /// Paths share a prefix with their predecessor, and entries are not padded.
    V4 = 4,
}

impl Version {
    /// Returns the version with this number; `None` for an unknown number.
    pub const fn from_number(number: u32) -> Option<Version> {
        match number {
            2 => Some(Version::V2),
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            _ => None,
        }
    }
}

/// One entry. The [`Index`] holds its path: [`Index::path`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The stat fields of the worktree file when it was last known to match.
    pub stat: Stat,
    /// The blob, or a commit for a gitlink, or a tree for a sparse directory.
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
    /// Returns the entry without its path, to be stored at another path.
    pub fn content(&self) -> NewEntry {
        let Entry { stat, oid, mode, flags, stage, path: _ } = *self;
        NewEntry { stat, oid, mode, flags, stage }
    }

    /// See [`Index::has_mode_and_stat`].
    fn has_mode_and_stat(&self, mode: Mode, stat: &Stat) -> bool {
        let same = Stat { dev: self.stat.dev, ..*stat } == self.stat;
        same && self.mode == mode && self.stage == Stage::Normal && !entry::is_extended(self)
    }
}

/// The location of a path in an index's path storage: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSpan {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// An extension that is kept as raw bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawExtension {
    /// The four-byte signature.
    pub signature: [u8; 4],
    /// The payload.
    pub data: Vec<u8>,
}

/// The length of the header in bytes: signature, version and number of entries.
const HEADER: usize = 12;

/// A whole index.
#[derive(Clone, Debug)]
pub struct Index {
    /// The version in which it was stored. `None` for an index that was never stored; the setting
    /// `index.version` then selects the version.
    pub version: Option<Version>,
    /// The repository's hash.
    pub hash: HashKind,
    /// The modification time of the file that it was read from (seconds, nanoseconds), which
    /// determines the racy entries. Zero if there was no file.
    pub timestamp: (u32, u32),
    /// The cache-tree (TREE), if present.
    pub cache_tree: Option<CacheTree>,
    /// The stages of resolved conflicts (REUC).
    pub resolve_undo: Option<ResolveUndo>,
    /// The untracked cache (UNTR).
    pub untracked: Option<UntrackedCache>,
    /// The last response of the file system monitor (FSMN); see [`Flags::FSMONITOR_VALID`].
    pub fsmonitor: Option<Fsmonitor>,
    /// True for a sparse index (sdir), in which a tree entry may stand for a whole directory.
    pub sparse: bool,
    /// The name of the shared index that this one is split from (link): the file is
    /// `sharedindex.<name>`, and the name is the checksum of its content.
    pub base: Option<ObjectId>,
    /// Optional extensions that sapwood does not support, kept byte for byte.
    pub unknown: Vec<RawExtension>,
    table: Table,
    /// Present until all entries are lent for changes.
    overview: Option<Overview>,
}

/// A summary of all entries of a file, and of those that replaced some of them. It avoids a pass
/// over the entries in searches that would find nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Overview {
    /// The union of all entries' flags.
    flags: Flags,
    /// True if some entry is unmerged or stands for a directory.
    unusual: bool,
    /// True if some entry is a submodule.
    gitlinks: bool,
    /// The latest modification time, seconds.
    newest: u32,
}

impl Overview {
    #[inline]
    fn add(&mut self, flags: Flags, stage: Stage, mode: Mode, modified: u32) {
        self.flags |= flags;
        self.unusual |= stage != Stage::Normal || mode.is_tree();
        self.gitlinks |= mode.is_gitlink();
        self.newest = self.newest.max(modified);
    }

    fn join(self, other: Overview) -> Overview {
        Overview {
            flags: self.flags | other.flags,
            unusual: self.unusual | other.unusual,
            gitlinks: self.gitlinks | other.gitlinks,
            newest: self.newest.max(other.newest),
        }
    }
}

impl Index {
    /// Creates an index without entries.
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

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry at `position`.
    #[inline]
    pub fn entry(&self, position: usize) -> Entry {
        self.table.entry(position)
    }

    /// Returns the mode of the entry at `position`.
    pub fn mode_at(&self, position: usize) -> Mode {
        self.table.mode(position)
    }

    /// Returns true if the entry at `position` is merged, has no flag but assume-valid, and has
    /// this mode and these stat fields (other than the device). This is cheaper than decoding the
    /// whole entry.
    #[inline]
    pub fn has_mode_and_stat(&self, position: usize, mode: Mode, stat: &Stat) -> bool {
        self.table.has_mode_and_stat(position, mode, stat)
    }

    /// Returns the stage of the entry at `position`.
    #[inline]
    pub fn stage_at(&self, position: usize) -> Stage {
        self.table.stage(position)
    }

    /// Returns the entries, sorted by path and stage. If the index is kept as stored
    /// ([`read::decode_stored`]), the first call decodes all entries. For a few entries,
    /// [`Index::entry`] and [`Index::update`] are cheaper.
    pub fn entries(&self) -> &[Entry] {
        self.table.entries()
    }

    /// Iterates over the entries of `range`.
    pub fn entries_in(
        &self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Entry> + ExactSizeIterator<Item = Entry> {
        range.map(|at| self.entry(at))
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Entry> + ExactSizeIterator<Item = Entry> {
        self.entries_in(0..self.len())
    }

    /// Returns the entries for changes that keep their order (stat, flags, oid). If the index is
    /// kept as stored, the first call decodes all entries.
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        self.overview = None;
        self.table.entries_mut()
    }

    /// Returns the path of one of this index's entries.
    #[inline]
    pub fn path(&self, entry: &Entry) -> &BStr {
        self.table.path(entry.path)
    }

    /// Returns the path of the entry at `position`.
    #[inline]
    pub fn path_at(&self, position: usize) -> &BStr {
        self.table.path_at(position)
    }

    /// Returns true if the entry before the one at `position` is known to be in the same directory.
    #[inline]
    pub fn follows_sibling(&self, position: usize) -> bool {
        self.table.follows_sibling(position)
    }

    /// Returns the length of the directory part of the path at `position`, trailing slash included;
    /// 0 in the root.
    #[inline]
    pub fn directory_at(&self, position: usize) -> usize {
        self.table.directory(position)
    }

    /// Returns the path at `position` from byte `from` on as a C string, if the index stores it
    /// with a NUL.
    #[inline]
    pub fn c_path_at(&self, position: usize, from: usize) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.table.terminated(position, from)?).ok()
    }

    /// Reserves room for entries to be pushed, and for `path_bytes` bytes of paths in all.
    pub fn reserve(&mut self, entries: usize, path_bytes: usize) {
        let (all, paths) = self.table.owned();
        all.reserve(entries);
        paths.reserve(path_bytes);
    }

    /// Returns the position of (path, stage), or the position where it would be inserted.
    pub fn position(&self, path: &BStr, stage: Stage) -> Result<usize, usize> {
        let is_before = |at| self.path_at(at).cmp(path).then_with(|| self.stage_at(at).cmp(&stage)).is_lt();
        let at = partition_point(0..self.len(), is_before);
        if at < self.len() && self.path_at(at) == path && self.stage_at(at) == stage {
            Ok(at)
        } else {
            Err(at)
        }
    }

    /// Returns the range of entries below directory `dir` (without trailing slash; empty for all).
    /// In a sparse index, the entry of the directory itself, `dir/`, counts as below.
    pub fn range_below(&self, dir: &BStr) -> Range<usize> {
        if dir.is_empty() {
            return 0..self.len();
        }
        let start = partition_point(0..self.len(), |at| before_children(self.path_at(at), dir));
        start..partition_point(start..self.len(), |at| is_below(self.path_at(at), dir))
    }

    /// Returns the first position in `within` whose path is not before `path`, or the end of
    /// `within`.
    pub fn first_in(&self, within: Range<usize>, path: &BStr) -> usize {
        partition_point(within, |at| self.path_at(at) < path)
    }

    /// Returns the sparse directory entry that stands for a directory containing `path`.
    pub fn sparse_directory_above(&self, path: &BStr) -> Option<usize> {
        let at = self.first_in(0..self.len(), path).checked_sub(1)?;
        let dir = self.path_at(at);
        (self.mode_at(at).is_tree() && dir.len() < path.len() && path.starts_with(dir)).then_some(at)
    }

    /// Returns the range of all entries of `path`, of any stage.
    pub fn range_of(&self, path: &BStr) -> Range<usize> {
        let start = self.first_in(0..self.len(), path);
        start..self.end_of_path(start, path)
    }

    /// Returns the end of the entries of `path`, which begin at `start` if there are any.
    fn end_of_path(&self, start: usize, path: &BStr) -> usize {
        (start..self.len()).find(|&at| self.path_at(at) != path).unwrap_or(self.len())
    }

    /// Returns true if any entry is unmerged.
    pub fn is_unmerged(&self) -> bool {
        self.unmerged().next().is_some()
    }

    /// Iterates over the positions of unmerged entries.
    pub fn unmerged(&self) -> impl Iterator<Item = usize> {
        let len = if self.overview.is_some_and(|all| !all.unusual) { 0 } else { self.len() };
        (0..len).filter(|&at| self.stage_at(at) != Stage::Normal)
    }

    /// Returns true if `entry` is racy in Git's sense: its file may have changed after the last
    /// comparison, but within the same clock tick in which the index was written. Compares whole
    /// seconds only, because stock builds of Git do and will trust the index written here.
    pub fn is_racy(&self, entry: &Entry) -> bool {
        self.timestamp.0 != 0 && !entry.mode.is_gitlink() && self.timestamp.0 <= entry.stat.mtime.0
    }

    /// Returns true if any entry is racy.
    pub fn has_racy(&self) -> bool {
        self.racy().next().is_some()
    }

    /// Iterates over the positions of racy entries.
    pub fn racy(&self) -> impl Iterator<Item = usize> {
        let len = if self.overview.is_some_and(|all| all.newest < self.timestamp.0) { 0 } else { self.len() };
        let may_be_racy = move |&at: &usize| self.table.may_be_modified_since(at, self.timestamp.0);
        (0..len).filter(may_be_racy).filter(|&at| self.is_racy(&self.entry(at)))
    }

    /// Returns true if any entry has one of these flags. Only for flags that are stored.
    pub fn has_any(&self, flags: Flags) -> bool {
        self.may_have(flags) && (0..self.len()).any(|at| self.entry(at).flags.intersects(flags))
    }

    /// Returns false only if it is known, without a pass over the entries, that none of them has
    /// one of these flags. Only for flags that are stored.
    pub fn may_have(&self, flags: Flags) -> bool {
        self.overview.is_none_or(|all| all.flags.intersects(flags))
    }

    /// Iterates over the positions of submodules.
    pub fn gitlinks(&self) -> impl Iterator<Item = usize> {
        let len = if self.overview.is_some_and(|all| !all.gitlinks) { 0 } else { self.len() };
        (0..len).filter(|&at| self.mode_at(at).is_gitlink())
    }

    /// Iterates over the positions of files with this name, in any directory.
    pub fn files_named(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |&at| self.table.is_named(at, name))
    }

    /// Returns true if all entries are known to be merged files without the skip-worktree and
    /// assume-valid flags. Returns false also if this is unknown.
    pub fn is_plain(&self) -> bool {
        let marks = Flags::SKIP_WORKTREE | Flags::ASSUME_VALID;
        self.overview.is_some_and(|all| !all.unusual && !all.flags.intersects(marks))
    }
}

/// Returns the first position for which `is_before` is false. `is_before` must be true for all
/// earlier positions and false for all later ones.
fn partition_point(Range { mut start, mut end }: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if is_before(middle) { start = middle + 1 } else { end = middle }
    }
    start
}

/// Returns true if `path` sorts before all paths below directory `dir`.
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

/// An entry without its path.
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

impl NewEntry {
    /// Returns the entry at a path.
    fn at(&self, path: PathSpan) -> Entry {
        let &NewEntry { stat, oid, mode, flags, stage } = self;
        Entry { stat, oid, mode, flags, stage, path }
    }

    /// Returns the parts that are stored.
    fn stored(mut self) -> NewEntry {
        self.flags &= Flags::ASSUME_VALID | Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE;
        self
    }
}

/// A change of one path for [`Index::apply`].
#[derive(Clone, Debug)]
pub struct Edit {
    /// The path.
    pub path: BString,
    /// Its new entries, sorted by stage. Empty to remove the path.
    pub entries: Vec<NewEntry>,
}
