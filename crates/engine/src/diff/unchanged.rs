//! Unchanged files as sources of copies (`--find-copies-harder`).

use std::collections::{BTreeMap, HashSet};

use bstr::ByteSlice as _;
use format::index::{Index, Stage};
use repo::Repository;

use super::{
    Pair, Scope, Side, Status,
    tree::{is_entry_selected, is_ignored},
};
use crate::look::{LookError, submodules::Submodules};

/// The treatment of unchanged paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// They are omitted.
    Omitted,
    /// Each is a pair with equal sides, so that [`super::renames`] can find copies of it.
    Listed,
}

/// Adds to `pairs`, the differences between index and worktree, the other entries that `scope`
/// selects. For an unmerged path that is the entry of `stage`. `unreadable` paths are omitted,
/// because their state is unknown.
pub fn with_unchanged(
    repo: &Repository,
    index: &Index,
    pairs: Vec<Pair>,
    unreadable: &[(bstr::BString, std::io::Error)],
    scope: &Scope<'_>,
    stage: Option<Stage>,
) -> Result<Vec<Pair>, LookError> {
    let submodules = Submodules::for_plumbing(repo);
    let known: HashSet<_> = pairs
        .iter()
        .filter(|pair| pair.status != Status::Unmerged)
        .map(|pair| pair.path.clone())
        .chain(unreadable.iter().map(|(path, _)| path.clone()))
        .collect();
    let mut all: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        all.entry(pair.path.clone()).or_default().push(pair);
    }
    for entry in index.entries_in(0..index.len()) {
        let path = index.path(&entry);
        let has_stage = entry.stage == Stage::Normal || Some(entry.stage) == stage;
        if !has_stage || known.contains(path) || !is_entry_selected(path, entry.mode, scope.pathspecs) {
            continue;
        }
        let side = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
        let same = Pair::new(path.to_owned(), side, side);
        if !is_ignored(index, &same, &submodules, scope.submodules)? {
            all.entry(path.as_bstr().to_owned()).or_default().push(same);
        }
    }
    Ok(all.into_values().flatten().collect())
}
