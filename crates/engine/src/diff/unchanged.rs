//! What does not differ: sources of copies (`--find-copies-harder`).

use std::collections::{BTreeMap, HashSet};

use bstr::ByteSlice as _;
use format::index::{Index, Stage};
use repo::Repository;

use super::{
    Pair, Scope, Side, Status,
    tree::{is_entry_meant, is_ignored},
};
use crate::look::{LookError, submodules::Submodules};

/// What becomes of what does not differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// It is left out.
    Left,
    /// It is a pair whose sides are the same, for [`super::renames`] to find copies of.
    Listed,
}

/// `pairs` of the index and the worktree, and all other entries that `scope` means: of an unmerged path that of `stage`. Nothing is known of
/// `unreadable` ones.
pub fn with_unchanged(
    repo: &Repository,
    index: &Index,
    pairs: Vec<Pair>,
    unreadable: &[(bstr::BString, std::io::Error)],
    (scope, stage): (&Scope<'_>, Option<Stage>),
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
        let is_asked_for = entry.stage == Stage::Normal || Some(entry.stage) == stage;
        if !is_asked_for || known.contains(path) || !is_entry_meant(path, entry.mode, scope.pathspecs) {
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
