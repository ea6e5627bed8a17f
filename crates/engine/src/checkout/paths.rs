//! Plans for paths: `checkout [<tree>] -- <paths>`, `restore`, and resets of the index alone.
//!
//! The walk that serves whole trees finds the differences; the pathspecs select among them. A
//! worktree file is written if its stat has changed: like Git's `checkout_entry`, the plan counts a
//! touched file as changed.

use std::collections::{BTreeMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Edit, Flags, Index, NewEntry, Stage, Stat},
    path::{self, Protect},
};
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{Plan, Premise, Removal, Write, plan::Settings};
use crate::look::{
    LookError, cache_tree,
    content::{self, LazyConverter},
    facts::{self, QueryKind, Seen},
    pathspec::{Pathspecs, Seen as Matched},
    sparse::Patterns,
    stat::{Match, StatRules},
    trees::{self, Kind, Row, Side, Slot},
};

/// Options for checking out paths.
#[derive(Clone, Copy, Debug)]
pub struct PathOptions<'a> {
    /// The tree that supplies the entries. `None` means the index.
    pub source: Option<ObjectId>,
    /// The selected paths.
    pub pathspecs: &'a Pathspecs,
    /// Keep paths that the source lacks. Otherwise they are removed.
    pub overlay: bool,
    /// Change the worktree, not the index alone.
    pub update_worktree: bool,
    /// `--ignore-skip-worktree-bits`
    pub include_sparse: bool,
    /// Check out submodules too, in any state.
    pub recurse_submodules: bool,
    /// `--ours`, `--theirs`: the side to take of unmerged paths.
    pub side: Option<ConflictSide>,
}

/// A side of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictSide {
    /// `--ours`
    Ours,
    /// `--theirs`
    Theirs,
}

impl ConflictSide {
    fn stage(self) -> Stage {
        match self {
            ConflictSide::Ours => Stage::Ours,
            ConflictSide::Theirs => Stage::Theirs,
        }
    }
}

/// A plan, and the problems found.
#[derive(Debug)]
pub struct PathPlan {
    /// The planned steps. Unmerged paths without a chosen side are omitted.
    pub plan: Plan,
    /// Selected paths of the tree that are invalid in an index, in index order. Git reports them
    /// and continues.
    pub invalid: Vec<BString>,
    /// Pathspecs without a match, as given.
    pub unmatched: Vec<BString>,
    /// Selected unmerged paths that are kept. If a side was requested, they lack it.
    pub unmerged: Vec<BString>,
}

/// Plans the checkout of the selected paths.
pub fn plan_paths(
    repo: &repo::Repository,
    worktree: &Dir,
    index: Index,
    options: &PathOptions<'_>,
) -> Result<PathPlan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let mut index = index;
    let mut source_paths: Option<HashSet<BString>> = None;
    let mut invalid = Vec::new();
    if let Some(tree) = options.source {
        let (mut edits, mut paths) = edits_from_tree(repo, &index, tree, options.pathspecs)?;
        invalid = edits.remove_invalid(Settings::of(repo)?.protect);
        paths.retain(|path| !invalid.contains(path));
        apply(repo, &mut index, edits)?;
        source_paths = Some(paths);
    }
    let mut seen = Matched::default();
    let (mut selected, mut removed, mut unmerged) = (Vec::new(), Vec::new(), Vec::new());
    let mut sides = Vec::new();
    for (at, entry) in index.iter().enumerate() {
        if entry.flags.contains(Flags::SKIP_WORKTREE) && !options.include_sparse {
            continue;
        }
        let path = index.path_at(at);
        let from_tree = source_paths.as_ref().is_none_or(|source_paths| source_paths.contains(path));
        if (options.overlay && !from_tree) || !options.pathspecs.matches_entry(path, entry.mode, &mut seen) {
            continue;
        }
        if entry.stage != Stage::Normal {
            if index.range_of(path).start != at {
                continue;
            }
            match options.side.map(|side| index.position(path, side.stage())) {
                Some(Ok(side)) => selected.push(side),
                Some(Err(_)) if !options.overlay => sides.push((path.to_owned(), entry.mode)),
                _ => unmerged.push(path.to_owned()),
            }
        } else if from_tree {
            selected.push(at);
        } else {
            removed.push((path.to_owned(), entry.mode));
        }
    }
    let unmatched = options.pathspecs.unseen(&seen).map(BStr::to_owned).collect();
    let changed = if options.update_worktree {
        find_changed(repo, worktree, &index, &selected, options.recurse_submodules)?
    } else {
        Vec::new()
    };
    let named = |at: usize| (index.path_at(at).to_owned(), index.entry(at).stage);
    let changed: Vec<(BString, Stage)> = changed.into_iter().map(named).collect();
    let gone = removed.iter().map(|(path, _)| Edit { path: path.clone(), entries: Vec::new() });
    index.apply(gone.collect());
    // A conflict without a file on the requested side stays in the index.
    removed.append(&mut sides);
    removed.sort();
    let removals = removed.into_iter().filter(|_| options.update_worktree).map(|(path, mode)| Removal {
        path,
        premise: Premise::Anything,
        gitlink: mode.is_gitlink(),
    });
    let writes = changed.iter().filter_map(|(path, stage)| {
        let entry = index.position(path.as_bstr(), *stage).ok()?;
        Some(Write { entry, premise: Premise::Anything })
    });
    let plan = Plan { writes: writes.collect(), removals: removals.collect(), warnings: Vec::new(), index };
    Ok(PathPlan { plan, invalid, unmatched, unmerged })
}

/// Returns the selected entries whose files differ.
fn find_changed(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    selected: &[usize],
    recurse_submodules: bool,
) -> Result<Vec<usize>, LookError> {
    let rules = StatRules::of(repo)?;
    let queries: Vec<(&BStr, QueryKind)> =
        selected.iter().map(|&at| (index.path_at(at), QueryKind::Stat)).collect();
    let seen = facts::probe(worktree, index, &queries)?;
    let mut racy = Vec::new();
    let mut changed = Vec::new();
    for (&at, seen) in selected.iter().zip(&seen) {
        match seen {
            Seen::There(_) if recurse_submodules && index.entry(at).mode.is_gitlink() => changed.push(at),
            Seen::There(stat) => match rules.compare(&index.entry(at), stat, index.timestamp) {
                Match::Same => {}
                Match::Racy => racy.push(at),
                Match::Touched | Match::Different => changed.push(at),
            },
            _ => changed.push(at),
        }
    }
    let same = content::same_content(worktree, index, &racy, &LazyConverter::new(repo, index), None)?;
    changed.extend(racy.into_iter().zip(same).filter(|(_, same)| !same).map(|(at, _)| at));
    changed.sort_unstable();
    Ok(changed)
}

/// Returns the edits that bring the selected paths of `tree` into the index, and these paths.
fn edits_from_tree(
    repo: &repo::Repository,
    index: &Index,
    tree: ObjectId,
    pathspecs: &Pathspecs,
) -> Result<(Edits, HashSet<BString>), LookError> {
    let found = trees::walk(repo.objects(), index, Kind::OneWay, vec![Some(tree)])?;
    let mut source_paths = HashSet::new();
    let mut edits = Edits::default();
    let mut seen = Matched::default();
    for at in found.same.iter().flat_map(Clone::clone) {
        let path = index.path_at(at);
        if pathspecs.matches_entry(path, index.entry(at).mode, &mut seen) {
            source_paths.insert(path.to_owned());
        }
    }
    for row in &found.rows {
        let Side::Entry(mode, oid) = row.sides[0] else { continue };
        if !pathspecs.matches_entry(row.path.as_bstr(), mode, &mut seen) {
            continue;
        }
        source_paths.insert(row.path.clone());
        if !is_in_index(index, row, mode, oid) {
            edits.set(index, row.path.clone(), new_entry(mode, oid, Flags::empty()));
        }
    }
    Ok((edits, source_paths))
}

/// Returns true if the index already holds this entry, merged, at the row's path.
fn is_in_index(index: &Index, row: &Row, mode: Mode, oid: ObjectId) -> bool {
    let Slot::Merged(at) = row.slot else { return false };
    let entry = &index.entry(at);
    (entry.mode, entry.oid) == (mode, oid) && !entry.flags.contains(Flags::INTENT_TO_ADD)
}

fn new_entry(mode: Mode, oid: ObjectId, flags: Flags) -> NewEntry {
    NewEntry { stat: Stat::default(), oid, mode, flags, stage: Stage::Normal }
}

/// Edits by path.
#[derive(Default)]
struct Edits(BTreeMap<BString, Vec<NewEntry>>);

impl Edits {
    /// Sets the entry at `path`. Entries that cannot coexist with it are removed.
    fn set(&mut self, index: &Index, path: BString, entry: NewEntry) {
        for slash in path.find_iter("/") {
            let above = path[..slash].as_bstr();
            if !index.range_of(above).is_empty() {
                self.0.entry(above.to_owned()).or_default();
            }
        }
        for at in index.range_below(path.as_bstr()) {
            self.0.entry(index.path_at(at).to_owned()).or_default();
        }
        self.0.insert(path, vec![entry]);
    }

    /// Removes the paths that are invalid in an index, and returns them.
    fn remove_invalid(&mut self, protect: Protect) -> Vec<BString> {
        let invalid = |(path, entries): (&BString, &Vec<NewEntry>)| {
            let is_invalid =
                entries.iter().any(|entry| path::verify(path.as_bstr(), entry.mode, protect).is_err());
            is_invalid.then(|| path.clone())
        };
        let invalid: Vec<BString> = self.0.iter().filter_map(invalid).collect();
        self.0.retain(|path, _| !invalid.contains(path));
        invalid
    }

    fn remove(&mut self, path: BString) {
        self.0.entry(path).or_default();
    }
}

fn apply(repo: &repo::Repository, index: &mut Index, edits: Edits) -> Result<(), LookError> {
    let protect = Settings::of(repo)?.protect;
    for (path, entries) in &edits.0 {
        for entry in entries {
            path::verify(path.as_bstr(), entry.mode, protect)
                .map_err(|_| LookError::InvalidPath(path.clone()))?;
        }
    }
    index.apply(edits.0.into_iter().map(|(path, entries)| Edit { path, entries }).collect());
    Ok(())
}

/// A reset of the index alone.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions<'a> {
    /// The tree that the index will equal.
    pub tree: ObjectId,
    /// The selected paths; `None` means all.
    pub pathspecs: Option<&'a Pathspecs>,
    /// Keep paths that the tree lacks as intent-to-add entries.
    pub intent_to_add: bool,
    /// The sparse patterns: new paths outside of the sparse worktree get the skip-worktree flag.
    pub sparse: Option<&'a Patterns>,
}

/// Returns the plan of `reset --mixed`: a new index, and no steps for the worktree.
pub fn plan_index(
    repo: &repo::Repository,
    index: Index,
    options: &IndexOptions<'_>,
) -> Result<Plan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let mut index = index;
    let found = trees::walk(repo.objects(), &index, Kind::OneWay, vec![Some(options.tree)])?;
    let mut edits = Edits::default();
    let mut seen = Matched::default();
    let sparse_flags = |index: &Index, row: &Row| match row.slot {
        Slot::Merged(at) => index.entry(at).flags & Flags::SKIP_WORKTREE,
        _ if options.sparse.is_some_and(|patterns| !patterns.includes(row.path.as_bstr())) => {
            Flags::SKIP_WORKTREE
        }
        _ => Flags::empty(),
    };
    for row in found.rows {
        let path = row.path.as_bstr();
        let mode = match (row.sides[0], row.slot) {
            (Side::Entry(mode, _), _) => mode,
            (_, Slot::Merged(at) | Slot::Unmerged(at)) => index.entry(at).mode,
            _ => Mode::FILE,
        };
        if options.pathspecs.is_some_and(|specs| !specs.matches_entry(path, mode, &mut seen)) {
            continue;
        }
        match row.sides[0] {
            Side::Entry(mode, oid) if !is_in_index(&index, &row, mode, oid) => {
                let flags = sparse_flags(&index, &row);
                edits.set(&index, row.path, new_entry(mode, oid, flags));
            }
            Side::Entry(..) => {}
            Side::Missing | Side::Conflict if row.slot == Slot::Nothing => {}
            Side::Missing | Side::Conflict if options.intent_to_add => {
                let empty = ObjectId::empty_blob(index.hash);
                let flags = Flags::INTENT_TO_ADD | sparse_flags(&index, &row);
                edits.set(&index, row.path, new_entry(Mode::FILE, empty, flags));
            }
            Side::Missing | Side::Conflict => edits.remove(row.path),
        }
    }
    apply(repo, &mut index, edits)?;
    if options.pathspecs.is_none() {
        cache_tree::complete(&mut index, &|oid, _| repo.objects().contains(oid));
    }
    Ok(Plan { index, writes: Vec::new(), removals: Vec::new(), warnings: Vec::new() })
}
