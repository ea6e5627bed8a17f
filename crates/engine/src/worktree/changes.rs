//! Detection of uncommitted changes in a worktree: those that `git status --porcelain
//! --ignore-submodules=none` would show. Nothing is changed.

use format::{ObjectId, index::Index};
use repo::{Repository, submodule::Ignore};
use sys::Dir;

use crate::{look::LookError, status};

/// The treatment of untracked files: `status.showUntrackedFiles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Untracked {
    Counts,
    Hidden,
}

/// Returns true if removing `worktree` would lose changes. `index` is its index, `head` its current
/// commit. No other repository in it is opened if all changes of submodules are ignored.
pub fn any(
    repo: &Repository,
    worktree: &Dir,
    index: &Index,
    head: Option<ObjectId>,
    untracked: Untracked,
    submodules: Ignore,
) -> Result<bool, LookError> {
    let counted =
        status::CountedChanges { submodules: Some(submodules), untracked: untracked == Untracked::Counts };
    Ok(status::change_kinds(repo, worktree, index, head, &counted)?.is_within())
}
