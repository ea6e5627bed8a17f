//! Whether a worktree holds anything that is not in a commit: what `git status --porcelain` would show.
//!
//! Order, cheapest first: unmerged entries, files against the index, the index against HEAD, files that nobody
//! tracks and nobody ignores. The first difference ends the search. Nothing is changed.

use format::{ObjectId, index::Index};
use repo::Repository;
use sys::Dir;

use crate::{
    checkout::{self, PlanError},
    untracked,
};

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
    mut index: Index,
    head: Option<ObjectId>,
    untracked: Untracked,
) -> Result<bool, PlanError> {
    if index.is_unmerged() || !checkout::refresh(repo, worktree, &mut index)?.is_empty() {
        return Ok(true);
    }
    let tree = match head {
        Some(commit) => repo.tree_of(commit)?,
        None => ObjectId::empty_tree(repo.hash()),
    };
    if !checkout::local_changes(repo, worktree, &index, tree, &[])?.changes.is_empty() {
        return Ok(true);
    }
    if untracked == Untracked::Hidden {
        return Ok(false);
    }
    untracked::any(repo, worktree, &index)
}
