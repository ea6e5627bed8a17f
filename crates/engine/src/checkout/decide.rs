//! The decision: from rows and facts to edits of the index and steps for the worktree, or refusals.
//!
//! The code is pure. For each row, in order, it finds the case ([`case`], by the table of
//! [`cases`](super::cases)), checks the worktree ([`worktree`], [`submodules`]), and records the
//! action. At the end it handles entries that enter or leave a sparse worktree
//! ([`sparse_checkout`]), and names that cannot coexist ([`names`]). An operation that reports all
//! refusals decides all rows. Otherwise the first refusal ends the loop.

mod case;
mod names;
mod sparse_checkout;
mod submodules;
mod worktree;

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, Stage, Stat},
    path::{self, Protect},
};
use sys::FileType;

use self::case::source_side;
pub(super) use self::case::{action, is_trusted, is_unfinished, needed_query};
use super::{
    Force, Premise, Refusal, RefusalKind, Removal, SparseLeftover, SparseLeftoverKind,
    cases::Action,
    follow::Start,
    plan::{Files, Vouched},
};
use crate::look::{
    LookError,
    facts::{Fact, Seen},
    sparse::{Patterns, Walk},
    trees::{Kind, Row, Side, Slot},
};

/// The options that affect the decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy<'a> {
    pub(super) kind: Kind,
    pub(super) force: Force,
    pub(super) files: Files,
    pub(super) protect: Protect,
    pub(super) overwrite_ignored: bool,
    /// The definition of a sparse worktree; `None` for a full one.
    pub(super) sparse: Option<&'a Sparsity<'a>>,
    pub(super) cwd: Option<&'a BStr>,
    /// True to continue after a refusal.
    pub(super) report_all: bool,
    /// True if submodules are moved too.
    pub(super) recurse_submodules: bool,
    /// See [`Vouched`].
    pub(super) vouched: Vouched,
}

impl Policy<'_> {
    /// Returns true if the worktree is changed too.
    pub(super) fn updates(&self) -> bool {
        self.files == Files::Update
    }
}

/// The definition of a sparse worktree.
#[derive(Debug)]
pub(super) struct Sparsity<'a> {
    patterns: &'a Patterns,
    /// The walk over the paths that are new to the index.
    walk: RefCell<Walk>,
    /// For each entry of the index, true if it belongs outside of the worktree.
    pub(super) outside: Vec<bool>,
}

impl<'a> Sparsity<'a> {
    pub(super) fn new(patterns: &'a Patterns, index: &Index) -> Sparsity<'a> {
        Sparsity { patterns, walk: RefCell::default(), outside: patterns.outside(index) }
    }
}

/// The position of an index entry in a sparse worktree, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SparseState {
    /// The entry is in the worktree, or the worktree is full.
    Inside,
    Outside,
    /// The entry was outside of the sparse worktree, and enters it.
    Entering,
    /// The entry was inside the sparse worktree, and leaves it.
    Leaving,
}

impl Policy<'_> {
    fn sparse_state(&self, at: usize, flags: Flags) -> SparseState {
        match self.sparse.map(|sparse| (flags.contains(Flags::SKIP_WORKTREE), sparse.outside[at])) {
            None | Some((false, false)) => SparseState::Inside,
            Some((true, true)) => SparseState::Outside,
            Some((true, false)) => SparseState::Entering,
            Some((false, true)) => SparseState::Leaving,
        }
    }

    /// Returns true if a path that is new to the index lies outside of the sparse worktree.
    fn excludes(&self, path: &BStr) -> bool {
        self.sparse.is_some_and(|sparse| !sparse.walk.borrow_mut().keeps(sparse.patterns, path))
    }
}

/// Lookups in the worktree that are too rare to be done for all rows in advance, and those of the
/// last steps.
pub(super) trait Queries {
    /// Returns true if an untracked path is ignored.
    fn is_ignored(&mut self, path: &BStr, is_dir: bool) -> Result<bool, LookError>;
    /// Returns true if an untracked file is below the directory `dir`. Ignored files count only if
    /// `ignored_too`.
    fn untracked_below(&mut self, dir: &BStr, ignored_too: bool) -> Result<bool, LookError>;
    /// Returns the fact about the file of an index entry.
    fn examine(&mut self, entry: usize) -> Result<Fact, LookError>;
    /// Returns true if, on a file system that ignores case, the file at `path` belongs to an index
    /// entry whose name differs only in case.
    fn is_other_case(&mut self, path: &BStr, stat: &sys::Stat) -> Result<bool, LookError>;
    /// Returns true if `path`, which has a symbolic link as a parent directory, does not resolve to
    /// a file.
    fn is_dangling(&mut self, path: &BStr) -> bool;
    /// Returns true if the submodule at `path` is moved together with its superproject.
    fn follows(&mut self, path: &BStr) -> Result<bool, LookError>;
    /// See [`Follow::can_move`](super::follow::Follow::can_move).
    fn can_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError>;
    /// Returns the facts about the entries that leave a sparse worktree, and about those that enter
    /// it.
    fn sparse_facts(&mut self, leaving: &[usize], entering: &[usize]) -> Result<[Vec<Fact>; 2], LookError>;
}

/// The result of the decision.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// One edit for each path, sorted.
    pub(super) edits: Vec<Edit>,
    /// The paths to write, each once, in arbitrary order.
    pub(super) writes: Vec<(BString, Premise)>,
    pub(super) removals: Vec<Removal>,
    pub(super) refusals: Vec<Refusal>,
    /// Messages that do not refuse the operation.
    pub(super) notices: Vec<Refusal>,
    /// True if a path has to be merged file by file.
    pub(super) unresolved: bool,
    /// Unchanged entries whose position relative to the sparse worktree changes. The value is true
    /// if the entry is outside now.
    pub(super) sparse_marks: Vec<(usize, bool)>,
    /// Paths that stay in the worktree contrary to the sparse patterns.
    pub(super) sparse_leftovers: Vec<SparseLeftover>,
}

/// The flags and the premise of a taken entry.
struct TakenEntry {
    flags: Flags,
    /// `None` if no file is written.
    premise: Option<Premise>,
}

/// The properties of an index entry that affect its file.
#[derive(Clone, Copy)]
struct IndexedEntry {
    flags: Flags,
    mode: Mode,
    oid: ObjectId,
}

impl IndexedEntry {
    fn of(entry: &Entry) -> IndexedEntry {
        IndexedEntry { flags: entry.flags, mode: entry.mode, oid: entry.oid }
    }
}

/// The result of a check of the worktree.
enum Check {
    Allowed(Premise),
    Refused,
}

pub(super) struct Decider<'a> {
    index: &'a Index,
    policy: Policy<'a>,
    queries: &'a mut dyn Queries,
    decided: Decided,
    /// Paths that will be removed from the index and the worktree. The value is true if a file may
    /// still be there afterwards.
    removed: HashMap<BString, bool>,
    /// Index entries that were removed together with a directory that a file replaces.
    removed_entries: HashSet<usize>,
}

impl<'a> Decider<'a> {
    pub(super) fn new(index: &'a Index, policy: Policy<'a>, queries: &'a mut dyn Queries) -> Self {
        let (decided, removed, removed_entries) = Default::default();
        Decider { index, policy, queries, decided, removed, removed_entries }
    }

    /// Decides all rows, each with its fact.
    pub(super) fn run(
        mut self,
        rows: Vec<Row>,
        facts: impl IntoIterator<Item = Fact>,
    ) -> Result<Decided, LookError> {
        let from_trees = rows.iter().position(is_index_only).unwrap_or(rows.len());
        let mut refused: Option<BString> = None;
        for (at, (row, fact)) in rows.into_iter().zip(facts).enumerate() {
            // Paths only in the index are skipped after a refusal from the trees, and after their
            // own first refusal.
            let stop = !self.policy.report_all || at >= from_trees;
            if stop && !self.decided.refusals.is_empty() {
                break;
            }
            // Git does not enter a directory whose own name it has refused.
            if refused.as_ref().is_some_and(|above| is_below(row.path.as_bstr(), above.as_bstr())) {
                continue;
            }
            if let Some(path) = self.decide(row, &fact)? {
                refused = Some(path);
            }
        }
        if self.decided.refusals.is_empty() {
            self.apply_sparse_checkout()?;
            self.resolve_conflicting_names();
        }
        Ok(self.decided)
    }

    /// Decides a row. Returns its path if it was refused.
    fn decide(&mut self, mut row: Row, fact: &Fact) -> Result<Option<BString>, LookError> {
        if matches!(row.slot, Slot::Merged(at) if self.removed_entries.contains(&at)) {
            if is_index_only(&row) {
                return Ok(None);
            }
            row.slot = Slot::Nothing;
        }
        let before = self.decided.refusals.len();
        match action(&row, self.policy.kind, self.policy.force, self.index) {
            Action::Keep => match row.slot {
                Slot::Merged(at) if self.restores_submodules() && self.index.entry(at).mode.is_gitlink() => {
                    self.keep_submodule(&row, at, fact)?;
                }
                _ => self.keep(&row, fact),
            },
            Action::Refuse => {
                let kind = match (self.policy.kind, row.sides[0]) {
                    (Kind::Bind, Side::Entry(..)) => RefusalKind::BindOverlap,
                    (Kind::Bind, _) => RefusalKind::BindOverlapDirectory,
                    _ => RefusalKind::WouldOverwrite,
                };
                self.refuse(kind, row.path.as_bstr());
            }
            Action::Take(source) => {
                let Side::Entry(mode, oid) = source_side(&row, source) else {
                    unreachable!("cases take only what is there")
                };
                if let Some(source_side) = self.check_take(&row, fact, mode, oid)? {
                    let from = match row.slot {
                        Slot::Merged(at) => Some(Start::Commit(self.index.entry(at).oid)),
                        Slot::Nothing => Some(Start::Nothing),
                        Slot::Unmerged(_) => None,
                    };
                    if let Some(from) = from
                        && !self.can_become(row.path.as_bstr(), mode, oid, from)?
                    {
                        return Ok(Some(row.path));
                    }
                    self.take(row.path, mode, oid, source_side);
                    return Ok(None);
                }
            }
            Action::Remove => self.remove(&row, fact)?,
            Action::Unmerged => self.unmerged(&row, fact)?,
        }
        Ok((self.decided.refusals.len() > before).then_some(row.path))
    }

    fn refuse(&mut self, kind: RefusalKind, path: &BStr) {
        self.decided.refusals.push(Refusal { kind, path: path.to_owned() });
    }

    /// Keeps the entry. A forced one-way merge restores its file if that is changed or missing.
    fn keep(&mut self, row: &Row, fact: &Fact) {
        if let (Force::Remnants, Slot::Merged(at)) = (self.policy.force, row.slot)
            && is_unfinished(&self.index.entry(at))
        {
            self.decided.writes.push((row.path.clone(), Premise::Remnant));
        }
        if fact.seen != Seen::Unknown && !fact.clean && self.policy.kind == Kind::OneWay {
            self.decided.writes.push((row.path.clone(), Premise::Anything));
        }
    }

    /// Git's `merged_entry`: checks a path before its entry is taken, and returns the entry's flags
    /// and premise. Returns `None` if nothing changes, or if the path was refused.
    fn check_take(
        &mut self,
        row: &Row,
        fact: &Fact,
        mode: Mode,
        oid: ObjectId,
    ) -> Result<Option<TakenEntry>, LookError> {
        let path = row.path.as_bstr();
        let mut flags = Flags::empty();
        let mut sparse_state = SparseState::Inside;
        let check = match row.slot {
            Slot::Nothing if self.policy.excludes(path) => {
                (flags, sparse_state) = (Flags::SKIP_WORKTREE, SparseState::Outside);
                Check::Allowed(Premise::Absent)
            }
            Slot::Nothing => {
                let kind = RefusalKind::UntrackedOverwritten;
                let before = self.decided.refusals.len();
                match self.verify_absent(path, mode, oid, fact, kind, Strict::Yes)? {
                    Check::Refused if self.policy.sparse.is_some() => {
                        self.turn_into_leftovers(before, kind, SparseLeftoverKind::Present);
                        return Ok(Some(TakenEntry { flags, premise: None }));
                    }
                    check => check,
                }
            }
            Slot::Merged(at) => {
                let entry = &self.index.entry(at);
                if (entry.mode, entry.oid) == (mode, oid) {
                    self.can_become(path, mode, oid, Start::Commit(oid))?;
                    return Ok(None);
                }
                sparse_state = self.policy.sparse_state(at, entry.flags);
                flags = match sparse_state {
                    SparseState::Inside => entry.flags & Flags::SKIP_WORKTREE,
                    SparseState::Entering => Flags::empty(),
                    SparseState::Outside | SparseState::Leaving => Flags::SKIP_WORKTREE,
                };
                let check = self.verify_uptodate(path, sparse_state, IndexedEntry::of(entry), fact)?;
                if let (SparseState::Entering, Check::Allowed(_)) = (sparse_state, &check) {
                    self.keep_on_refusal(path, SparseLeftoverKind::Present, |decider, path| {
                        decider.verify_absent(
                            path,
                            mode,
                            oid,
                            fact,
                            RefusalKind::UntrackedOverwritten,
                            Strict::Yes,
                        )
                    })?;
                }
                if let (SparseState::Leaving, Check::Allowed(premise)) = (sparse_state, &check) {
                    let (path, premise, gitlink) =
                        (path.to_owned(), premise.clone(), entry.mode.is_gitlink());
                    self.decided.removals.push(Removal { path, premise, gitlink });
                }
                check
            }
            Slot::Unmerged(_) => {
                let kind = RefusalKind::UntrackedOverwritten;
                self.verify_absent(path, mode, oid, fact, kind, Strict::No)?
            }
        };
        let Check::Allowed(premise) = check else { return Ok(None) };
        if path::verify(path, mode, self.policy.protect).is_err() {
            self.refuse(RefusalKind::InvalidPath, path);
            return Ok(None);
        }
        let premise = match fact.seen {
            Seen::There(stat) if mode.is_gitlink() && stat.file_type == FileType::Directory => {
                Premise::Directory
            }
            _ => premise,
        };
        let is_written = matches!(sparse_state, SparseState::Inside | SparseState::Entering);
        Ok(Some(TakenEntry { flags, premise: is_written.then_some(premise) }))
    }

    fn take(&mut self, path: BString, mode: Mode, oid: ObjectId, TakenEntry { flags, premise }: TakenEntry) {
        let entry = NewEntry { stat: Stat::default(), oid, mode, flags, stage: Stage::Normal };
        if let Some(premise) = premise.filter(|_| self.policy.updates()) {
            self.decided.writes.push((path.clone(), premise));
        }
        self.decided.edits.push(Edit { path, entries: vec![entry] });
    }

    /// Git's `deleted_entry`.
    fn remove(&mut self, row: &Row, fact: &Fact) -> Result<(), LookError> {
        let path = row.path.as_bstr();
        let kind = RefusalKind::UntrackedRemoved;
        let held = match row.slot {
            Slot::Nothing => {
                let entry = row.sides.iter().find_map(|side| match side {
                    Side::Entry(mode, oid) => Some((*mode, *oid)),
                    _ => None,
                });
                let (mode, oid) = entry.expect("a path that is nowhere is no row");
                self.verify_absent(path, mode, oid, fact, kind, Strict::Yes)?;
                return Ok(());
            }
            Slot::Merged(at) | Slot::Unmerged(at) => IndexedEntry::of(&self.index.entry(at)),
        };
        let mode = held.mode;
        let sparse_state = match row.slot {
            Slot::Merged(at) => self.policy.sparse_state(at, held.flags),
            _ => SparseState::Inside,
        };
        // A two-way merge removes the old tree's entry, which has no skip-worktree flag.
        let removed = match (self.policy.kind, sparse_state) {
            (Kind::TwoWay { .. }, SparseState::Leaving | SparseState::Entering) => SparseState::Inside,
            (_, sparse_state) => sparse_state,
        };
        let mut premise = Premise::Absent;
        if matches!(removed, SparseState::Inside | SparseState::Entering) {
            let Check::Allowed(seen) = self.verify_absent(path, mode, held.oid, fact, kind, Strict::No)?
            else {
                return Ok(());
            };
            premise = seen;
        }
        if let Slot::Merged(_) = row.slot {
            let Check::Allowed(seen) = self.verify_uptodate(path, sparse_state, held, fact)? else {
                return Ok(());
            };
            premise = seen;
            self.warn_of_removal(path, removed, mode, fact);
        }
        self.record_removal(path, mode, premise, removed);
        // For the same reason Git removes the directories above an entry outside if they are empty.
        if let (Kind::TwoWay { .. }, SparseState::Outside, true) =
            (self.policy.kind, removed, self.policy.updates())
        {
            let (path, gitlink) = (path.to_owned(), mode.is_gitlink());
            self.decided.removals.push(Removal { path, premise: Premise::Absent, gitlink });
        }
        Ok(())
    }

    /// Warns about an entry that is removed and also leaves the sparse worktree. Git prints that
    /// the file is left because it is not up to date, and removes it: a removed entry is never
    /// marked up to date.
    fn warn_of_removal(&mut self, path: &BStr, sparse_state: SparseState, mode: Mode, fact: &Fact) {
        if let (SparseState::Leaving, Seen::There(_), false) = (sparse_state, fact.seen, mode.is_gitlink()) {
            self.add_leftover(SparseLeftoverKind::NotUptodate, path);
        }
    }

    fn record_removal(&mut self, path: &BStr, mode: Mode, premise: Premise, sparse_state: SparseState) {
        self.decided.edits.push(Edit { path: path.to_owned(), entries: Vec::new() });
        let gitlink = mode.is_gitlink();
        // A file outside of the sparse worktree that exists anyway is still there when its path is
        // reused.
        self.removed.insert(path.to_owned(), gitlink || sparse_state == SparseState::Outside);
        if self.policy.updates() && sparse_state != SparseState::Outside {
            self.decided.removals.push(Removal { path: path.to_owned(), premise, gitlink });
        }
    }

    /// "No merge": keeps the stages. Only the first base is kept, and none if both sides equal
    /// different bases (case 16).
    fn unmerged(&mut self, row: &Row, fact: &Fact) -> Result<(), LookError> {
        if let Slot::Merged(at) = row.slot {
            let entry = &self.index.entry(at);
            let sparse_state = self.policy.sparse_state(at, entry.flags);
            if let Check::Refused =
                self.verify_uptodate(row.path.as_bstr(), sparse_state, IndexedEntry::of(entry), fact)?
            {
                return Ok(());
            }
        }
        self.decided.unresolved = true;
        let (bases, sides) = row.sides.split_at(row.sides.len() - 2);
        let matches_a_base = |side: Side| {
            let side = if side == Side::Conflict { Side::Missing } else { side };
            bases.contains(&side)
        };
        let without_conflict = |side: Side| if side == Side::Conflict { Side::Missing } else { side };
        let differ = without_conflict(sides[0]) != without_conflict(sides[1]);
        let both_went_back = differ && matches_a_base(sides[0]) && matches_a_base(sides[1]);
        let base = bases.iter().copied().find(|side| matches!(side, Side::Entry(..)));
        let base = base.filter(|_| !both_went_back).unwrap_or(Side::Missing);
        let stages = [(Stage::Base, base), (Stage::Ours, sides[0]), (Stage::Theirs, sides[1])];
        let entries = stages.into_iter().filter_map(|(stage, side)| match side {
            Side::Entry(mode, oid) => {
                Some(NewEntry { stat: Stat::default(), oid, mode, flags: Flags::empty(), stage })
            }
            _ => None,
        });
        self.decided.edits.push(Edit { path: row.path.clone(), entries: entries.collect() });
        Ok(())
    }
}

/// The strictness of [`Decider::verify_absent`]: `Yes` refuses an untracked file, `No` only
/// untracked content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strict {
    Yes,
    No,
}

fn is_below(path: &BStr, dir: &BStr) -> bool {
    path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Returns true for a path that only the index has.
fn is_index_only(row: &Row) -> bool {
    row.sides.iter().all(|side| *side == Side::Missing)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
