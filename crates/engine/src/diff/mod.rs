//! Differences as Git's diff commands have them: pairs of what is at a path on one side and on the other.
//!
//! [`tree()`] compares a tree with the index or the worktree; [`crate::status`] the index with the worktree, which [`unstaged()`] makes
//! into what Git's plumbing shows. [`renames`] finds what was moved, [`rewrites`] what was written anew.

mod collapse;
mod lines;
mod overlay;
pub mod pickaxe;
pub mod renames;
pub mod rewrites;
mod tree;
mod unchanged;
mod unstaged;

pub use crate::look::submodules::Dirt;
use bstr::BString;
pub use collapse::{Collapsed, Depth};
use format::{Mode, ObjectId};
pub use overlay::overlay;
pub use tree::{Against, Counts, Differences, Intended, Missing, Scope, staged, tree};
pub use unchanged::{Unchanged, with_unchanged};
pub use unstaged::unstaged;

/// How the two sides of a pair differ.
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
    /// Nothing differs, as was found out late. Git says so, and shows nothing of it.
    Unknown,
}

impl Status {
    /// The letter Git prints for it.
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

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its mode; of a file in the worktree the one it would have in the index.
    pub mode: Mode,
    /// `None` for what is in the worktree and was not hashed: Git prints zeros.
    pub oid: Option<ObjectId>,
}

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// How.
    pub status: Status,
    /// Of a rename or copy: how alike the sides are; of a rewrite: how much of the old side is gone; of [`MAX_SCORE`].
    pub score: u32,
    /// It is one side of a pair that was split ([`rewrites`]).
    pub is_half: bool,
    /// Of a rename or copy: where the old side was.
    pub source: Option<BString>,
    /// From the root of the worktree.
    pub path: BString,
    /// What was there, if anything. Nothing if unmerged, but where a tree is compared with the index.
    pub old: Option<Side>,
    /// What is there now, if anything. Of an unmerged path: what is in the worktree, if that was compared.
    pub new: Option<Side>,
    /// Of a submodule in the worktree.
    pub dirt: Dirt,
}

/// The score of two sides that are the same. Git prints it as a percentage.
pub const MAX_SCORE: u32 = 60_000;

impl Pair {
    /// The same the other way round (`-R`), for what is neither a rename nor a copy. What is unmerged stays.
    pub fn reversed(self) -> Pair {
        match self.status {
            Status::Unmerged => self,
            _ => Pair { dirt: self.dirt, ..Pair::new(self.path, self.new, self.old) },
        }
    }

    /// A pair that is neither a rename nor a copy; one side at least is there. A symbolic link and a file are of different types.
    pub fn new(path: BString, old: Option<Side>, new: Option<Side>) -> Pair {
        let status = match (&old, &new) {
            (None, _) => Status::Added,
            (_, None) => Status::Deleted,
            (Some(old), Some(new)) if same_type(old.mode, new.mode) => Status::Modified,
            _ => Status::TypeChanged,
        };
        Pair { status, score: 0, is_half: false, source: None, path, old, new, dirt: Dirt::default() }
    }

    /// Whether the sides are known to be the same.
    pub fn is_unchanged(&self) -> bool {
        let is_named = self.old.is_some_and(|side| side.oid.is_some());
        let has_status = matches!(self.status, Status::Modified | Status::Unknown);
        has_status && is_named && self.old == self.new && self.dirt == Dirt::default()
    }

    /// An unmerged path.
    pub fn unmerged(path: BString, new: Option<Side>) -> Pair {
        let (status, dirt) = (Status::Unmerged, Dirt::default());
        Pair { status, score: 0, is_half: false, source: None, path, old: None, new, dirt }
    }
}

/// Whether the type bits are equal.
pub fn same_type(one: Mode, other: Mode) -> bool {
    one.bits() & 0o170000 == other.bits() & 0o170000
}
