//! The decision: rows and facts -> edits of the index, steps for the worktree, or refusals.
//!
//! Pure, in the rows' order: which case a row is ([`case`], by the table of [`cases`](super::cases)), what of the worktree stands
//! against it ([`worktree`], [`following`]), what then becomes of it. In the end what passes the border of a sparse worktree
//! ([`border`]), and names that exclude each other ([`names`]). Where reports are lists all rows are decided, else the first refusal
//! ends it.

mod border;
mod case;
mod following;
mod names;
mod worktree;

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, Stage, Stat},
    path::{self, Protect},
};
use sys::FileType;

use self::case::taken;
pub(super) use self::case::{action, is_trusted, is_unfinished, question};
use super::{
    Force, Left, LeftKind, Premise, Refusal, RefusalKind, Removal, cases::Action, follow::Start, plan::Files,
};
use crate::look::{
    LookError,
    facts::{Fact, Seen},
    sparse::Patterns,
    trees::{Kind, Row, Side, Slot},
};

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
    fn ignored(&mut self, path: &BStr, is_dir: bool) -> Result<bool, LookError>;
    /// Whether there is anything untracked below directory `dir`; ignored files count only if
    /// `ignored_too`.
    fn untracked_below(&mut self, dir: &BStr, ignored_too: bool) -> Result<bool, LookError>;
    /// What is at an index entry's path.
    fn look(&mut self, entry: usize) -> Result<Fact, LookError>;
    /// On a file system that folds case: whether the file at `path` is in truth that of an index
    /// entry whose name differs only in case.
    fn other_case(&mut self, path: &BStr, stat: &sys::Stat) -> Result<bool, LookError>;
    /// Whether `path`, which is behind a symbolic link, leads nowhere.
    fn leads_nowhere(&mut self, path: &BStr) -> bool;
    /// Whether the path of a submodule is that of one which goes along.
    fn follows(&mut self, path: &BStr) -> Result<bool, LookError>;
    /// See [`Follow::may_move`](super::follow::Follow::may_move).
    fn may_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError>;
    /// What is at the paths of the entries that leave a sparse worktree, and of those that enter it.
    fn crossing(&mut self, leaving: &[usize], entering: &[usize]) -> Result<[Vec<Fact>; 2], LookError>;
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
    ) -> Result<Decided, LookError> {
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
    fn decide(&mut self, mut row: Row, fact: &Fact) -> Result<Option<BString>, LookError> {
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
    ) -> Result<Option<Taken>, LookError> {
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
    fn remove(&mut self, row: &Row, fact: &Fact) -> Result<(), LookError> {
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
    fn unmerged(&mut self, row: &Row, fact: &Fact) -> Result<(), LookError> {
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
