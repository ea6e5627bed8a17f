//! The decision: rows and facts -> edits of the index, steps for the worktree, or refusals.
//!
//! Pure, in the rows' order. What a case does is in [`cases`](super::cases); this file holds the looks at
//! the worktree that go before it: `verify_uptodate`, `verify_absent` and `verify_clean_subdirectory` in
//! Git's terms. Where reports are lists all rows are decided, else the first refusal ends it.

mod following;

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, Stage, Stat},
    path::{self, Protect},
};
use sys::FileType;

use super::{
    Force, Left, LeftKind, PlanError, Premise, Refusal, RefusalKind, Removal,
    cases::{Action, InIndex, OneWay, Source, ThreeWay, TwoWay},
    diff::{Kind, Row, Side, Slot},
    facts::{Fact, Seen, Want},
    follow::Start,
    plan::{Files, OneSided},
};
use crate::sparse::Patterns;

/// What matters of the options here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy<'a> {
    pub(super) kind: Kind,
    pub(super) force: Force,
    pub(super) files: Files,
    pub(super) protect: Protect,
    pub(super) overwrite_ignored: bool,
    /// What belongs in the worktree, where not everything does.
    pub(super) sparse: Option<&'a Sparsity<'a>>,
    pub(super) cwd: Option<&'a BStr>,
    /// Go on after a refusal.
    pub(super) report_all: bool,
    /// Submodules go along.
    pub(super) follows: bool,
}

impl Policy<'_> {
    /// The worktree is changed too.
    pub(super) fn updates(&self) -> bool {
        self.files == Files::Update
    }
}

/// A sparse worktree.
#[derive(Debug)]
pub(super) struct Sparsity<'a> {
    pub(super) patterns: &'a Patterns,
    /// For each entry of the index whether it is to be outside.
    pub(super) outside: Vec<bool>,
}

/// How an index entry passes the border of a sparse worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    /// It is in the worktree, or the worktree is not sparse.
    Inside,
    Outside,
    /// It was outside.
    Entering,
    /// It is to be outside.
    Leaving,
}

impl Policy<'_> {
    fn border(&self, at: usize, flags: Flags) -> Border {
        match self.sparse.map(|sparse| (flags.contains(Flags::SKIP_WORKTREE), sparse.outside[at])) {
            None | Some((false, false)) => Border::Inside,
            Some((true, true)) => Border::Outside,
            Some((true, false)) => Border::Entering,
            Some((false, true)) => Border::Leaving,
        }
    }

    /// Whether a path new to the index is outside.
    fn excludes(&self, path: &BStr) -> bool {
        self.sparse.is_some_and(|sparse| !sparse.patterns.keeps(path))
    }
}

/// Questions too rare to be answered ahead, and those that come last.
pub(super) trait Ask {
    /// Whether an untracked path is ignored.
    fn ignored(&mut self, path: &BStr, is_dir: bool) -> Result<bool, PlanError>;
    /// Whether there is anything untracked below directory `dir`; ignored files count only if
    /// `ignored_too`.
    fn untracked_below(&mut self, dir: &BStr, ignored_too: bool) -> Result<bool, PlanError>;
    /// What is at an index entry's path.
    fn look(&mut self, entry: usize) -> Result<Fact, PlanError>;
    /// On a file system that folds case: whether the file at `path` is in truth that of an index
    /// entry whose name differs only in case.
    fn other_case(&mut self, path: &BStr, stat: &sys::Stat) -> Result<bool, PlanError>;
    /// Whether `path`, which is behind a symbolic link, leads nowhere.
    fn leads_nowhere(&mut self, path: &BStr) -> bool;
    /// Whether the path of a submodule is that of one which goes along.
    fn follows(&mut self, path: &BStr) -> Result<bool, PlanError>;
    /// See [`Follow::may_move`](super::follow::Follow::may_move).
    fn may_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, PlanError>;
    /// What is at the paths of the entries that leave a sparse worktree, and of those that enter it.
    fn crossing(&mut self, leaving: &[usize], entering: &[usize]) -> Result<[Vec<Fact>; 2], PlanError>;
}

/// Everything decided.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// One for each path, sorted.
    pub(super) edits: Vec<Edit>,
    /// Paths to be written, in no order; each once.
    pub(super) writes: Vec<(BString, Premise)>,
    pub(super) removals: Vec<Removal>,
    pub(super) refusals: Vec<Refusal>,
    /// What is said, and refuses nothing.
    pub(super) told: Vec<Refusal>,
    /// Some path has to be merged file by file.
    pub(super) unresolved: bool,
    /// Entries that stay, and whether they now are outside of a sparse worktree.
    pub(super) skip: Vec<(usize, bool)>,
    /// Paths of a sparse worktree that are left as they are.
    pub(super) left: Vec<Left>,
}

/// The case of a row.
pub(super) fn action(row: &Row, kind: Kind, force: Force, index: &Index) -> Action {
    let held = match row.slot {
        Slot::Merged(at) => {
            let entry = &index.entries()[at];
            Some((entry.mode, entry.oid))
        }
        _ => None,
    };
    let entry = |side: Side| match side {
        Side::Entry(mode, oid) => Some((mode, oid)),
        Side::Missing | Side::Conflict => None,
    };
    let target = row.sides.last().copied().and_then(entry);
    if force == Force::Remnants && row.slot != Slot::Nothing {
        return Action::Keep;
    }
    match kind {
        Kind::OneWay => {
            OneWay { target: target.is_some(), same: held.is_some() && held == target }.decide().1
        }
        Kind::TwoWay { initial } => {
            let head = entry(row.sides[0]);
            let state = TwoWay {
                index: match row.slot {
                    Slot::Nothing => InIndex::Nothing,
                    Slot::Merged(_) => InIndex::Merged,
                    Slot::Unmerged(_) => InIndex::Unmerged,
                },
                head: head.is_some(),
                target: target.is_some(),
                index_is_head: held.is_some() && held == head,
                index_is_target: held.is_some() && held == target,
                head_is_target: head == target,
                initial,
                force: force != Force::No,
            };
            state.decide().action
        }
        Kind::Overlay => match row.sides.iter().any(|&side| entry(side).is_some()) {
            true => Action::Take(Source::Topmost),
            false => Action::Keep,
        },
        Kind::Bind if row.slot != Slot::Nothing => Action::Refuse,
        Kind::Bind => Action::Take(Source::Target),
        Kind::ThreeWay { one_sided } => {
            let (bases, sides) = row.sides.split_at(row.sides.len() - 2);
            let (ours, theirs) = (entry(sides[0]), target);
            // A base in conflict is like neither side, not even like an absent one.
            let any_base = |wanted: Option<(Mode, ObjectId)>| {
                bases.iter().any(|&base| base != Side::Conflict && entry(base) == wanted)
            };
            let state = ThreeWay {
                index: row.slot != Slot::Nothing,
                index_is_ours: held.is_some() && held == ours,
                index_is_theirs: held.is_some() && held == theirs,
                ours: ours.is_some(),
                theirs: theirs.is_some(),
                ours_conflicts: sides[0] == Side::Conflict,
                theirs_conflicts: sides[1] == Side::Conflict,
                ours_is_theirs: ours == theirs,
                base_is_ours: ours != theirs && any_base(ours),
                base_is_theirs: ours != theirs && any_base(theirs),
                some_base_missing: bases.iter().any(|&base| entry(base).is_none()),
                aggressive: one_sided == OneSided::Settle,
            };
            state.decide().action
        }
    }
}

/// What has to be asked of the worktree before `row` can be decided; the same conditions as in
/// [`Decider::uptodate`] and [`Decider::absent`].
pub(super) fn question(row: &Row, action: Action, policy: &Policy<'_>, index: &Index) -> Option<Want> {
    if policy.force == Force::Remnants || policy.files == Files::Ignore {
        return None;
    }
    let forced = policy.force != Force::No;
    let overwrites = policy.force == Force::OverwriteUntracked;
    let asks = match (action, row.slot) {
        (Action::Keep, Slot::Merged(at)) => {
            // A forced one-way merge rewrites what is not as it should be.
            let entry = &index.entries()[at];
            policy.kind == Kind::OneWay && forced && policy.updates() && !is_trusted(entry.flags)
        }
        (Action::Keep | Action::Refuse, _) | (Action::Unmerged, Slot::Nothing) => return None,
        // The result is in the index already: nothing is overwritten.
        (Action::Take(source), Slot::Merged(at)) if is_held(row, source, index, at) => return None,
        (Action::Take(_), Slot::Nothing) if policy.excludes(row.path.as_bstr()) => return None,
        (_, Slot::Nothing | Slot::Unmerged(_)) => policy.updates() && !overwrites,
        (_, Slot::Merged(at)) => {
            let flags = index.entries()[at].flags;
            let border = policy.border(at, flags);
            if border == Border::Outside {
                return None;
            }
            let doubted = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
            let is_removed_dir = action == Action::Remove && policy.updates() && !overwrites;
            doubted || !forced || is_removed_dir || border == Border::Leaving
        }
    };
    let want = if row.slot == Slot::Nothing { Want::Absence } else { Want::Stat };
    asks.then_some(want)
}

/// The side a case takes.
fn taken(row: &Row, source: Source) -> Side {
    match source {
        Source::Target => row.sides[row.sides.len() - 1],
        Source::Ours => row.sides[row.sides.len() - 2],
        Source::Topmost => {
            let entries = row.sides.iter().rev().filter(|side| matches!(side, Side::Entry(..)));
            entries.copied().next().unwrap_or(Side::Missing)
        }
    }
}

fn is_held(row: &Row, source: Source, index: &Index, at: usize) -> bool {
    let entry = &index.entries()[at];
    taken(row, source) == Side::Entry(entry.mode, entry.oid)
}

/// Entries whose files are not looked at when nothing changes: known to match, or not there on purpose.
/// What the file system monitor said last counts for nothing: it is not asked what happened since.
pub(super) fn is_trusted(flags: Flags) -> bool {
    flags.intersects(Flags::UPTODATE | Flags::SKIP_WORKTREE)
}

/// Entries whose files were never seen as they should be, and belong in the worktree.
pub(super) fn is_unfinished(entry: &Entry) -> bool {
    let elsewhere = Flags::SKIP_WORKTREE | Flags::ASSUME_VALID | Flags::INTENT_TO_ADD;
    entry.stage == Stage::Normal && entry.stat == Stat::default() && !entry.flags.intersects(elsewhere)
}

/// What becomes of a path that a case takes.
struct Taken {
    flags: Flags,
    /// `None`: nothing is written.
    premise: Option<Premise>,
}

/// What matters of an entry for the file it stands for.
#[derive(Clone, Copy)]
struct Held {
    flags: Flags,
    mode: Mode,
    oid: ObjectId,
}

impl Held {
    fn of(entry: &Entry) -> Held {
        Held { flags: entry.flags, mode: entry.mode, oid: entry.oid }
    }
}

/// A look at the worktree.
enum Look {
    Fine(Premise),
    Refused,
}

pub(super) struct Decider<'a> {
    index: &'a Index,
    policy: Policy<'a>,
    ask: &'a mut dyn Ask,
    decided: Decided,
    /// Paths that will be removed from index and worktree, and whether something may still be there then.
    removed: HashMap<BString, bool>,
    /// Index entries that went with a directory replaced by a file.
    gone: HashSet<usize>,
}

impl<'a> Decider<'a> {
    pub(super) fn new(index: &'a Index, policy: Policy<'a>, ask: &'a mut dyn Ask) -> Self {
        let (decided, removed, gone) = Default::default();
        Decider { index, policy, ask, decided, removed, gone }
    }

    /// Decides all rows, each with its fact.
    pub(super) fn run(
        mut self,
        rows: Vec<Row>,
        facts: impl IntoIterator<Item = Fact>,
    ) -> Result<Decided, PlanError> {
        let from_trees = rows.iter().position(is_left_over).unwrap_or(rows.len());
        let mut refused: Option<BString> = None;
        for (at, (row, fact)) in rows.into_iter().zip(facts).enumerate() {
            // What only the index has is not looked at once the trees gave a refusal, nor after its first.
            let stop = !self.policy.report_all || at >= from_trees;
            if stop && !self.decided.refusals.is_empty() {
                break;
            }
            // Git does not enter a directory whose own name it refused.
            if refused.as_ref().is_some_and(|above| is_below(row.path.as_bstr(), above.as_bstr())) {
                continue;
            }
            if let Some(path) = self.decide(row, &fact)? {
                refused = Some(path);
            }
        }
        if self.decided.refusals.is_empty() {
            self.cross_the_border()?;
            self.resolve_conflicting_names();
        }
        Ok(self.decided)
    }

    /// Decides a row; returns its path if it was refused.
    fn decide(&mut self, mut row: Row, fact: &Fact) -> Result<Option<BString>, PlanError> {
        if matches!(row.slot, Slot::Merged(at) if self.gone.contains(&at)) {
            if is_left_over(&row) {
                return Ok(None);
            }
            row.slot = Slot::Nothing;
        }
        let before = self.decided.refusals.len();
        match action(&row, self.policy.kind, self.policy.force, self.index) {
            Action::Keep => match row.slot {
                Slot::Merged(at)
                    if self.restores_submodules() && self.index.entries()[at].mode.is_gitlink() =>
                {
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
                let Side::Entry(mode, oid) = taken(&row, source) else {
                    unreachable!("cases take only what is there")
                };
                if let Some(taken) = self.may_take(&row, fact, mode, oid)? {
                    let from = match row.slot {
                        Slot::Merged(at) => Some(Start::Commit(self.index.entries()[at].oid)),
                        Slot::Nothing => Some(Start::Nothing),
                        Slot::Unmerged(_) => None,
                    };
                    if let Some(from) = from
                        && !self.may_become(row.path.as_bstr(), mode, oid, from)?
                    {
                        return Ok(Some(row.path));
                    }
                    self.take(row.path, mode, oid, taken);
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

    /// The entry stays; a forced one-way merge restores its file if it was changed or is gone.
    fn keep(&mut self, row: &Row, fact: &Fact) {
        if let (Force::Remnants, Slot::Merged(at)) = (self.policy.force, row.slot)
            && is_unfinished(&self.index.entries()[at])
        {
            self.decided.writes.push((row.path.clone(), Premise::Remnant));
        }
        if fact.seen != Seen::Unknown && !fact.clean && self.policy.kind == Kind::OneWay {
            self.decided.writes.push((row.path.clone(), Premise::Anything));
        }
    }

    /// Git's `merged_entry`: what must be true of the path when the entry is written, and the entry's flags. `None` if
    /// nothing changes, or it was refused.
    fn may_take(
        &mut self,
        row: &Row,
        fact: &Fact,
        mode: Mode,
        oid: ObjectId,
    ) -> Result<Option<Taken>, PlanError> {
        let path = row.path.as_bstr();
        let mut flags = Flags::empty();
        let mut border = Border::Inside;
        let look = match row.slot {
            Slot::Nothing if self.policy.excludes(path) => {
                (flags, border) = (Flags::SKIP_WORKTREE, Border::Outside);
                Look::Fine(Premise::Absent)
            }
            Slot::Nothing => {
                let kind = RefusalKind::UntrackedOverwritten;
                let before = self.decided.refusals.len();
                match self.absent(path, (mode, oid), fact, kind, Strict::Yes)? {
                    Look::Refused if self.policy.sparse.is_some() => {
                        self.leave_refused(before, kind, LeftKind::Present);
                        return Ok(Some(Taken { flags, premise: None }));
                    }
                    look => look,
                }
            }
            Slot::Merged(at) => {
                let entry = &self.index.entries()[at];
                if (entry.mode, entry.oid) == (mode, oid) {
                    self.may_become(path, mode, oid, Start::Commit(oid))?;
                    return Ok(None);
                }
                border = self.policy.border(at, entry.flags);
                flags = match border {
                    Border::Inside => entry.flags & Flags::SKIP_WORKTREE,
                    Border::Entering => Flags::empty(),
                    Border::Outside | Border::Leaving => Flags::SKIP_WORKTREE,
                };
                let look = self.uptodate(path, border, Held::of(entry), fact)?;
                if let (Border::Entering, Look::Fine(_)) = (border, &look) {
                    self.verdict(path, LeftKind::Present, |decider, path| {
                        decider.absent(
                            path,
                            (mode, oid),
                            fact,
                            RefusalKind::UntrackedOverwritten,
                            Strict::Yes,
                        )
                    })?;
                }
                if let (Border::Leaving, Look::Fine(premise)) = (border, &look) {
                    let (path, premise, gitlink) =
                        (path.to_owned(), premise.clone(), entry.mode.is_gitlink());
                    self.decided.removals.push(Removal { path, premise, gitlink });
                }
                look
            }
            Slot::Unmerged(_) => {
                let kind = RefusalKind::UntrackedOverwritten;
                self.absent(path, (mode, oid), fact, kind, Strict::No)?
            }
        };
        let Look::Fine(premise) = look else { return Ok(None) };
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
        let is_written = matches!(border, Border::Inside | Border::Entering);
        Ok(Some(Taken { flags, premise: is_written.then_some(premise) }))
    }

    fn take(&mut self, path: BString, mode: Mode, oid: ObjectId, Taken { flags, premise }: Taken) {
        let entry = NewEntry { stat: Stat::default(), oid, mode, flags, stage: Stage::Normal };
        if let Some(premise) = premise.filter(|_| self.policy.updates()) {
            self.decided.writes.push((path.clone(), premise));
        }
        self.decided.edits.push(Edit { path, entries: vec![entry] });
    }

    /// Git's `deleted_entry`.
    fn remove(&mut self, row: &Row, fact: &Fact) -> Result<(), PlanError> {
        let path = row.path.as_bstr();
        let kind = RefusalKind::UntrackedRemoved;
        let held = match row.slot {
            Slot::Nothing => {
                let entry = row.sides.iter().find_map(|side| match side {
                    Side::Entry(mode, oid) => Some((*mode, *oid)),
                    _ => None,
                });
                let entry = entry.expect("a path that is nowhere is no row");
                self.absent(path, entry, fact, kind, Strict::Yes)?;
                return Ok(());
            }
            Slot::Merged(at) | Slot::Unmerged(at) => Held::of(&self.index.entries()[at]),
        };
        let mode = held.mode;
        let border = match row.slot {
            Slot::Merged(at) => self.policy.border(at, held.flags),
            _ => Border::Inside,
        };
        // A two-way merge removes the old tree's entry, which knows nothing of the border.
        let removed = match (self.policy.kind, border) {
            (Kind::TwoWay { .. }, Border::Leaving | Border::Entering) => Border::Inside,
            (_, border) => border,
        };
        let mut premise = Premise::Absent;
        if matches!(removed, Border::Inside | Border::Entering) {
            let Look::Fine(seen) = self.absent(path, (mode, held.oid), fact, kind, Strict::No)? else {
                return Ok(());
            };
            premise = seen;
        }
        if let Slot::Merged(_) = row.slot {
            let Look::Fine(seen) = self.uptodate(path, border, held, fact)? else { return Ok(()) };
            premise = seen;
            self.tell_of_removal(path, removed, mode, fact);
        }
        self.drop_path(path, mode, premise, removed);
        Ok(())
    }

    /// What goes and passes the border as well Git calls left, and removes: an entry that is to go is never up to date.
    fn tell_of_removal(&mut self, path: &BStr, border: Border, mode: Mode, fact: &Fact) {
        if let (Border::Leaving, Seen::There(_), false) = (border, fact.seen, mode.is_gitlink()) {
            self.leave(LeftKind::NotUptodate, path);
        }
    }

    fn drop_path(&mut self, path: &BStr, mode: Mode, premise: Premise, border: Border) {
        self.decided.edits.push(Edit { path: path.to_owned(), entries: Vec::new() });
        let gitlink = mode.is_gitlink();
        // What is outside and there all the same is still there when its place is taken.
        self.removed.insert(path.to_owned(), gitlink || border == Border::Outside);
        if self.policy.updates() && border != Border::Outside {
            self.decided.removals.push(Removal { path: path.to_owned(), premise, gitlink });
        }
    }

    /// "No merge": the stages are kept, of the bases only the first, and none where both sides went
    /// back to different bases (case 16).
    fn unmerged(&mut self, row: &Row, fact: &Fact) -> Result<(), PlanError> {
        if let Slot::Merged(at) = row.slot {
            let entry = &self.index.entries()[at];
            let border = self.policy.border(at, entry.flags);
            if let Look::Refused = self.uptodate(row.path.as_bstr(), border, Held::of(entry), fact)? {
                return Ok(());
            }
        }
        self.decided.unresolved = true;
        let (bases, sides) = row.sides.split_at(row.sides.len() - 2);
        let is_like = |side: Side| {
            let side = if side == Side::Conflict { Side::Missing } else { side };
            bases.contains(&side)
        };
        let without_conflict = |side: Side| if side == Side::Conflict { Side::Missing } else { side };
        let differ = without_conflict(sides[0]) != without_conflict(sides[1]);
        let both_went_back = differ && is_like(sides[0]) && is_like(sides[1]);
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

    /// Git's `verify_uptodate`: the file may be overwritten, being the index entry's, or missing.
    fn uptodate(
        &mut self,
        path: &BStr,
        border: Border,
        Held { flags, mode, oid }: Held,
        fact: &Fact,
    ) -> Result<Look, PlanError> {
        let doubted = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
        if border == Border::Outside {
            return Ok(Look::Fine(Premise::Absent));
        }
        if self.policy.files == Files::Ignore {
            return Ok(Look::Fine(Premise::Anything));
        }
        if !doubted && self.policy.force != Force::No {
            return Ok(Look::Fine(Premise::Anything));
        }
        Ok(match fact.seen {
            Seen::Absent => Look::Fine(Premise::Absent),
            Seen::There(_) if self.follows(path, mode)? => {
                match self.may_move(path, Start::Head, Some(oid))? {
                    true => Look::Fine(Premise::Anything),
                    false => {
                        self.refuse(RefusalKind::NotUptodateFile, path);
                        Look::Refused
                    }
                }
            }
            // Git does not care what became of a submodule: it goes, with all that is in it.
            Seen::There(_) if mode.is_gitlink() => Look::Fine(Premise::Anything),
            Seen::There(stat) if fact.clean => Look::Fine(Premise::Unchanged(Box::new(stat))),
            // For Git, whose lstat follows it, the file is missing; the link is what may go.
            Seen::Blocked(_, stat) if stat.file_type == FileType::Symlink && self.ask.leads_nowhere(path) => {
                Look::Fine(Premise::Anything)
            }
            _ => {
                self.refuse(RefusalKind::NotUptodateFile, path);
                Look::Refused
            }
        })
    }

    /// Git's `verify_absent`: nothing untracked is at `path`, where an entry of `mode` is to be made or
    /// removed.
    fn absent(
        &mut self,
        path: &BStr,
        (mode, oid): (Mode, ObjectId),
        fact: &Fact,
        kind: RefusalKind,
        strict: Strict,
    ) -> Result<Look, PlanError> {
        if !self.policy.updates() {
            return Ok(Look::Fine(Premise::Absent));
        }
        if self.policy.force == Force::Remnants {
            return Ok(Look::Fine(Premise::Remnant));
        }
        if self.policy.force == Force::OverwriteUntracked {
            if self.policy.cwd == Some(path) {
                self.refuse(RefusalKind::CwdInTheWay, path);
                return Ok(Look::Refused);
            }
            return Ok(Look::Fine(Premise::Anything));
        }
        // Beside what Git asks here: it leaves what is not the submodule's to fate.
        if matches!(fact.seen, Seen::There(_))
            && self.follows(path, mode)?
            && !self.may_move(path, Start::Commit(oid), None)?
        {
            return Ok(Look::Refused);
        }
        let (at, stat, is_dir, whole) = match fact.seen {
            Seen::Absent | Seen::Unknown => return Ok(Look::Fine(Premise::Absent)),
            Seen::Blocked(len, stat) => {
                (path[..len].as_bstr(), stat, stat.file_type == FileType::Directory, false)
            }
            Seen::There(stat) => (path, stat, mode.is_gitlink(), true),
        };
        if self.ask.other_case(at, &stat)? {
            return Ok(Look::Fine(Premise::Anything));
        }
        if self.policy.overwrite_ignored && self.ask.ignored(at, is_dir)? {
            if !whole && kind == RefusalKind::UntrackedOverwritten {
                self.remove_blocker(at, &stat);
            }
            return Ok(Look::Fine(Premise::Anything));
        }
        if stat.file_type == FileType::Directory {
            return self.clean_subdirectory(path, mode);
        }
        if strict == Strict::No {
            return Ok(Look::Fine(Premise::Anything));
        }
        match self.removed.get(at) {
            Some(false) => return Ok(Look::Fine(Premise::Absent)),
            // Removing a submodule is removing an empty directory: a file in its place is still there.
            Some(true) => return Ok(Look::Fine(Premise::Anything)),
            None => {}
        }
        self.refuse(kind, at);
        Ok(Look::Refused)
    }

    /// An ignored file where a directory has to be made.
    fn remove_blocker(&mut self, path: &BStr, stat: &sys::Stat) {
        if self.removed.insert(path.to_owned(), false).is_none() {
            let premise = Premise::Unchanged(Box::new(*stat));
            self.decided.removals.push(Removal { path: path.to_owned(), premise, gitlink: false });
        }
    }

    /// Git's `verify_clean_subdirectory`: the directory at `path`, to be replaced, holds nothing but clean
    /// tracked files (they go) and ignored ones.
    fn clean_subdirectory(&mut self, path: &BStr, mode: Mode) -> Result<Look, PlanError> {
        if mode.is_gitlink() {
            return Ok(Look::Fine(Premise::Directory));
        }
        for at in self.adjacent_below(path) {
            let entry = &self.index.entries()[at];
            if entry.stage != Stage::Normal || self.gone.contains(&at) {
                continue;
            }
            let below = self.index.path(entry);
            let fact = self.ask.look(at)?;
            let border = self.policy.border(at, entry.flags);
            let Look::Fine(premise) = self.uptodate(below, border, Held::of(entry), &fact)? else {
                return Ok(Look::Refused);
            };
            self.tell_of_removal(below, border, entry.mode, &fact);
            self.drop_path(below, entry.mode, premise, border);
            self.gone.insert(at);
        }
        if self.ask.untracked_below(path, !self.policy.overwrite_ignored)? {
            self.refuse(RefusalKind::NotUptodateDir, path);
            return Ok(Look::Refused);
        }
        if self.policy.cwd == Some(path) {
            self.refuse(RefusalKind::CwdInTheWay, path);
            return Ok(Look::Refused);
        }
        Ok(Look::Fine(Premise::Anything))
    }

    fn leave(&mut self, kind: LeftKind, path: &BStr) {
        self.decided.left.push(Left { kind, path: path.to_owned() });
    }

    /// Git's `apply_sparse_checkout`, for the entries no row has changed: files of those that are outside now go, those
    /// of the others come. What is not as it should be is left, with a warning.
    fn cross_the_border(&mut self) -> Result<(), PlanError> {
        if self.policy.sparse.is_none() {
            return Ok(());
        }
        let index = self.index;
        self.decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
        let mut edits = self.decided.edits.iter().map(|edit| edit.path.as_bstr()).peekable();
        let (mut leaving, mut entering) = (Vec::new(), Vec::new());
        for (at, entry) in index.entries().iter().enumerate() {
            let path = index.path(entry);
            while edits.next_if(|edited| *edited < path).is_some() {}
            if entry.stage != Stage::Normal || edits.peek() == Some(&path) {
                continue;
            }
            match self.policy.border(at, entry.flags) {
                Border::Leaving => leaving.push(at),
                Border::Entering => entering.push(at),
                Border::Inside | Border::Outside => {}
            }
        }
        let overwrites = self.policy.kind == Kind::OneWay && self.policy.force != Force::No;
        let [left, entered] = self.ask.crossing(&leaving, &entering)?;
        for (at, fact) in leaving.into_iter().zip(left) {
            let held = Held::of(&index.entries()[at]);
            let mode = held.mode;
            // Being marked by now it is looked at, however much it is trusted; what a reset would write is not.
            let flags = if overwrites { Flags::empty() } else { Flags::SKIP_WORKTREE };
            self.verdict(index.path_at(at), LeftKind::NotUptodate, |decider, path| {
                let look = decider.uptodate(path, Border::Leaving, Held { flags, ..held }, &fact)?;
                if let Look::Fine(premise) = &look {
                    let (path, premise, gitlink) = (path.to_owned(), premise.clone(), mode.is_gitlink());
                    decider.decided.removals.push(Removal { path, premise, gitlink });
                    decider.decided.skip.push((at, true));
                }
                Ok(look)
            })?;
        }
        // What a forced merge would write is outside now.
        let left = &self.decided.skip;
        self.decided.writes.retain(|(path, _)| {
            let at = index.position(path.as_bstr(), Stage::Normal);
            !at.is_ok_and(|at| left.binary_search(&(at, true)).is_ok())
        });
        for (at, fact) in entering.into_iter().zip(entered) {
            let entry = (index.entries()[at].mode, index.entries()[at].oid);
            self.decided.skip.push((at, false));
            self.verdict(index.path_at(at), LeftKind::Present, |decider, path| {
                let kind = RefusalKind::UntrackedOverwritten;
                let look = decider.absent(path, entry, &fact, kind, Strict::Yes)?;
                if let Look::Fine(premise) = &look {
                    decider.decided.writes.push((path.to_owned(), premise.clone()));
                }
                Ok(look)
            })?;
        }
        self.decided.left.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Makes a warning of a refusal.
    fn verdict(
        &mut self,
        path: &BStr,
        kind: LeftKind,
        look: impl FnOnce(&mut Self, &BStr) -> Result<Look, PlanError>,
    ) -> Result<(), PlanError> {
        let before = self.decided.refusals.len();
        if let Look::Refused = look(self, path)? {
            let expected = match kind {
                LeftKind::NotUptodate => RefusalKind::NotUptodateFile,
                _ => RefusalKind::UntrackedOverwritten,
            };
            self.leave_refused(before, expected, kind);
        }
        Ok(())
    }

    /// Makes warnings of the refusals from number `from` on: those `expected` are of this kind.
    fn leave_refused(&mut self, from: usize, expected: RefusalKind, kind: LeftKind) {
        for Refusal { kind: why, path } in self.decided.refusals.split_off(from) {
            let kind = if why == expected { kind } else { LeftKind::Refused(why) };
            self.decided.left.push(Left { kind, path });
        }
    }

    /// The index entries below `path`, if they come right where `path` itself would: Git does not look
    /// past a `path-x` or `path.c`. What is missed here is still decided as a row of its own.
    fn adjacent_below(&self, path: &BStr) -> std::ops::Range<usize> {
        let entries = self.index.entries();
        let at = entries.partition_point(|entry| self.index.path(entry) < path);
        let below = self.index.range_below(path);
        if below.start == at { below } else { at..at }
    }

    /// An index cannot hold both a path and something below it: as in Git, what was added last stays.
    /// Edits come out sorted, one for each path.
    fn resolve_conflicting_names(&mut self) {
        let decided = &mut self.decided;
        decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
        // The last of several edits of a path counts.
        decided.edits.reverse();
        decided.edits.dedup_by(|a, b| a.path == b.path);
        decided.edits.reverse();
        let index = self.index;
        if matches!(self.policy.kind, Kind::Overlay | Kind::ThreeWay { .. }) {
            give_way(index, &mut decided.edits);
        }
        if index.entries().is_empty() {
            return;
        }
        let edited =
            |path: &BStr| decided.edits.binary_search_by(|edit| edit.path.as_bstr().cmp(path)).is_ok();
        let merged = |at: usize| index.entries()[at].stage == Stage::Normal;
        let mut replaced = HashSet::new();
        let mut lost = HashSet::new();
        let mut last_dir = BStr::new("");
        let mut at = 0;
        // Only merged entries are looked at: stages of different names may conflict in an index.
        let is_merged = |edit: &&Edit| edit.entries.first().is_some_and(|entry| entry.stage == Stage::Normal);
        for edit in decided.edits.iter().filter(is_merged) {
            let path = edit.path.as_bstr();
            at = index.seek(at, path);
            // What is below a path has it as a prefix, and so has all that comes between.
            let next = index.entries().get(at).map(|entry| index.path(entry));
            let maybe_above = next.is_some_and(|next| next != path && next.starts_with(path));
            if maybe_above && index.range_below(path).any(|at| merged(at) && !edited(index.path_at(at))) {
                lost.insert(edit.path.clone());
            }
            let dir = path.rfind_byte(b'/').map_or(BStr::new(""), |slash| path[..slash].as_bstr());
            if dir == last_dir {
                continue;
            }
            for end in dir.find_iter("/").chain((!dir.is_empty()).then_some(dir.len())) {
                let above = dir[..end].as_bstr();
                if last_dir == above || is_below(last_dir, above) {
                    continue;
                }
                if index.range_of(above).any(merged) && !edited(above) {
                    replaced.insert(above.to_owned());
                }
            }
            last_dir = dir;
        }
        if replaced.is_empty() && lost.is_empty() {
            return;
        }
        decided.edits.retain(|edit| !lost.contains(&edit.path));
        decided.writes.retain(|(path, _)| !lost.contains(path));
        decided.edits.extend(replaced.into_iter().map(|path| Edit { path, entries: Vec::new() }));
        decided.edits.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Where one tree has a file and another a directory, both of one stage: Git adds what is below a name after the
/// name, and it stays; but only the first path that is added below it is held against the name. `edits` are sorted.
fn give_way(index: &Index, edits: &mut [Edit]) {
    for at in 0..edits.len() {
        let (edit, after) = edits[at..].split_first_mut().expect("in range");
        if edit.entries.is_empty() {
            continue;
        }
        let bound = [edit.path.as_slice(), b"/"].concat();
        let first = after.partition_point(|other| other.path.as_slice() < bound.as_slice());
        let Some(below) = after.get(first).filter(|other| other.path.starts_with(&bound)) else { continue };
        let kept = index.range_below(edit.path.as_bstr()).next();
        if kept.is_none_or(|kept| index.path_at(kept) >= below.path) {
            edit.entries.retain(|entry| below.entries.iter().all(|other| other.stage != entry.stage));
        }
    }
}

/// Whether an untracked file counts, or only an untracked directory's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strict {
    Yes,
    No,
}

fn is_below(path: &BStr, dir: &BStr) -> bool {
    path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// A path only the index has.
fn is_left_over(row: &Row) -> bool {
    row.sides.iter().all(|side| *side == Side::Missing)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
