//! Changes in a worktree that are in no commit: what `git status --porcelain --ignore-submodules=none`
//! would show. Nothing is changed.

use format::{ObjectId, index::Index};
use repo::{Repository, submodule::Ignore};
use sys::Dir;

use crate::{checkout::PlanError, status};

/// What counts beside tracked files: `status.showUntrackedFiles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Untracked {
    Counts,
    Hidden,
}

/// Whether anything in `worktree` would be lost with it. `index` is its index, `head` the commit it is on.
pub fn any(
    repo: &Repository,
    worktree: &Dir,
    index: &Index,
    head: Option<ObjectId>,
    untracked: Untracked,
) -> Result<bool, PlanError> {
    let counted =
        status::Counted { submodules: Some(Ignore::None), untracked: untracked == Untracked::Counts };
    Ok(status::dirt(repo, worktree, index, head, &counted)?.is_within())
}
