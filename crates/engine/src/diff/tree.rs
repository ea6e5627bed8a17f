//! Comparison of a tree with the index, or with the worktree for the index's entries: Git's
//! `diff-index`.
//!
//! A directory whose cache-tree entry equals its tree is not opened, so the cost is proportional to
//! the difference.

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage},
};
use repo::{Repository, submodule::Ignore};
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{Collapsed, Pair, Side, Status, SubmoduleChanges, Unchanged, unstaged::with_checked_out_commit};
use crate::look::{
    LookError,
    pathspec::{Pathspecs, Seen},
    submodules::{ChangesWithin, Submodules},
    trees::{self, Kind, Side as TreeSide, Slot},
};

/// The other side of the comparison.
#[derive(Clone, Copy, Debug)]
pub enum Against<'a> {
    /// The index.
    Index {
        /// The treatment of intent-to-add entries.
        intended: IntentToAdd,
    },
    /// The files of the index's entries.
    Worktree {
        /// The differences between files and entries that [`crate::status::examine`] found.
        changes: &'a [Pair],
        /// Entries whose files could not be examined. They count as deleted, regardless of
        /// `missing`.
        unreadable: &'a [(BString, std::io::Error)],
        /// The treatment of entries without a file.
        missing: Missing,
        /// Finds changes within a submodule: [`crate::status::changes_within`].
        changes_within: ChangesWithin,
    },
}

/// The treatment of intent-to-add entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentToAdd {
    /// They count as existing in the index.
    Shown,
    /// They count as absent from the index.
    Hidden,
}

/// The treatment of entries whose file is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The entry counts as deleted.
    Deleted,
    /// The entry counts as unchanged from the index (`-m`).
    AsIndexed,
}

/// The selected part of the differences.
pub struct Scope<'a> {
    /// The selected paths.
    pub pathspecs: &'a Pathspecs,
    /// The source of the policy for submodules.
    pub submodules: SubmoduleIgnore,
    /// The treatment of unchanged paths.
    pub unchanged: Unchanged,
}

/// The source of the policy that ignores changes in submodules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmoduleIgnore {
    /// `.gitmodules` and the whole configuration.
    Configured,
    /// Like `Configured`, without `diff.ignoreSubmodules`: for Git's plumbing.
    BySubmodule,
    /// The command line (`--ignore-submodules`).
    Given(Ignore),
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Differences {
    /// The differences, sorted by path.
    pub pairs: Vec<Pair>,
    /// Warnings about `.gitmodules`.
    pub warnings: Vec<BString>,
}

/// Compares `tree` (`None` is the empty tree) with the index or the worktree. The pair of an
/// unmerged path has the tree's side as its old side, if there is one.
pub fn tree(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    tree: Option<ObjectId>,
    against: Against<'_>,
    scope: &Scope<'_>,
) -> Result<Differences, LookError> {
    let _phase = profile::span(Phase::Plan);
    let submodules = match scope.submodules {
        SubmoduleIgnore::Configured => Submodules::new(repo, Ignore::None)?,
        SubmoduleIgnore::BySubmodule | SubmoduleIgnore::Given(_) => Submodules::for_plumbing(repo),
    };
    let found = match scope.unchanged {
        Unchanged::Listed => {
            trees::walk_below(repo.objects(), index, Kind::OneWay, vec![tree], BStr::new(""))?
        }
        Unchanged::Omitted => trees::differences(repo.objects(), index, tree)?,
    };
    let mut comparison = Comparison {
        root,
        index,
        against,
        submodules: &submodules,
        submodule_ignore: scope.submodules,
        unchanged: scope.unchanged,
        changes: HashMap::new(),
        unreadable: HashSet::new(),
        pairs: Vec::with_capacity(found.rows.len()),
    };
    if let Against::Worktree { changes, unreadable, .. } = against {
        comparison.changes = changes.iter().map(|change| (change.path.as_bstr(), change)).collect();
        comparison.unreadable = unreadable.iter().map(|(path, _)| path.as_bstr()).collect();
    }
    let mut others: HashSet<BString> = HashSet::new();
    for row in found.rows {
        if scope.unchanged == Unchanged::Listed {
            others.insert(row.path.clone());
        }
        let old = match row.sides[0] {
            TreeSide::Entry(mode, oid) => Some(Side { mode, oid: Some(oid) }),
            TreeSide::Missing | TreeSide::Conflict => None,
        };
        let is_selected = match row.slot {
            Slot::Merged(at) | Slot::Unmerged(at) => {
                is_entry_selected(row.path.as_bstr(), index.mode_at(at), scope.pathspecs)
            }
            Slot::Nothing => is_selected(index, row.path.as_bstr(), old, scope.pathspecs),
        };
        if is_selected {
            comparison.row(row.path, old, row.slot)?;
        }
    }
    comparison.add_unmatched();
    if scope.unchanged == Unchanged::Listed {
        others.extend(comparison.pairs.iter().map(|pair| pair.path.clone()));
        for entry in index.entries_in(0..index.len()).filter(|entry| entry.stage == Stage::Normal) {
            let path = index.path(&entry);
            if !others.contains(path) && is_entry_selected(path, entry.mode, scope.pathspecs) {
                let side = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
                comparison.pairs.push(Pair::new(path.to_owned(), side, side));
            }
        }
    }
    let mut pairs = comparison.pairs;
    if !pairs.is_sorted_by(|one, two| one.path < two.path) {
        pairs.sort_by(|one, two| one.path.cmp(&two.path));
        // If a path has several pairs, the last one is kept.
        pairs.dedup_by(|later, kept| {
            let is_same = later.path == kept.path;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
    }
    let mut failed = None;
    pairs.retain(|pair| match is_ignored(index, pair, &submodules, scope.submodules) {
        Ok(is_ignored) => !is_ignored,
        Err(error) => {
            failed.get_or_insert(error);
            true
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Differences { pairs, warnings: submodules.warnings().to_vec() }),
    }
}

/// Compares `tree` (`None` is the empty tree) with `index`, as [`tree()`] does, without
/// intent-to-add entries. `ignore` is the policy for submodules without one of their own; `None`
/// means the configured policy. In a sparse index, pathspecs select a collapsed directory either
/// completely or not at all.
pub fn staged(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    tree: Option<ObjectId>,
    pathspecs: &Pathspecs,
    ignore: Option<Ignore>,
    sparse: Option<Collapsed<'_>>,
) -> Result<Vec<Pair>, LookError> {
    let against = Against::Index { intended: IntentToAdd::Hidden };
    let submodules = ignore.map_or(SubmoduleIgnore::Configured, SubmoduleIgnore::Given);
    let compare = |pathspecs| {
        let scope = Scope { pathspecs, submodules, unchanged: Unchanged::Omitted };
        let found = self::tree(repo, root, index, tree, against, &scope)?;
        Ok::<_, LookError>(found.pairs)
    };
    let Some(sparse) = sparse.filter(|_| !pathspecs.is_empty()) else { return compare(pathspecs) };
    let mut pairs = compare(&Pathspecs::default())?;
    let is_file_selected = |pair: &Pair| is_selected(index, pair.path.as_bstr(), pair.old, pathspecs);
    pairs.retain(|pair| sparse.selects_directory(pair, pathspecs).unwrap_or_else(|| is_file_selected(pair)));
    Ok(pairs)
}

struct Comparison<'a> {
    root: &'a Dir,
    index: &'a Index,
    against: Against<'a>,
    submodules: &'a Submodules<'a>,
    submodule_ignore: SubmoduleIgnore,
    unchanged: Unchanged,
    /// The changes that no row has consumed yet.
    changes: HashMap<&'a BStr, &'a Pair>,
    unreadable: HashSet<&'a BStr>,
    pairs: Vec<Pair>,
}

impl Comparison<'_> {
    fn row(&mut self, path: BString, old: Option<Side>, slot: Slot) -> Result<(), LookError> {
        // Both collections are empty in a comparison with the index: skip the lookups.
        let change = if self.changes.is_empty() { None } else { self.changes.remove(path.as_bstr()) };
        let is_unreadable = !self.unreadable.is_empty() && self.unreadable.remove(path.as_bstr());
        let (new, submodule_changes) = match (slot, self.against) {
            (Slot::Nothing, _) => (None, SubmoduleChanges::default()),
            (Slot::Unmerged(_), Against::Index { .. }) => {
                self.pairs.push(Pair { old, ..Pair::unmerged(path, None) });
                return Ok(());
            }
            (Slot::Merged(at), Against::Index { intended }) => {
                let entry = &self.index.entry(at);
                let is_hidden = intended == IntentToAdd::Hidden && entry.flags.contains(Flags::INTENT_TO_ADD);
                let side = Side { mode: entry.mode, oid: Some(entry.oid) };
                ((!is_hidden).then_some(side), SubmoduleChanges::default())
            }
            (Slot::Merged(at) | Slot::Unmerged(at), Against::Worktree { missing, changes_within, .. }) => {
                let entry = &self.index.entry(at);
                let indexed = Side { mode: entry.mode, oid: Some(entry.oid) };
                match change {
                    _ if is_unreadable => (None, SubmoduleChanges::default()),
                    // The status of a fully ignored submodule reports no change, so its directory
                    // is checked here.
                    None if missing == Missing::Deleted && !self.is_there(entry) => {
                        (None, SubmoduleChanges::default())
                    }
                    None => (Some(indexed), SubmoduleChanges::default()),
                    Some(Pair { new: Some(_), .. })
                        if entry.stage != Stage::Normal && self.is_ignored(entry)? =>
                    {
                        (Some(indexed), SubmoduleChanges::default())
                    }
                    Some(Pair { new: Some(file), .. })
                        if entry.stage != Stage::Normal
                            && entry.mode.is_gitlink()
                            && file.mode.is_gitlink() =>
                    {
                        let (side, submodule_changes) = self.submodule_side(entry, changes_within)?;
                        (Some(side), submodule_changes)
                    }
                    Some(change) => {
                        let indexed = (missing == Missing::AsIndexed).then_some(indexed);
                        (with_checked_out_commit(change, entry.oid).or(indexed), change.submodule_changes)
                    }
                }
            }
        };
        let is_listed = self.unchanged == Unchanged::Listed && old.is_some();
        if is_listed || old != new || submodule_changes != SubmoduleChanges::default() {
            self.pairs.push(Pair { submodule_changes, ..Pair::new(path, old, new) });
        }
        Ok(())
    }

    /// Returns true if the path of a submodule exists. Only submodules in the worktree are checked.
    fn is_there(&self, entry: &Entry) -> bool {
        !entry.mode.is_gitlink()
            || entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
            || matches!(self.root.stat(self.index.path(entry)), Ok(Some(_)))
    }

    /// Returns true if the entry is a submodule whose changes are all ignored.
    fn is_ignored(&self, entry: &Entry) -> Result<bool, LookError> {
        let path = self.index.path(entry);
        Ok(entry.mode.is_gitlink()
            && self.submodule_ignore.policy(self.index, self.submodules, path)? == Ignore::All)
    }

    /// Returns the worktree's side of an unmerged submodule. It has the entry's object ID if that
    /// commit is checked out.
    fn submodule_side(
        &self,
        entry: &Entry,
        changes_within: ChangesWithin,
    ) -> Result<(Side, SubmoduleChanges), LookError> {
        let ignore = self.submodule_ignore.policy(self.index, self.submodules, self.index.path(entry))?;
        let submodule_changes = self.submodules.changes(self.index, entry, ignore, changes_within)?;
        Ok((
            Side { mode: entry.mode, oid: (!submodule_changes.commit).then_some(entry.oid) },
            submodule_changes,
        ))
    }

    /// Adds the pairs of entries that equal the tree's entries but whose files differ.
    fn add_unmatched(&mut self) {
        let Against::Worktree { missing, .. } = self.against else { return };
        for path in std::mem::take(&mut self.unreadable) {
            let Some(at) = self.index.range_of(path).next() else { continue };
            let entry = &self.index.entry(at);
            let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
            self.pairs.push(Pair::new(path.to_owned(), old, None));
        }
        for (path, change) in std::mem::take(&mut self.changes) {
            let Some(at) = self.index.range_of(path).next() else { continue };
            let entry = &self.index.entry(at);
            if change.new.is_some() || missing == Missing::Deleted {
                let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
                let pair = Pair::new(path.to_owned(), old, with_checked_out_commit(change, entry.oid));
                self.pairs.push(Pair { submodule_changes: change.submodule_changes, ..pair });
            }
        }
    }
}

/// Returns true if the pathspecs select a path. Its mode comes from the index, otherwise from the
/// tree.
fn is_selected(index: &Index, path: &BStr, old: Option<Side>, pathspecs: &Pathspecs) -> bool {
    if pathspecs.is_empty() {
        return true;
    }
    let indexed = index.range_of(path).next().map(|at| index.mode_at(at));
    match indexed.or(old.map(|side| side.mode)) {
        Some(mode) => is_entry_selected(path, mode, pathspecs),
        None => pathspecs.matches(path, &mut Seen::default()),
    }
}

pub(super) fn is_entry_selected(path: &BStr, mode: Mode, pathspecs: &Pathspecs) -> bool {
    pathspecs.is_empty() || pathspecs.matches_entry(path, mode, &mut Seen::default())
}

/// Returns true if a pair belongs to a submodule whose changes are all ignored.
pub(super) fn is_ignored(
    index: &Index,
    pair: &Pair,
    submodules: &Submodules<'_>,
    submodule_ignore: SubmoduleIgnore,
) -> Result<bool, LookError> {
    let sides = [pair.old, pair.new].into_iter().flatten();
    if pair.status == Status::Unmerged || !sides.clone().all(|side| side.mode.is_gitlink()) {
        return Ok(false);
    }
    Ok(submodule_ignore.policy(index, submodules, pair.path.as_bstr())? == Ignore::All)
}

impl SubmoduleIgnore {
    fn policy(self, index: &Index, submodules: &Submodules<'_>, path: &BStr) -> Result<Ignore, LookError> {
        match self {
            SubmoduleIgnore::Given(ignore) => Ok(ignore),
            SubmoduleIgnore::Configured | SubmoduleIgnore::BySubmodule => submodules.ignore(index, path),
        }
    }
}
