//! Loading the index, and changing it. See [`sapwood::index`] and [`sapwood::transaction`].

use bstr::BString;
use repo::Repository;
pub(crate) use sapwood::transaction::{Done, IndexTransaction, Recorded, Start};
use sapwood::{
    Dir,
    index::{self, Index},
    sparse_index::ExpansionHint,
};

use crate::{
    session::{events::printing, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// See [`index::load_index`].
pub(crate) fn load_index(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    Ok(index::load_index(printing(repo, settings))?)
}

/// See [`index::load_compact`].
pub(crate) fn load_compact(
    repo: &Repository,
    settings: &Settings,
    worktree: &Dir,
    hint: ExpansionHint,
) -> Result<Index, Failure> {
    Ok(index::load_compact(printing(repo, settings), worktree, hint)?)
}

/// See [`index::load_raw`].
pub(crate) fn load_raw(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    Ok(index::load_raw(repo, settings)?)
}

/// Prints `<path>: needs merge` for each path on standard output.
pub(crate) fn list_unmerged(paths: &[BString]) {
    paths.iter().for_each(|path| console::out(text!(path, ": needs merge")));
}
