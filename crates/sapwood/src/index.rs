//! Loading the index from disk.

use engine::{sparse, untracked};
pub use format::index::{Entry, Flags, Index, Stage};
use repo::Repository;
use store::index::Fingerprint;

use crate::{
    Error,
    context::Context,
    monitor,
    settings::Settings,
    sparse_index::{self, Expansion, ExpansionHint, Read},
};

/// Reads the index for commands that work on it: full, and without the skip-worktree flag on
/// entries whose files exist.
pub fn read_index(
    context: Context<'_>,
    worktree: &sys::Dir,
    hint: ExpansionHint,
    when: Expansion,
) -> Result<Read, Error> {
    let Context { repo, settings, .. } = context;
    let clears = sparse::is_on(repo)? && repo.work_tree().is_some() && !settings.expects_files;
    let Loaded { index, seen, differs } = load(repo, settings)?;
    let was_sparse = index.sparse;
    let mut read = sparse_index::read(context, index, clears.then_some(worktree), hint, when)?;
    read.seen = seen;
    read.differs_on_disk = differs || was_sparse && read.before.is_none();
    Ok(read)
}

/// Reads the index from disk and makes it full, without a lock.
pub fn load_index(context: Context<'_>) -> Result<Index, Error> {
    let index = load_raw(context.repo, context.settings)?;
    Ok(sparse_index::read(context, index, None, ExpansionHint::Omit, Expansion::AtOnce)?.index)
}

/// Reads the index from disk. A sparse index is made full if one of its collapsed directories
/// exists in the worktree, against the patterns.
pub fn load_compact(context: Context<'_>, worktree: &sys::Dir, hint: ExpansionHint) -> Result<Index, Error> {
    let index = load_raw(context.repo, context.settings)?;
    if sparse_index::has_no_stray_directories(context.repo, &index, worktree)? {
        return Ok(index);
    }
    Ok(sparse_index::read(context, index, None, hint, Expansion::AtOnce)?.index)
}

/// Reads the index from disk with its untracked cache and its monitor data, unless the
/// configuration disables them. The index may be sparse.
pub fn load_raw(repo: &Repository, settings: &Settings) -> Result<Index, Error> {
    Ok(load(repo, settings)?.index)
}

struct Loaded {
    index: Index,
    /// The fingerprint of the index file.
    seen: Option<Fingerprint>,
    /// The load changed the index, as the configuration requires.
    differs: bool,
}

fn load(repo: &Repository, settings: &Settings) -> Result<Loaded, Error> {
    let (mut index, seen) =
        store::index::load_with_fingerprint(&repo.index_path(), repo.hash(), &settings.index_read)?;
    let mut differs = untracked::cache::settle(repo, &mut index)?;
    differs |= monitor::remove_unused_data(repo, &mut index)? == monitor::WriteIndex::Worthwhile;
    let splits = settings.index_write.split.filter(|_| !index.sparse);
    differs |= splits.is_some_and(|split| split != index.base.is_some());
    Ok(Loaded { index, seen, differs })
}
