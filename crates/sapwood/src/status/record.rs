//! Recording new stat data in the index, for the next command.
//!
//! This changes only stat data and caches, and only of the index that was read. If the index is
//! locked, was replaced, cannot be written or must not be (`--no-optional-locks`), it does nothing
//! and reports nothing.

use bstr::BStr;
use engine::{checkout::RacyCheck, monitor::WriteIndex};
use format::index::{Entry, Index, Stat};
use store::index::Fingerprint;
use sys::Dir;

use crate::{
    Context, Error,
    hooks::{self, Changed},
    sparse_index,
};

/// New stat data and caches for an index.
pub(super) struct RefreshedIndex {
    /// The fingerprint of the index file before it was read; `None` if the file was missing.
    pub(super) seen: Option<Fingerprint>,
    /// The sparse index it was read from.
    pub(super) before: Option<Index>,
    /// Positions of entries, and their stat data.
    pub(super) refreshed: Vec<(usize, Stat)>,
    /// Positions of clean entries, for the file system monitor.
    pub(super) proved: Vec<usize>,
    /// The benefit of writing the index because of the monitor's response alone.
    pub(super) monitor: WriteIndex,
    /// The untracked cache was added, removed, or changed in a way worth writing.
    pub(super) is_worth_writing: bool,
}

/// Adds the new data to `index`, and writes its file.
pub(super) fn record(
    context: Context<'_>,
    root: &Dir,
    index: &mut Index,
    refreshed_index: RefreshedIndex,
) -> Result<(), Error> {
    let Context { repo, settings, events, .. } = context;
    let Some(seen) = refreshed_index.seen else { return Ok(()) };
    let is_wanted = repo.env().bytes("GIT_OPTIONAL_LOCKS").and_then(|value| repo::parse_bool(Some(value)));
    if is_wanted == Some(false) {
        return Ok(());
    }
    let is_racy = index.has_racy();
    let mut is_worth_writing = refreshed_index.is_worth_writing
        || !refreshed_index.refreshed.is_empty()
        || is_racy
        || refreshed_index.monitor == WriteIndex::Worthwhile;
    for (at, stat) in refreshed_index.refreshed {
        index.update(at, |entry| entry.stat = stat);
        index.set_uptodate(at);
    }
    for at in refreshed_index.proved {
        is_worth_writing |= index.set_fsmonitor_valid(at);
    }
    if !is_worth_writing {
        return Ok(());
    }
    let path = repo.index_path();
    let Ok(lock) = store::index::lock(&path, &settings.locks) else { return Ok(()) };
    if store::index::fingerprint(&path, repo.hash()) != Some(seen) {
        return Ok(());
    }
    let patterns = sparse_index::wanted(repo)?;
    let before = refreshed_index.before.as_ref();
    sparse_index::prepare_for_write(repo, settings, index, before, patterns.as_ref())?;
    let Ok(racy) = RacyCheck::new(repo, root, index) else { return Ok(()) };
    let is_modified = |path: &BStr, entry: &Entry| racy.is_modified(path, entry);
    let options = settings.index_to_write(repo, index, settings.index_write.split, events);
    match store::index::commit(lock, index, &options, &settings.fsync, &is_modified) {
        Ok(()) => hooks::post_index_change(context, Changed::Paths),
        Err(_) => Ok(()),
    }
}
