//! New patterns for a sparse worktree: Git's `update_sparsity`. Files are removed and written; the
//! index keeps its entries.
//!
//! Nothing is refused: a file in an unexpected state stays, with a warning. Ignored files are
//! protected like untracked ones.

use std::{io, sync::Arc};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Index;
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{
    Files, Force, Operation, Plan, SparseLeftover, SparseLeftoverKind,
    decide::{Decider, Policy, Queries as _, Sparsity},
    plan::{Settings, Vouched, finish},
    queries::WorktreeQueries,
};
use crate::{
    files::{self, Premise, Worktree},
    look::{
        LookError, content::LazyConverter, ignore::Ignores, sparse::Patterns, trees::Kind, unlinked::Unlinked,
    },
};

/// Plans the changes of the worktree for new `patterns`.
pub fn plan_sparsity(
    repo: &repo::Repository,
    worktree: &Dir,
    index: Index,
    patterns: Arc<Patterns>,
    original_cwd: Option<BString>,
) -> Result<Plan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let sparsity = Sparsity::new(&patterns, &index);
    let policy = Policy {
        kind: Kind::TwoWay { initial: false },
        force: Force::No,
        files: Files::Update,
        overwrite_ignored: false,
        protect: Settings::of(repo)?.protect,
        sparse: Some(&sparsity),
        cwd: original_cwd.as_ref().map(|cwd| cwd.as_bstr()),
        report_all: true,
        recurse_submodules: false,
        vouched: Vouched::Examined,
    };
    let cleaning = LazyConverter::new(repo, &index);
    let mut worktree_queries = worktree_queries(repo, worktree, &index, &cleaning)?;
    let mut decided = Decider::new(&index, policy, &mut worktree_queries).run(Vec::new(), [])?;
    for at in index.unmerged() {
        let path = index.path_at(at).to_owned();
        let unmerged = SparseLeftover { kind: SparseLeftoverKind::Unmerged, path };
        if decided.sparse_leftovers.last() != Some(&unmerged) {
            decided.sparse_leftovers.push(unmerged);
        }
    }
    drop(worktree_queries);
    let undo = index.resolve_undo.clone();
    let mut plan = finish(repo.objects(), index, decided, Operation::SparseCheckout);
    plan.index.resolve_undo = undo;
    Ok(plan)
}

/// Returns true if a file below the directory `dir` is neither tracked nor ignored.
pub fn has_untracked(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    dir: &BStr,
) -> Result<bool, LookError> {
    let _phase = profile::span(Phase::Plan);
    let cleaning = LazyConverter::new(repo, index);
    worktree_queries(repo, worktree, index, &cleaning)?.untracked_below(dir, false)
}

/// Removes the directory `dir` of the worktree of `repo` with everything in it. Follows no link.
/// Returns an error if the repository is in the directory.
pub fn remove_directory(repo: &repo::Repository, worktree: &Dir, dir: &BStr) -> io::Result<()> {
    let top = repo.work_tree().expect("it is open");
    let worktree = Worktree::of(repo, top, worktree).map_err(io::Error::other)?;
    let removed = worktree.remove_tree(dir, &Premise::Anything, &Unlinked::default());
    removed.map_err(|error| match error {
        files::Error::Guard(error) => io::Error::other(error),
        files::Error::Failed(failed) => failed.into_source(),
    })
}

fn worktree_queries<'a>(
    repo: &repo::Repository,
    worktree: &'a Dir,
    index: &'a Index,
    cleaning: &'a LazyConverter<'a>,
) -> Result<WorktreeQueries<'a>, LookError> {
    let settings = Settings::of(repo)?;
    let excludes = crate::look::ignore::outside(repo)?;
    let excludes: Vec<&[u8]> = excludes.iter().map(Vec::as_slice).collect();
    Ok(WorktreeQueries {
        root: worktree,
        index,
        rules: settings.stat,
        refresh: false,
        ignores: Ignores::new(worktree, &excludes, settings.ignore_case),
        cleaning,
        fold_case: settings.ignore_case,
        folded: None,
        follow: None,
    })
}
