//! A tree against the index, or against the worktree as the index sees it: Git's `diff-index`.
//!
//! Directories whose cache-tree is the tree's are not opened, so the cost is that of what differs.

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

use super::{Collapsed, Dirt, Pair, Side, Status, Unchanged, unstaged::named};
use crate::look::{
    LookError,
    pathspec::{Pathspecs, Seen},
    submodules::{ChangesWithin, Submodules},
    trees::{self, Kind, Side as TreeSide, Slot},
};

/// What a tree is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Against<'a> {
    /// The index.
    Index {
        /// Of what is only intended to be added.
        intended: Intended,
    },
    /// The files of the index's entries.
    Worktree {
        /// In what they differ from the entries, as [`crate::status::examine`] found.
        changes: &'a [Pair],
        /// Entries of whose files it could not tell anything: they are gone, whatever `missing` says.
        unreadable: &'a [(BString, std::io::Error)],
        /// Of entries without a file.
        missing: Missing,
        /// Finds changes within a submodule: [`crate::status::changes_within`].
        changes_within: ChangesWithin,
    },
}

/// What is only intended to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intended {
    /// It is in the index.
    Shown,
    /// It is not.
    Hidden,
}

/// What becomes of an entry whose file is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is gone.
    Gone,
    /// It counts as it is in the index (`-m`).
    AsIndexed,
}

/// What is meant of what differs.
pub struct Scope<'a> {
    /// These paths.
    pub pathspecs: &'a Pathspecs,
    /// What counts of submodules.
    pub submodules: Counts,
    /// What becomes of what does not differ.
    pub unchanged: Unchanged,
}

/// Who says what counts of submodules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// `.gitmodules` and all of the configuration.
    Configured,
    /// The same without `diff.ignoreSubmodules`, as for Git's plumbing.
    BySubmodule,
    /// The command line (`--ignore-submodules`).
    Given(Ignore),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Differences {
    /// What differs, sorted by path.
    pub pairs: Vec<Pair>,
    /// What is to be said of `.gitmodules`.
    pub warnings: Vec<BString>,
}

/// What differs between `tree` (`None` is the empty one) and what it is compared with. An unmerged path of the index has the tree's side,
/// if there is one.
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
        Counts::Configured => Submodules::new(repo, Ignore::None)?,
        Counts::BySubmodule | Counts::Given(_) => Submodules::for_plumbing(repo),
    };
    let found = match scope.unchanged {
        Unchanged::Listed => {
            trees::walk_below(repo.objects(), index, Kind::OneWay, vec![tree], BStr::new(""))?
        }
        Unchanged::Left => trees::differences(repo.objects(), index, tree)?,
    };
    let mut comparison = Comparison {
        root,
        index,
        against,
        submodules: &submodules,
        counts: scope.submodules,
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
        let is_meant = match row.slot {
            Slot::Merged(at) | Slot::Unmerged(at) => {
                is_entry_meant(row.path.as_bstr(), index.mode_at(at), scope.pathspecs)
            }
            Slot::Nothing => is_meant(index, row.path.as_bstr(), old, scope.pathspecs),
        };
        if is_meant {
            comparison.row(row.path, old, row.slot)?;
        }
    }
    comparison.rest();
    if scope.unchanged == Unchanged::Listed {
        others.extend(comparison.pairs.iter().map(|pair| pair.path.clone()));
        for entry in index.entries_in(0..index.len()).filter(|entry| entry.stage == Stage::Normal) {
            let path = index.path(&entry);
            if !others.contains(path) && is_entry_meant(path, entry.mode, scope.pathspecs) {
                let side = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
                comparison.pairs.push(Pair::new(path.to_owned(), side, side));
            }
        }
    }
    let mut pairs = comparison.pairs;
    if !pairs.is_sorted_by(|one, two| one.path < two.path) {
        pairs.sort_by(|one, two| one.path.cmp(&two.path));
        // What was found last of a path counts.
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

/// What differs between `tree` (`None` is the empty one) and `index`, as [`tree()`] has it. What is only intended to be added is not in
/// the index. `ignore` decides for submodules that do not say otherwise; `None` is what the configuration says. Of what a sparse index has as one
/// entry, or would have, the directory is meant or not, whatever is in it.
pub fn staged(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    tree: Option<ObjectId>,
    pathspecs: &Pathspecs,
    ignore: Option<Ignore>,
    sparse: Option<Collapsed<'_>>,
) -> Result<Vec<Pair>, LookError> {
    let against = Against::Index { intended: Intended::Hidden };
    let submodules = ignore.map_or(Counts::Configured, Counts::Given);
    let of = |pathspecs| {
        let scope = Scope { pathspecs, submodules, unchanged: Unchanged::Left };
        let found = self::tree(repo, root, index, tree, against, &scope)?;
        Ok::<_, LookError>(found.pairs)
    };
    let Some(sparse) = sparse.filter(|_| !pathspecs.is_empty()) else { return of(pathspecs) };
    let mut pairs = of(&Pathspecs::default())?;
    let is_file_meant = |pair: &Pair| is_meant(index, pair.path.as_bstr(), pair.old, pathspecs);
    pairs.retain(|pair| sparse.decides(pair, pathspecs).unwrap_or_else(|| is_file_meant(pair)));
    Ok(pairs)
}

struct Comparison<'a> {
    root: &'a Dir,
    index: &'a Index,
    against: Against<'a>,
    submodules: &'a Submodules<'a>,
    counts: Counts,
    unchanged: Unchanged,
    /// Those that no row was about yet.
    changes: HashMap<&'a BStr, &'a Pair>,
    unreadable: HashSet<&'a BStr>,
    pairs: Vec<Pair>,
}

impl Comparison<'_> {
    fn row(&mut self, path: BString, old: Option<Side>, slot: Slot) -> Result<(), LookError> {
        // Nothing is looked up in what is empty, as it always is for the index.
        let change = if self.changes.is_empty() { None } else { self.changes.remove(path.as_bstr()) };
        let is_unreadable = !self.unreadable.is_empty() && self.unreadable.remove(path.as_bstr());
        let (new, dirt) = match (slot, self.against) {
            (Slot::Nothing, _) => (None, Dirt::default()),
            (Slot::Unmerged(_), Against::Index { .. }) => {
                self.pairs.push(Pair { old, ..Pair::unmerged(path, None) });
                return Ok(());
            }
            (Slot::Merged(at), Against::Index { intended }) => {
                let entry = &self.index.entry(at);
                let is_hidden = intended == Intended::Hidden && entry.flags.contains(Flags::INTENT_TO_ADD);
                let side = Side { mode: entry.mode, oid: Some(entry.oid) };
                ((!is_hidden).then_some(side), Dirt::default())
            }
            (Slot::Merged(at) | Slot::Unmerged(at), Against::Worktree { missing, changes_within, .. }) => {
                let entry = &self.index.entry(at);
                let indexed = Side { mode: entry.mode, oid: Some(entry.oid) };
                match change {
                    _ if is_unreadable => (None, Dirt::default()),
                    // Where nothing of a submodule counts, nothing is told of it.
                    None if missing == Missing::Gone && !self.is_there(entry) => (None, Dirt::default()),
                    None => (Some(indexed), Dirt::default()),
                    Some(Pair { new: Some(_), .. })
                        if entry.stage != Stage::Normal && self.is_ignored(entry)? =>
                    {
                        (Some(indexed), Dirt::default())
                    }
                    Some(Pair { new: Some(file), .. })
                        if entry.stage != Stage::Normal
                            && entry.mode.is_gitlink()
                            && file.mode.is_gitlink() =>
                    {
                        let (side, dirt) = self.of_submodule(entry, changes_within)?;
                        (Some(side), dirt)
                    }
                    Some(change) => {
                        let indexed = (missing == Missing::AsIndexed).then_some(indexed);
                        (named(change, entry.oid).or(indexed), change.dirt)
                    }
                }
            }
        };
        let is_listed = self.unchanged == Unchanged::Listed && old.is_some();
        if is_listed || old != new || dirt != Dirt::default() {
            self.pairs.push(Pair { dirt, ..Pair::new(path, old, new) });
        }
        Ok(())
    }

    /// Whether something is in a submodule's place, as far as that is to be known.
    fn is_there(&self, entry: &Entry) -> bool {
        !entry.mode.is_gitlink()
            || entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID)
            || matches!(self.root.stat(self.index.path(entry)), Ok(Some(_)))
    }

    /// Whether nothing counts of what is a submodule in the index.
    fn is_ignored(&self, entry: &Entry) -> Result<bool, LookError> {
        let path = self.index.path(entry);
        Ok(entry.mode.is_gitlink() && self.counts.of(self.index, self.submodules, path)? == Ignore::All)
    }

    /// The worktree's side of an unmerged submodule. It has the entry's object ID if that commit is checked out.
    fn of_submodule(&self, entry: &Entry, changes_within: ChangesWithin) -> Result<(Side, Dirt), LookError> {
        let ignore = self.counts.of(self.index, self.submodules, self.index.path(entry))?;
        let dirt = self.submodules.dirt(self.index, entry, ignore, changes_within)?;
        Ok((Side { mode: entry.mode, oid: (!dirt.commit).then_some(entry.oid) }, dirt))
    }

    /// Entries that are the tree's, and whose files are not theirs.
    fn rest(&mut self) {
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
            if change.new.is_some() || missing == Missing::Gone {
                let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
                let pair = Pair::new(path.to_owned(), old, named(change, entry.oid));
                self.pairs.push(Pair { dirt: change.dirt, ..pair });
            }
        }
    }
}

/// Whether a path is meant: what the index has there decides, else the tree.
fn is_meant(index: &Index, path: &BStr, old: Option<Side>, pathspecs: &Pathspecs) -> bool {
    if pathspecs.is_empty() {
        return true;
    }
    let indexed = index.range_of(path).next().map(|at| index.mode_at(at));
    match indexed.or(old.map(|side| side.mode)) {
        Some(mode) => is_entry_meant(path, mode, pathspecs),
        None => pathspecs.matches(path, &mut Seen::default()),
    }
}

pub(super) fn is_entry_meant(path: &BStr, mode: Mode, pathspecs: &Pathspecs) -> bool {
    pathspecs.is_empty() || pathspecs.matches_entry(path, mode, &mut Seen::default())
}

/// Whether a pair is about a submodule of which nothing counts.
pub(super) fn is_ignored(
    index: &Index,
    pair: &Pair,
    submodules: &Submodules<'_>,
    counts: Counts,
) -> Result<bool, LookError> {
    let sides = [pair.old, pair.new].into_iter().flatten();
    if pair.status == Status::Unmerged || !sides.clone().all(|side| side.mode.is_gitlink()) {
        return Ok(false);
    }
    Ok(counts.of(index, submodules, pair.path.as_bstr())? == Ignore::All)
}

impl Counts {
    fn of(self, index: &Index, submodules: &Submodules<'_>, path: &BStr) -> Result<Ignore, LookError> {
        match self {
            Counts::Given(ignore) => Ok(ignore),
            Counts::Configured | Counts::BySubmodule => submodules.ignore(index, path),
        }
    }
}
