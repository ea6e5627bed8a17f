//! Loading the index from disk, and facts that are found without decoding it.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::BStr;
use engine::{sparse, untracked, workspace::record};
pub use format::index::{Entry, Flags, Index, Stage};
use format::{HashKind, ObjectId, index::IndexSummary};
use repo::Repository;
pub use store::index::{Access, LoadError};
use store::index::{Fingerprint, ReadOptions};
use sys::{Map, by_path};

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

/// Reads the index from disk as it is, for a caller that has no settings yet or writes no index.
/// The index may be sparse, and it keeps an untracked cache and monitor data that the configuration
/// disables.
pub fn load_as_is(repo: &Repository, access: Access) -> Result<Index, LoadError> {
    let options = ReadOptions { access, ..ReadOptions::default() };
    store::index::load(&repo.index_path(), repo.hash(), &options)
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
    differs |= match settings.index_write.split.filter(|_| !index.sparse) {
        Some(split) => split != index.base.is_some(),
        None => has_lost_shared_half(repo, &index),
    };
    Ok(Loaded { index, seen, differs })
}

/// Returns true if `index` is the whole index of a workspace that was created with a split one, and
/// its shared half is still there. Git writes a split index whole if it changes it in a way that no
/// extension records. An index that `GIT_INDEX_FILE` names stays as its writer wants it.
pub(crate) fn has_lost_shared_half(repo: &Repository, index: &Index) -> bool {
    let path = repo.index_path();
    if index.base.is_some() || index.sparse || path != repo.git_dir().join("index") {
        return false;
    }
    let workspace = record::of_git_dir(repo.common_dir(), repo.git_dir());
    let has_upper = |workspace: record::Workspace| workspace.record.backend.has_upper();
    let is_split = workspace.is_ok_and(|workspace| workspace.is_some_and(has_upper));
    is_split && store::index::has_shared_beside(&path, repo.hash())
}

/// Returns an error if a page of a mapped index could not be read after the index was opened. An
/// operation that reads only parts of the index calls this before it returns a result.
pub fn must_have_been_readable() -> Result<(), Error> {
    match sys::unreported_unreadable_map() {
        None => Ok(()),
        Some((path, source)) => {
            Err(Error::failed(format!("unable to read '{}': {}", path.display(), sys::reason(&source))))
        }
    }
}

/// An index file, or its shared index, cannot be read or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the index '{}' cannot be read", .path.display())]
pub struct Unreadable {
    /// The index file.
    pub path: PathBuf,
}

/// Returns true if the index file at `path`, or its shared index, has a submodule. A missing file
/// has none. Reads the whole file and checks its form, but neither decodes the entries nor verifies
/// the checksum.
pub fn has_submodules(path: &Path, hash: HashKind) -> Result<bool, Unreadable> {
    let unreadable = || Unreadable { path: path.to_owned() };
    let own = match by_path::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.ok().and_then(|file| summary(&file, hash)).ok_or_else(unreadable)?,
    };
    let Some(shared) = own.shared else { return Ok(own.gitlinks) };
    let base = by_path::open(&shared_index(path, shared)).ok();
    let base = base.and_then(|file| summary(&file, hash)).ok_or_else(unreadable)?;
    Ok(own.gitlinks || base.gitlinks)
}

fn summary(file: &sys::File, hash: HashKind) -> Option<IndexSummary> {
    let unreadable = sys::unreadable_page_count();
    let found = format::index::summarize(&Map::of(file).ok()?, hash)?;
    // A page that could not be read appears as zeros, which make the summary invalid.
    (sys::unreadable_page_count() == unreadable).then_some(found)
}

/// Searches the bytes of the index, and of its shared index, for an entry below the directory
/// `dir`. Returns `None` if that takes a decoded index: the index cannot be read, or has version 4.
/// An entry that is found in a shared index may be deleted.
pub fn has_entry_below(repo: &Repository, dir: &BStr) -> Option<bool> {
    let unreadable = sys::unreadable_page_count();
    let mapped = |file: &Path| Map::of(&by_path::open(file).ok()?).ok();
    let (path, hash) = (repo.index_path(), repo.hash());
    let own = mapped(&path)?;
    let mut found = format::index::has_entry_below(&own, hash, dir)?;
    if let Some(shared) = format::index::summarize(&own, hash)?.shared {
        let base = mapped(&shared_index(&path, shared))?;
        found |= format::index::has_entry_below(&base, hash, dir)?;
    }
    (sys::unreadable_page_count() == unreadable).then_some(found)
}

fn shared_index(path: &Path, name: ObjectId) -> PathBuf {
    path.with_file_name(format!("sharedindex.{name}"))
}
