//! Undo and redo: the worktree and the index of another entry.
//!
//! Order: the index lock; the present state as objects; the way to the entry, and every refusal.
//! Then, in the run: the entry of the present state, unless the newest entry is equal; the files;
//! the index; with [`Request::head`] the branch and HEAD; the entry of the state that was reached.
//! Planning stores objects, which nothing names if the plan is dropped.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkpoint::undo};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = undo::Request { goal: undo::Goal::Back(2), ..undo::Request::default() };
//! let report = undo::plan(&repository, request)?.run(&Silent)?;
//! println!("at the state of checkpoint {}", report.reached);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use engine::{
    checkpoint::{self, LeftOut, Planned, Route, Snapshot, State},
    stash,
};
use format::{ObjectId, index::Index};
use repo::{Head, Repository as Opened};
use store::refs::{Change, Expected};

use super::{
    Entry,
    info::{Info, Kind, Place},
    limits::Limits,
    present::Present,
    series::Series,
    untracked_since,
};
use crate::{
    Context, Error, Events, HeadChange, Notice, PlanError, Repository, RunError,
    events::Notices,
    refs, text,
    transaction::{Done, IndexTransaction, Recorded, Start},
};

/// The entry to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// This number of entries back. A present state without an entry counts as one.
    Back(u64),
    /// Back to where this number of undos came from.
    Forward(u64),
    /// This entry.
    To(u64),
}

impl Default for Goal {
    fn default() -> Goal {
        Goal::Back(1)
    }
}

/// The options of an undo or redo.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The entry to restore.
    pub goal: Goal,
    /// HEAD, and the branch it was on, are restored too.
    pub head: bool,
    /// The command that asked for it.
    pub command: BString,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The entry whose state the worktree has.
    pub reached: u64,
    /// Its label.
    pub label: BString,
    /// The entry of the state before, if it had none.
    pub saved: Option<u64>,
    /// The entry of the state that was reached; `None` if it was not reached completely.
    pub number: Option<u64>,
    /// The number of files that were written.
    pub written: usize,
    /// The number of files that were removed, or should have been.
    pub removed: usize,
    /// True if files were changed meanwhile, or could not be written or removed; the notices name
    /// them. They stay as they are.
    pub is_incomplete: bool,
    /// The paths of the state before that no entry holds. They stay as they are.
    pub left_out: Vec<LeftOut>,
}

/// An undo that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Prepared<'r>,
    notices: Vec<Notice>,
}

/// Plans an undo or redo.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let prepared = prepare(repository.recording_context(&notices), request)?;
    let prepared = prepared.with_context(repository.recording_context(&crate::Silent));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and restores the entry.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(prepared.with_context(repository.recording_context(events)).execute()?)
    }
}

/// The tree of an entry whose objects exist, and the facts in it.
struct Pending {
    tree: ObjectId,
    info: Info,
}

/// A planned undo, with the index locked.
pub struct Prepared<'a> {
    transaction: IndexTransaction<'a>,
    series: Series,
    limits: Limits,
    planned: Planned,
    /// The entry of the present state, unless it has one.
    saved: Option<Pending>,
    /// The entry of the state that is reached.
    after: Pending,
    head: HeadChanges,
    report: Report,
}

/// The changes of HEAD and its branch.
struct HeadChanges {
    changes: Vec<Change>,
    /// HEAD as it was when they were planned.
    before: Head,
}

impl HeadChanges {
    /// Returns an error if HEAD has another value now: the changes would move a branch that it is
    /// not on.
    fn check(&self, context: Context<'_>) -> Result<(), Error> {
        if self.changes.is_empty() || context.repo.head()? == self.before {
            return Ok(());
        }
        Err(Error::Failed("HEAD was changed meanwhile; try again".into()))
    }

    fn apply(self, context: Context<'_>) -> Result<(), Error> {
        self.check(context)?;
        if self.changes.is_empty() {
            return Ok(());
        }
        let moved = store::refs::apply(&refs::options(context)?, self.changes);
        moved.map_err(|error| Error::cannot_move_head(HeadChange::Reset)(error.into()))
    }
}

/// Stores the present state, and plans the way to the entry.
pub fn prepare(context: Context<'_>, request: Request) -> Result<Prepared<'_>, PlanError> {
    let limits = Limits::read(context.repo)?;
    let mut transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    transaction.policy.original_cwd = request.keep.clone();
    transaction.query_monitor()?;
    let series = Series::find(context.repo)?;
    let newest = series.newest(context);
    // An ignored file that the newest entry holds is a part of the present state, too.
    let mut also = newest.as_ref().map_or_else(Vec::new, |newest| {
        untracked_since(context, transaction.worktree(), &transaction.index, &series, newest)
    });
    let mut known = None;
    loop {
        let mut index = transaction.index.clone();
        let present = Present::take(context, transaction.worktree(), &mut index, &also)?;
        let way = Way::find(context.repo, &series, newest.as_ref(), &present, &request, known)?;
        let head = head_changes(context, &request, &way.target)?;
        let kind = if matches!(request.goal, Goal::Forward(_)) { Kind::Redo } else { Kind::Undo };
        let saved = match way.saved {
            Some(place) => Some(pending(&present, &present.snapshot.state, Kind::Left, place, &request)?),
            None => None,
        };
        let state = way.target.state;
        let mut after = present.info(kind, way.place, &request.command);
        if request.head {
            (after.head, after.branch) = (way.target.info.head, way.target.info.branch.clone());
        }
        let after = Pending { tree: present.entry(&state, &after)?, info: after };
        let snapshot = present.publish()?;
        let planned = plan_files(&transaction, index, &snapshot, &state);
        let planned = planned.map_err(|error| match error {
            Error::Checkpoint(error) if error.is_about_objects() => {
                series.unreadable(way.target.number, error.to_string())
            }
            error => error,
        })?;
        if let Some(path) = planned.unheld.iter().find(|path| also.contains(path)) {
            // The snapshot could not hold it, because nobody can read it.
            return Err(Error::from(checkpoint::Error::InTheWay(path.clone())).into());
        }
        if !planned.unheld.is_empty() {
            // The present state must hold ignored files that are in the way.
            also.extend(planned.unheld);
            known = Some(way.target.number);
            continue;
        }
        let report = Report {
            reached: way.target.number,
            label: way.target.info.label,
            removed: planned.plan.removals.len(),
            left_out: [&snapshot.left_out[..], &planned.left_out].concat(),
            ..Report::default()
        };
        return Ok(Prepared { transaction, series, limits, planned, saved, after, head, report });
    }
}

fn pending(
    present: &Present<'_>,
    state: &State,
    kind: Kind,
    place: Place,
    request: &Request,
) -> Result<Pending, Error> {
    let info = present.info(kind, place, &request.command);
    Ok(Pending { tree: present.entry(state, &info)?, info })
}

/// Plans the files of `target`. `index` has the content of the present files.
pub(super) fn plan_files(
    transaction: &IndexTransaction<'_>,
    index: Index,
    present: &Snapshot,
    target: &State,
) -> Result<Planned, Error> {
    let context = transaction.context();
    let patterns = transaction.patterns()?;
    let big_file_threshold = context.settings.big_file_threshold;
    let keep = transaction.policy.original_cwd.as_ref().map(|keep| keep.as_bstr());
    let route = Route { present, target, patterns: patterns.as_deref(), big_file_threshold, keep };
    Ok(checkpoint::plan(context.repo, transaction.worktree(), index, &route)?)
}

/// The entry to restore, and the places of the entries that the run makes.
struct Way {
    target: Entry,
    /// The place of the entry of the present state, if it needs one.
    saved: Option<Place>,
    /// The place of the state that is reached.
    place: Place,
}

impl Way {
    /// `known` is the entry to restore, if it was found before ignored files were added to the
    /// present state.
    fn find(
        repo: &Opened,
        series: &Series,
        newest: Option<&Entry>,
        present: &Present<'_>,
        request: &Request,
        known: Option<u64>,
    ) -> Result<Way, Error> {
        let is_same_head = |entry: &Entry| {
            let now = present.info(Kind::Left, entry.info.place, &request.command);
            (entry.info.head, &entry.info.branch) == (now.head, &now.branch)
        };
        let is_held =
            |entry: &&Entry| entry.state == present.snapshot.state && (!request.head || is_same_head(entry));
        let held = newest.filter(is_held);
        let saved = match held {
            Some(_) => None,
            None => Some(Place::New { parent: newest.map(Entry::place) }),
        };
        let tip = match (held, newest, request.goal) {
            (Some(entry), ..) | (None, Some(entry), Goal::Forward(_)) => entry.tip(),
            // The entry of the present state will be the next one.
            _ => series.next(),
        };
        let number = match (known, request.goal) {
            (Some(number), _) | (None, Goal::To(number)) => number,
            (None, Goal::Back(steps)) => match (held, newest) {
                (Some(held), _) => back(repo, series, held.place(), steps, steps)?,
                (None, Some(newest)) if steps > 0 => back(repo, series, newest.place(), steps - 1, steps)?,
                _ => return Err(Error::NothingToUndo { wanted: steps, left: 0 }),
            },
            (None, Goal::Forward(steps)) => {
                let held = held.ok_or(Error::NothingToRedo)?;
                forward(repo, series, held, steps)?.ok_or(Error::NothingToRedo)?
            }
        };
        let target = series.read(repo, number)?;
        let place = Place::At { shows: target.place(), tip };
        Ok(Way { target, saved, place })
    }
}

/// Returns the entry `steps` before `from`. `wanted` is the number for the error.
fn back(repo: &Opened, series: &Series, from: u64, steps: u64, wanted: u64) -> Result<u64, Error> {
    let mut at = from;
    for done in 0..steps {
        let left = wanted - steps + done;
        let before = if series.has(at) { series.parent(repo, at)? } else { None };
        at = before.filter(|number| series.has(*number)).ok_or(Error::NothingToUndo { wanted, left })?;
    }
    Ok(at)
}

/// Returns the entry `steps` after the one that `newest` shows, on the way to its tip.
fn forward(repo: &Opened, series: &Series, newest: &Entry, steps: u64) -> Result<Option<u64>, Error> {
    let mut way = vec![newest.tip()];
    let mut at = newest.tip();
    while at > newest.place() {
        let before = if series.has(at) { series.parent(repo, at)? } else { None };
        let Some(before) = before else { return Ok(None) };
        way.push(before);
        at = before;
    }
    let is_way = at == newest.place();
    let steps = usize::try_from(steps).unwrap_or(usize::MAX);
    Ok((way.len() - 1).checked_sub(steps).filter(|_| is_way).map(|at| way[at]))
}

/// Returns the changes of HEAD and its branch, and checks them.
fn head_changes(context: Context<'_>, request: &Request, target: &Entry) -> Result<HeadChanges, Error> {
    let repo = context.repo;
    let now = repo.head()?;
    if !request.head {
        return Ok(HeadChanges { changes: Vec::new(), before: now });
    }
    let Info { head, branch, .. } = &target.info;
    let refused = |reason: BString| {
        Err(Error::Failed(text!(
            "HEAD of checkpoint ",
            target.number.to_string(),
            " cannot be restored: ",
            reason
        )))
    };
    if let Some(commit) = head
        && repo.peel_to_commit(*commit).ok().flatten().is_none()
    {
        return refused(text!("the commit ", commit.to_string(), " is gone"));
    }
    let message = text!("undo: moving to checkpoint ", target.number.to_string());
    let mut changes = Vec::new();
    match (branch, *head) {
        (None, None) => return refused("it is not recorded".into()),
        (None, Some(commit)) if now == (Head::Detached { oid: commit }) => {}
        (None, Some(new)) => {
            changes.push(Change::Update { name: "HEAD".into(), new, expected: Expected::Any, message });
        }
        (Some(branch), commit) => {
            if let Some(path) = repo.worktree_using(branch.as_bstr(), true)? {
                let path = path.as_os_str().as_bytes();
                return refused(text!("'", branch, "' is checked out at '", path, "'"));
            }
            let value = repo.find_ref(branch.as_bstr())?;
            if let (Some(_), None) = (value, commit) {
                return refused(text!("'", branch, "' had no commit then, and has one now"));
            }
            let is_on_it = now.branch() == Some(branch.as_bstr());
            if value.is_some() && value != commit && !is_on_it {
                // No entry has the commit of this branch: no redo would lead back.
                return refused(text!("'", branch, "' has moved since, and HEAD is not on it"));
            }
            if let Some(new) = commit.filter(|commit| value != Some(*commit)) {
                let expected = value.map_or(Expected::Missing, Expected::Is);
                let message = message.clone();
                changes.push(Change::Update { name: branch.clone(), new, expected, message });
            }
            if !is_on_it {
                let (message, target) = (Some(message), branch.clone());
                changes.push(Change::Symbolic {
                    name: "HEAD".into(),
                    target,
                    message,
                    old: None,
                    new: commit,
                });
            }
        }
    }
    if !changes.is_empty() {
        let checked = store::refs::preflight(&refs::options(context)?, &changes);
        checked.map_err(|error| Error::cannot_move_head(HeadChange::Reset)(error.into()))?;
    }
    Ok(HeadChanges { changes, before: now })
}

impl<'a> Prepared<'a> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { transaction, series, limits, planned, saved, after, head, report } = self;
        let transaction = transaction.with_context(context);
        Prepared { transaction, series, limits, planned, saved, after, head, report }
    }

    /// Restores the entry.
    pub fn execute(self) -> Result<Report, Error> {
        let Prepared { mut transaction, mut series, limits, planned, saved, after, head, mut report } = self;
        let context = transaction.context();
        head.check(context)?;
        if let Some(Pending { tree, info }) = saved {
            report.saved = Some(series.append(context, tree, &info, true, &limits)?);
        }
        let done = carry_out(&mut transaction, planned)?;
        report.written = transaction.report.written;
        report.is_incomplete = !done.is_complete() || transaction.report.was_undeleted;
        if report.is_incomplete {
            return Ok(report);
        }
        head.apply(context)?;
        report.number = Some(series.append(context, after.tree, &after.info, false, &limits)?);
        drop(transaction);
        series.expire(context, &limits, report.saved)?;
        Ok(report)
    }
}

/// Carries out the plan, and writes the index of the target. If the steps were stopped, the index
/// stays as it is.
pub(super) fn carry_out(transaction: &mut IndexTransaction<'_>, planned: Planned) -> Result<Done, Error> {
    let context = transaction.context();
    let Planned { plan, directories, edits, .. } = planned;
    let top = context.repo.work_tree().ok_or(Error::NoWorktree)?;
    let kept = transaction.policy.original_cwd.as_ref().map(|cwd| cwd.as_bstr());
    stash::remove_empty_directories(context.repo, top, transaction.worktree(), &directories, kept)?;
    let done = transaction.carry_out(plan)?;
    if transaction.report.stopped || done == Done::Unfinished {
        transaction.finish(Recorded::No)?;
        return Err(Error::Interrupted);
    }
    checkpoint::settle(context.repo, &mut transaction.index, edits);
    transaction.finish(Recorded::Yes)?;
    Ok(done)
}
