//! The sparse index, with its hints printed. See [`sapwood::sparse_index`].

use bstr::BStr;
use engine::sparse::{Patterns, Purpose};
use repo::Repository;
pub(crate) use sapwood::sparse_index::{Expansion, ExpansionHint, Read, is_collapsed};
use sapwood::{Dir, index::Index, sparse_index};

use crate::{
    session::{events::printing, settings::Settings},
    term::failure::Failure,
};

/// See [`sparse_index::wanted`].
pub(crate) fn wanted(repo: &Repository) -> Result<Option<Patterns>, Failure> {
    Ok(sparse_index::wanted(repo)?)
}

/// See [`sparse_index::read`].
pub(crate) fn read(
    repo: &Repository,
    settings: &Settings,
    index: Index,
    worktree: Option<&Dir>,
    hint: ExpansionHint,
    when: Expansion,
) -> Result<Read, Failure> {
    Ok(sparse_index::read(printing(repo, settings), index, worktree, hint, when)?)
}

/// See [`sparse_index::expand`].
pub(crate) fn expand(repo: &Repository, index: &mut Index) -> Result<(), Failure> {
    Ok(sparse_index::expand(repo, index)?)
}

/// See [`sparse_index::expand_for`].
pub(crate) fn expand_for(
    repo: &Repository,
    index: &mut Index,
    purpose: &dyn Fn(&BStr) -> Purpose,
) -> Result<(), Failure> {
    Ok(sparse_index::expand_for(repo, index, purpose)?)
}

/// See [`sparse_index::report_expansion`].
pub(crate) fn report_expansion(
    repo: &Repository,
    settings: &Settings,
    index: &Index,
    hint: ExpansionHint,
) -> Result<(), Failure> {
    Ok(sparse_index::report_expansion(printing(repo, settings), index, hint)?)
}
