//! Planning for paths: `checkout [<tree>] -- <paths>`, `restore`, and resets of the index alone.
//!
//! The same walk as for whole trees finds what differs; the pathspecs choose. Worktree files are
//! written by what their stat says, as Git's `checkout_entry` does: a touched file counts as changed.

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
    content::{self, Lazy},
    facts::{self, Seen, Want},
    pathspec::{Pathspecs, Seen as Matched},
    sparse::Patterns,
    stat::{Match, StatRules},
    trees::{self, Kind, Row, Side, Slot},
};

/// What is to be brought where.
#[derive(Clone, Copy, Debug)]
pub struct PathOptions<'a> {
    /// The tree to take entries from; `None`: they are in the index already.
    pub source: Option<ObjectId>,
    /// Which paths.
    pub pathspecs: &'a Pathspecs,
    /// Keep what the source does not have; otherwise it is removed.
    pub overlay: bool,
    /// Change the worktree, not the index alone.
    pub update_worktree: bool,
    /// `--ignore-skip-worktree-bits`
    pub include_sparse: bool,
    /// Submodules go along: they are checked out whatever is there.
    pub follows: bool,
    /// `--ours`, `--theirs`: what becomes of unmerged paths.
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

/// A plan, and what may speak against it.
#[derive(Debug)]
pub struct PathPlan {
    /// What would be done. Unmerged paths of which no side is taken are left out.
    pub plan: Plan,
    /// Chosen paths of the tree that no index may hold, in index order: Git names them and goes on.
    pub invalid: Vec<BString>,
    /// Pathspecs, as given, that no path matched.
    pub unmatched: Vec<BString>,
    /// Chosen paths that are unmerged and, with a side to be taken, do not have it (and are to be kept).
    pub unmerged: Vec<BString>,
}

/// Decides what to do about the chosen paths.
pub fn plan_paths(
    repo: &repo::Repository,
    worktree: &Dir,
    index: Index,
    options: &PathOptions<'_>,
) -> Result<PathPlan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let mut index = index;
    let mut taken: Option<HashSet<BString>> = None;
    let mut invalid = Vec::new();
    if let Some(tree) = options.source {
        let (mut edits, mut paths) = take_from(repo, &index, tree, options.pathspecs)?;
        invalid = edits.drop_invalid(Settings::of(repo)?.protect);
        paths.retain(|path| !invalid.contains(path));
        apply(repo, &mut index, edits)?;
        taken = Some(paths);
    }
    let mut seen = Matched::default();
    let (mut chosen, mut removed, mut unmerged) = (Vec::new(), Vec::new(), Vec::new());
    let mut sides = Vec::new();
    for (at, entry) in index.entries().iter().enumerate() {
        if entry.flags.contains(Flags::SKIP_WORKTREE) && !options.include_sparse {
            continue;
        }
        let path = index.path(entry);
        let from_tree = taken.as_ref().is_none_or(|taken| taken.contains(path));
        if (options.overlay && !from_tree) || !options.pathspecs.matches_entry(path, entry.mode, &mut seen) {
            continue;
        }
        if entry.stage != Stage::Normal {
            if index.range_of(path).start != at {
                continue;
            }
            match options.side.map(|side| index.position(path, side.stage())) {
                Some(Ok(side)) => chosen.push(side),
                Some(Err(_)) if !options.overlay => sides.push((path.to_owned(), entry.mode)),
                _ => unmerged.push(path.to_owned()),
            }
        } else if from_tree {
            chosen.push(at);
        } else {
            removed.push((path.to_owned(), entry.mode));
        }
    }
    let unmatched = options.pathspecs.unseen(&seen).map(BStr::to_owned).collect();
    let stale = match options.update_worktree {
        true => changed(repo, worktree, &index, &chosen, options.follows)?,
        false => Vec::new(),
    };
    let named = |at: usize| (index.path_at(at).to_owned(), index.entries()[at].stage);
    let stale: Vec<(BString, Stage)> = stale.into_iter().map(named).collect();
    let gone = removed.iter().map(|(path, _)| Edit { path: path.clone(), entries: Vec::new() });
    index.apply(gone.collect());
    // The side that was taken has no file: its conflict stays in the index.
    removed.append(&mut sides);
    removed.sort();
    let removals = removed.into_iter().filter(|_| options.update_worktree).map(|(path, mode)| Removal {
        path,
        premise: Premise::Anything,
        gitlink: mode.is_gitlink(),
    });
    let writes = stale.iter().filter_map(|(path, stage)| {
        let entry = index.position(path.as_bstr(), *stage).ok()?;
        Some(Write { entry, premise: Premise::Anything })
    });
    let plan = Plan { writes: writes.collect(), removals: removals.collect(), warnings: Vec::new(), index };
    Ok(PathPlan { plan, invalid, unmatched, unmerged })
}

/// Which of the chosen entries' files are not theirs.
fn changed(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    chosen: &[usize],
    follows: bool,
) -> Result<Vec<usize>, LookError> {
    let rules = StatRules::of(repo)?;
    let questions: Vec<(&BStr, Want)> = chosen.iter().map(|&at| (index.path_at(at), Want::Stat)).collect();
    let seen = facts::probe(worktree, index, &questions)?;
    let mut racy = Vec::new();
    let mut changed = Vec::new();
    for (&at, seen) in chosen.iter().zip(&seen) {
        match seen {
            Seen::There(_) if follows && index.entries()[at].mode.is_gitlink() => changed.push(at),
            Seen::There(stat) => match rules.compare(&index.entries()[at], stat, index.timestamp) {
                Match::Same => {}
                Match::Racy => racy.push(at),
                Match::Touched | Match::Different => changed.push(at),
            },
            _ => changed.push(at),
        }
    }
    let same = content::same_content(worktree, index, &racy, &Lazy::new(repo, index))?;
    changed.extend(racy.into_iter().zip(same).filter(|(_, same)| !same).map(|(at, _)| at));
    changed.sort_unstable();
    Ok(changed)
}

/// The edits that bring the chosen paths of `tree` into the index, and these paths.
fn take_from(
    repo: &repo::Repository,
    index: &Index,
    tree: ObjectId,
    pathspecs: &Pathspecs,
) -> Result<(Edits, HashSet<BString>), LookError> {
    let found = trees::walk(repo.objects(), index, Kind::OneWay, vec![Some(tree)])?;
    let mut taken = HashSet::new();
    let mut edits = Edits::default();
    let mut seen = Matched::default();
    for at in found.same.iter().flat_map(Clone::clone) {
        let path = index.path_at(at);
        if pathspecs.matches_entry(path, index.entries()[at].mode, &mut seen) {
            taken.insert(path.to_owned());
        }
    }
    for row in &found.rows {
        let Side::Entry(mode, oid) = row.sides[0] else { continue };
        if !pathspecs.matches_entry(row.path.as_bstr(), mode, &mut seen) {
            continue;
        }
        taken.insert(row.path.clone());
        if !is_entry(index, row, mode, oid) {
            edits.set(index, row.path.clone(), new_entry(mode, oid, Flags::empty()));
        }
    }
    Ok((edits, taken))
}

/// Whether the index already holds exactly this at the row's path.
fn is_entry(index: &Index, row: &Row, mode: Mode, oid: ObjectId) -> bool {
    let Slot::Merged(at) = row.slot else { return false };
    let entry = &index.entries()[at];
    (entry.mode, entry.oid) == (mode, oid) && !entry.flags.contains(Flags::INTENT_TO_ADD)
}

fn new_entry(mode: Mode, oid: ObjectId, flags: Flags) -> NewEntry {
    NewEntry { stat: Stat::default(), oid, mode, flags, stage: Stage::Normal }
}

/// Edits by path.
#[derive(Default)]
struct Edits(BTreeMap<BString, Vec<NewEntry>>);

impl Edits {
    /// Puts `entry` at `path`; files it cannot be beside make room.
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

    /// Takes out what no index may hold.
    fn drop_invalid(&mut self, protect: Protect) -> Vec<BString> {
        let invalid = |(path, entries): (&BString, &Vec<NewEntry>)| {
            let is = entries.iter().any(|entry| path::verify(path.as_bstr(), entry.mode, protect).is_err());
            is.then(|| path.clone())
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
    /// What it is to be like.
    pub tree: ObjectId,
    /// Which paths; `None` for all.
    pub pathspecs: Option<&'a Pathspecs>,
    /// Keep paths the tree does not have as intended to be added.
    pub intent_to_add: bool,
    /// What new paths are marked by that do not belong in the worktree.
    pub sparse: Option<&'a Patterns>,
}

/// The plan of `reset --mixed`: a new index and nothing to do in the worktree.
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
    let marks = |index: &Index, row: &Row| match row.slot {
        Slot::Merged(at) => index.entries()[at].flags & Flags::SKIP_WORKTREE,
        _ if options.sparse.is_some_and(|patterns| !patterns.includes(row.path.as_bstr())) => {
            Flags::SKIP_WORKTREE
        }
        _ => Flags::empty(),
    };
    for row in found.rows {
        let path = row.path.as_bstr();
        let mode = match (row.sides[0], row.slot) {
            (Side::Entry(mode, _), _) => mode,
            (_, Slot::Merged(at) | Slot::Unmerged(at)) => index.entries()[at].mode,
            _ => Mode::FILE,
        };
        if options.pathspecs.is_some_and(|specs| !specs.matches_entry(path, mode, &mut seen)) {
            continue;
        }
        match row.sides[0] {
            Side::Entry(mode, oid) if !is_entry(&index, &row, mode, oid) => {
                let flags = marks(&index, &row);
                edits.set(&index, row.path, new_entry(mode, oid, flags));
            }
            Side::Entry(..) => {}
            Side::Missing | Side::Conflict if row.slot == Slot::Nothing => {}
            Side::Missing | Side::Conflict if options.intent_to_add => {
                let empty = ObjectId::empty_blob(index.hash);
                let flags = Flags::INTENT_TO_ADD | marks(&index, &row);
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
