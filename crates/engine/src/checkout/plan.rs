//! Deciding: every step of a checkout, and every refusal, before anything is touched.

use bstr::BString;
use format::{ObjectId, index::Index};

/// Which trees are merged with the index, in Git's unpack-trees terms.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Merge {
    /// `reset --hard`, `checkout -f`, `clone`, `reset --merge`: the index becomes `target`.
    OneWay { target: ObjectId },
    /// `switch`, `reset --keep`: carry local changes over from `head` to `target`.
    /// `head: None`: from nothing (unborn branch).
    TwoWay { head: Option<ObjectId>, target: ObjectId },
    /// `read-tree -m base ours theirs` (one or more bases).
    ThreeWay { bases: Vec<ObjectId>, ours: ObjectId, theirs: ObjectId },
}

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Refuse wherever Git refuses.
    No,
    /// `reset --mixed`: the index is reset, untracked files in the way are kept.
    ProtectUntracked,
    /// `reset --hard`, `checkout -f`: local changes and untracked files in the way go.
    OverwriteUntracked,
}

/// Options of planning.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PlanOptions {
    pub merge: Merge,
    pub force: Force,
    /// Change the worktree too (`-u`), or the index only.
    pub update_worktree: bool,
    /// Ignored files in the way may be overwritten (Git's default for switch; `--no-overwrite-ignore`).
    pub overwrite_ignored: bool,
    /// Git's name of the operation for the texts of refusals: `checkout`, `merge`, `reset`.
    pub operation: &'static str,
}

/// What must still be true of a path when `execute` comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Premise {
    /// Nothing is there.
    Absent,
    /// The file or link seen when planning; compared once more before it is unlinked.
    Unchanged(sys::Stat),
    /// Whatever is there may go (force, ignored): files and links; and for `Force::OverwriteUntracked`,
    /// directories with all they hold.
    Anything,
    /// A directory that is to become a submodule or already is one.
    Directory,
}

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Position in `Plan::index.entries()`.
    pub entry: usize,
    /// See [`Premise`].
    pub premise: Premise,
}

/// A path to be removed. Directories it leaves empty go too (never the worktree's root).
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Removal {
    pub path: BString,
    pub premise: Premise,
    /// A submodule: only an empty directory is removed.
    pub gitlink: bool,
}

/// Everything that will be done, decided.
#[derive(Debug)]
pub struct Plan {
    /// The index as it will be. Entries to be written carry a zero stat until then.
    pub index: Index,
    /// In index order.
    pub writes: Vec<Write>,
    /// In index order (executed in reverse).
    pub removals: Vec<Removal>,
    /// Warnings Git prints without refusing, e.g. sparse paths left in place.
    pub warnings: Vec<String>,
}

/// Why planning stopped. Nothing was touched.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlanError {
    /// Every offending path, by kind, in Git's order and wording (`unpack-trees` messages).
    #[error("refused")]
    Refused(Vec<Refusal>),
    #[error(transparent)]
    Object(#[from] repo::objects::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error("cannot examine '{path}'")]
    Examine { path: BString, source: std::io::Error },
    #[error("invalid path '{0}'")]
    InvalidPath(BString),
    #[error("interrupted")]
    Interrupted,
}

/// One of Git's unpack-trees errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum RefusalKind {
    WouldOverwrite,
    NotUptodateFile,
    NotUptodateDir,
    CwdInTheWay,
    UntrackedOverwritten,
    UntrackedRemoved,
    BindOverlap,
    WouldLoseSubmodule,
}

/// A path and why it stops the operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub path: BString,
}

/// Decides. `index` is consumed: the plan holds the result.
#[allow(unused_variables)]
pub fn plan(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    index: Index,
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    todo!("plan")
}
