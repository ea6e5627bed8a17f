//! Loading the index from disk.

use engine::{sparse, untracked};
use format::index::Index;
use repo::Repository;
use store::index::Fingerprint;

use crate::{
    session::{
        monitor,
        settings::Settings,
        sparse_index::{self, Expansion, ExpansionHint, Read},
    },
    term::failure::Failure,
};

/// Reads the index for commands that work on it: full, and without the skip-worktree flag on
/// entries whose files exist.
pub(crate) fn read_index(
    repo: &Repository,
    settings: &Settings,
    worktree: &sys::Dir,
    hint: ExpansionHint,
    when: Expansion,
) -> Result<Read, Failure> {
    let clears = sparse::is_on(repo)? && repo.work_tree().is_some() && !settings.expects_files;
    let Loaded { index, seen, differs } = load(repo, settings)?;
    let was_sparse = index.sparse;
    let mut read = sparse_index::read(repo, settings, index, clears.then_some(worktree), hint, when)?;
    read.seen = seen;
    read.differs_on_disk = differs || was_sparse && read.before.is_none();
    Ok(read)
}

/// Reads the index from disk and makes it full, without a lock.
pub(crate) fn load_index(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    let index = load_raw(repo, settings)?;
    Ok(sparse_index::read(repo, settings, index, None, ExpansionHint::Omit, Expansion::AtOnce)?.index)
}

/// Reads the index from disk. A sparse index is made full if one of its collapsed directories
/// exists in the worktree, against the patterns.
pub(crate) fn load_compact(
    repo: &Repository,
    settings: &Settings,
    worktree: &sys::Dir,
    hint: ExpansionHint,
) -> Result<Index, Failure> {
    let index = load_raw(repo, settings)?;
    match sparse_index::has_no_stray_directories(repo, &index, worktree)? {
        true => Ok(index),
        false => Ok(sparse_index::read(repo, settings, index, None, hint, Expansion::AtOnce)?.index),
    }
}

/// Reads the index from disk with its untracked cache and its monitor data, unless the
/// configuration disables them. The index may be sparse.
pub(crate) fn load_raw(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    Ok(load(repo, settings)?.index)
}

struct Loaded {
    index: Index,
    /// The fingerprint of the index file.
    seen: Option<Fingerprint>,
    /// The load changed the index, as the configuration requires.
    differs: bool,
}

fn load(repo: &Repository, settings: &Settings) -> Result<Loaded, Failure> {
    let (mut index, seen) =
        store::index::load_with_fingerprint(&repo.index_path(), repo.hash(), &settings.index_read)
            .map_err(|error| Failure::fatal(error.to_string()))?;
    let mut differs = untracked::cache::settle(repo, &mut index)?;
    differs |= monitor::remove_unused_data(repo, &mut index)? == monitor::WriteIndex::Worthwhile;
    let splits = settings.index_write.split.filter(|_| !index.sparse);
    differs |= splits.is_some_and(|split| split != index.base.is_some());
    Ok(Loaded { index, seen, differs })
}
