//! Loading the index from disk.

use engine::{sparse, untracked};
use format::index::Index;
use repo::Repository;
use store::index::Fingerprint;

use crate::{
    session::{
        monitor,
        settings::Settings,
        sparse_index::{self, Fill, Read, Tell},
    },
    term::failure::Failure,
};

/// Reads the index for commands that work on it: full, and without the skip-worktree flag on
/// entries whose files exist.
pub(crate) fn read_index(
    repo: &Repository,
    settings: &Settings,
    worktree: &sys::Dir,
    tell: Tell,
    when: Fill,
) -> Result<Read, Failure> {
    let clears = sparse::is_on(repo)? && repo.work_tree().is_some() && !settings.expects_files;
    let Loaded { index, seen, settled } = load(repo, settings)?;
    let was_sparse = index.sparse;
    let mut read = sparse_index::read(repo, settings, index, clears.then_some(worktree), tell, when)?;
    read.seen = seen;
    read.differs_on_disk = settled || was_sparse && read.before.is_none();
    Ok(read)
}

/// Reads the index from disk and makes it full, without a lock.
pub(crate) fn load_index(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    let index = load_raw(repo, settings)?;
    Ok(sparse_index::read(repo, settings, index, None, Tell::Nothing, Fill::AtOnce)?.index)
}

/// Reads the index from disk. A sparse index is made full if one of its collapsed directories
/// exists in the worktree, against the patterns.
pub(crate) fn load_beside(
    repo: &Repository,
    settings: &Settings,
    worktree: &sys::Dir,
    tell: Tell,
) -> Result<Index, Failure> {
    let index = load_raw(repo, settings)?;
    match sparse_index::is_as_it_should_be(repo, &index, worktree)? {
        true => Ok(index),
        false => Ok(sparse_index::read(repo, settings, index, None, tell, Fill::AtOnce)?.index),
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
    settled: bool,
}

fn load(repo: &Repository, settings: &Settings) -> Result<Loaded, Failure> {
    let (mut index, seen) =
        store::index::load_with_fingerprint(&repo.index_path(), repo.hash(), &settings.index_read)
            .map_err(|error| Failure::fatal(error.to_string()))?;
    let mut settled = untracked::cache::settle(repo, &mut index)?;
    settled |= monitor::settle(repo, &mut index)? == monitor::WriteIndex::Worthwhile;
    let splits = settings.index_write.split.filter(|_| !index.sparse);
    settled |= splits.is_some_and(|split| split != index.base.is_some());
    Ok(Loaded { index, seen, settled })
}
