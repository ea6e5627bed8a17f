//! New patterns for a sparse worktree: files go and come, the index keeps what it has. Git's `update_sparsity`.
//!
//! Nothing is refused: what is not as it should be is left, with a warning. Ignored files count as anybody's.

use std::{io, sync::Arc};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Index, Stage};
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{
    Files, Force, Left, LeftKind, Plan,
    decide::{Ask as _, Decider, Policy, Sparsity},
    execute::subtree,
    look::Looker,
    plan::{Settings, finish},
};
use crate::{
    guard::Guard,
    look::{LookError, content::Lazy, ignore::Ignores, sparse::Patterns, trees::Kind},
};

/// Plans what becomes of the worktree when `patterns` say what belongs in it.
pub fn plan_sparsity(
    repo: &repo::Repository,
    worktree: &Dir,
    index: Index,
    patterns: Arc<Patterns>,
    original_cwd: Option<BString>,
) -> Result<Plan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let sparsity = Sparsity { patterns: &patterns, outside: patterns.outside(&index) };
    let policy = Policy {
        kind: Kind::TwoWay { initial: false },
        force: Force::No,
        files: Files::Update,
        overwrite_ignored: false,
        protect: Settings::of(repo)?.protect,
        sparse: Some(&sparsity),
        cwd: original_cwd.as_ref().map(|cwd| cwd.as_bstr()),
        report_all: true,
        follows: false,
    };
    let cleaning = Lazy::new(repo, &index);
    let mut looker = looker(repo, worktree, &index, &cleaning)?;
    let mut decided = Decider::new(&index, policy, &mut looker).run(Vec::new(), [])?;
    for entry in index.entries().iter().filter(|entry| entry.stage != Stage::Normal) {
        let path = index.path(entry).to_owned();
        let unmerged = Left { kind: LeftKind::Unmerged, path };
        if decided.left.last() != Some(&unmerged) {
            decided.left.push(unmerged);
        }
    }
    drop(looker);
    let undo = index.resolve_undo.clone();
    let mut plan = finish(repo.objects(), index, decided, "sparse-checkout");
    plan.index.resolve_undo = undo;
    Ok(plan)
}

/// Whether something below directory `dir` is neither tracked nor ignored.
pub fn has_untracked(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    dir: &BStr,
) -> Result<bool, LookError> {
    let _phase = profile::span(Phase::Plan);
    let cleaning = Lazy::new(repo, index);
    looker(repo, worktree, index, &cleaning)?.untracked_below(dir, false)
}

/// Removes directory `dir` of the worktree of `repo` with all that is in it. Follows no link. Returns
/// an error if the repository is in it.
pub fn remove_directory(repo: &repo::Repository, worktree: &Dir, dir: &BStr) -> io::Result<()> {
    if let Some(top) = repo.work_tree() {
        Guard::of(repo, top).and_then(|guard| guard.admit_whole(dir)).map_err(io::Error::other)?;
    }
    subtree::visit(&worktree.open_dir(dir)?, &mut subtree::remove)?;
    worktree.remove_dir(dir)
}

fn looker<'a>(
    repo: &repo::Repository,
    worktree: &'a Dir,
    index: &'a Index,
    cleaning: &'a Lazy<'a>,
) -> Result<Looker<'a>, LookError> {
    let settings = Settings::of(repo)?;
    let excludes = crate::look::ignore::outside(repo)?;
    let excludes: Vec<&[u8]> = excludes.iter().map(Vec::as_slice).collect();
    Ok(Looker {
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
