//! Differences as in Git's diff commands: pairs of the two sides of a path.
//!
//! [`tree()`] compares a tree with the index or the worktree. [`crate::status`] compares the index
//! with the worktree, and [`unstaged()`] converts its result to that of Git's plumbing. [`renames`]
//! finds renames and copies, and [`rewrites`] finds rewritten files. [`trees()`] compares two
//! trees.

mod collapse;
mod lines;
mod overlay;
pub mod pickaxe;
pub mod renames;
pub mod rewrites;
pub mod stat;
mod tree;
mod trees;
mod unchanged;
mod unstaged;

pub use crate::look::submodules::SubmoduleChanges;
use bstr::BString;
pub use collapse::{Collapsed, Depth};
use format::{Mode, ObjectId, index::Index};
pub use overlay::overlay;
use sys::Dir;
pub use tree::{Against, Differences, IntentToAdd, Missing, Scope, SubmoduleIgnore, staged, tree};
pub use trees::trees;
pub use unchanged::{Unchanged, with_unchanged};
pub use unstaged::unstaged;

/// The kind of difference between the two sides of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Status {
    Added,
    Copied,
    Deleted,
    Modified,
    Renamed,
    TypeChanged,
    Unmerged,
    /// Equal sides, which was found only by hashing. Git reports such a pair without a difference.
    Unknown,
}

impl Status {
    /// The letter that Git prints for the status.
    pub fn letter(self) -> u8 {
        match self {
            Status::Added => b'A',
            Status::Copied => b'C',
            Status::Deleted => b'D',
            Status::Modified => b'M',
            Status::Renamed => b'R',
            Status::TypeChanged => b'T',
            Status::Unmerged => b'U',
            Status::Unknown => b'X',
        }
    }
}

/// One side of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The mode. For a worktree file, the mode that it would have in the index.
    pub mode: Mode,
    /// The object. `None` for a worktree file that was not hashed. Git prints zeros for it.
    pub oid: Option<ObjectId>,
}

/// The worktree, which holds the files of sides without an object name.
#[derive(Clone, Copy, Debug)]
pub struct WorktreeFiles<'a> {
    /// The root of the worktree.
    pub root: &'a Dir,
    /// The index whose attributes apply where the worktree has none.
    pub index: &'a Index,
}

/// A path that differs, or the two paths of a rename or copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The kind of difference.
    pub status: Status,
    /// For a rename or copy: the similarity of the sides. For a rewrite: the removed part of the
    /// old side. The unit is 1/[`MAX_SCORE`].
    pub score: u32,
    /// True for one half of a pair that was split ([`rewrites`]).
    pub is_half: bool,
    /// The old path of a rename or copy.
    pub source: Option<BString>,
    /// The path relative to the root of the worktree.
    pub path: BString,
    /// The old side, if it exists. `None` for an unmerged path, except in a comparison of a tree
    /// with the index.
    pub old: Option<Side>,
    /// The new side, if it exists. For an unmerged path: the worktree file, if it was compared.
    pub new: Option<Side>,
    /// The changes of a submodule in the worktree.
    pub submodule_changes: SubmoduleChanges,
}

/// The score of two equal sides. Git prints scores as percentages.
pub const MAX_SCORE: u32 = 60_000;

impl Pair {
    /// Swaps the sides (`-R`) of a pair that is neither a rename nor a copy. An unmerged pair is
    /// unchanged.
    pub fn reversed(self) -> Pair {
        match self.status {
            Status::Unmerged => self,
            _ => {
                Pair { submodule_changes: self.submodule_changes, ..Pair::new(self.path, self.new, self.old) }
            }
        }
    }

    /// Creates a pair that is neither a rename nor a copy. At least one side exists. A symbolic
    /// link and a file differ in type.
    pub fn new(path: BString, old: Option<Side>, new: Option<Side>) -> Pair {
        let status = match (&old, &new) {
            (None, _) => Status::Added,
            (_, None) => Status::Deleted,
            (Some(old), Some(new)) if same_type(old.mode, new.mode) => Status::Modified,
            _ => Status::TypeChanged,
        };
        Pair {
            status,
            score: 0,
            is_half: false,
            source: None,
            path,
            old,
            new,
            submodule_changes: SubmoduleChanges::default(),
        }
    }

    /// Returns true if the sides are known to be equal.
    pub fn is_unchanged(&self) -> bool {
        let is_named = self.old.is_some_and(|side| side.oid.is_some());
        let has_status = matches!(self.status, Status::Modified | Status::Unknown);
        has_status
            && is_named
            && self.old == self.new
            && self.submodule_changes == SubmoduleChanges::default()
    }

    /// Creates the pair of an unmerged path.
    pub fn unmerged(path: BString, new: Option<Side>) -> Pair {
        let (status, submodule_changes) = (Status::Unmerged, SubmoduleChanges::default());
        Pair { status, score: 0, is_half: false, source: None, path, old: None, new, submodule_changes }
    }
}

/// Returns true if the type bits are equal.
pub fn same_type(one: Mode, other: Mode) -> bool {
    one.bits() & 0o170000 == other.bits() & 0o170000
}
