//! Applying: the changes of an entry come back to the worktree. With [`Request::drop`] the entry is
//! dropped afterwards (`pop`).
//!
//! Order: the entry; the index lock; the merge, which compares object names only; then the worktree
//! and the index; the untracked files; the files made durable; then the entry. If files could not
//! be written, the entry stays.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::apply};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = apply::Request { stash: Some("1".into()), ..apply::Request::default() };
//! let report = apply::plan(&repository, request)?.run(&Silent)?;
//! println!("complete: {}", report.is_complete);
//! # Ok(())
//! # }
//! ```

use std::{fmt, path::PathBuf};

use bstr::{BString, ByteSlice as _};
use engine::{
    add::{Missing, write_tree},
    checkout::{self, Attributes},
    stash::{self, Merge, Merged, Staged},
    workspace::crash,
};
use format::{ObjectId, index::Index};
use repo::{Repository, keys};
use store::{Components, objects};

use super::{
    StashError, before_changes,
    drop::drop_entry,
    entry::{self, Entry},
    steps::reset_head,
};
use crate::{
    Context, Error, Events, Notice, PlanError, RunError,
    events::Notices,
    transaction::{Done, IndexTransaction, Recorded, Start},
};

/// The options of an apply.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The entry, by name or number; `None` for the newest one.
    pub stash: Option<BString>,
    /// Staged changes are staged again (`--index`); `None` for `stash.index`.
    pub index: Option<bool>,
    /// The entry is dropped if all files could be written.
    pub drop: bool,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// The text of HEAD's reflog instead of `reset: moving to HEAD` (`GIT_REFLOG_ACTION`).
    pub reflog_action: Option<BString>,
}

impl Request {
    /// Returns the request with the value of `stash.index`, unless it has one of its own.
    pub fn resolved(mut self, repo: &Repository) -> Result<Request, Error> {
        if self.index.is_none() {
            self.index = Some(repo.config(&keys::stash::INDEX)?);
        }
        Ok(self)
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The entry.
    pub entry: Entry,
    /// False if files could not be written or removed; the notices name them.
    pub is_complete: bool,
    /// The entry was dropped.
    pub is_dropped: bool,
}

/// An apply that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    entry: Entry,
    /// The number of the entry to drop.
    number: Option<usize>,
    prepared: Prepared<'r>,
    notices: Vec<Notice>,
}

/// Finds the entry, and plans the merge. Changes nothing but objects that nobody refers to.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    super::check(&repository.inner)?;
    let request = request.resolved(&repository.inner)?;
    let entry = entry::find(&repository.inner, request.stash.as_ref())?;
    let number = if request.drop { Some(entry.number()?) } else { None };
    let notices = Notices::default();
    let context = repository.recording_context(&notices);
    let prepared = prepare(context, &entry, &request, Refresh::Now)?;
    let prepared = prepared.with_context(repository.recording_context(&crate::Silent));
    Ok(Plan { repository, entry, number, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, changes the worktree and the index, and drops the entry.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, entry, number, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let context = repository.recording_context(events);
        let is_complete = prepared.with_context(context).execute()?;
        let number = number.filter(|_| is_complete);
        if let Some(number) = number {
            drop_entry(context, &entry, number)?;
        }
        Ok(Report { entry, is_complete, is_dropped: number.is_some() })
    }
}

/// The steps of the worktree, each in a line, as [`engine::checkout::Plan`] prints them.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.prepared, formatter)
    }
}

/// The time at which the stat data of the index are compared with the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// While planning.
    Now,
    /// Later, by a `status` of the caller.
    Later,
}

/// A planned apply, with the locked index.
pub struct Prepared<'a> {
    transaction: IndexTransaction<'a>,
    reflog_action: Option<BString>,
    merged: Vec<Merged>,
    /// The plan for `merged`.
    plan: checkout::Plan,
    /// The tree of the plan's index, if there was something to merge.
    result: Option<ObjectId>,
    /// The index of the entry, if it is restored.
    staged: Option<Staged>,
    untracked: Option<checkout::Plan>,
}

/// Locks the index and plans the apply of `entry`. `request` is [resolved](Request::resolved); its
/// entry and [`Request::drop`] have no effect here.
pub fn prepare<'a>(
    context: Context<'a>,
    entry: &Entry,
    request: &Request,
    refresh: Refresh,
) -> Result<Prepared<'a>, PlanError> {
    let Context { repo, settings, .. } = context;
    let mut transaction = IndexTransaction::start(context, Start::Full { dry_run: false })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    let failed = before_changes(context);
    stash::check_index(&transaction.index).map_err(&failed)?;
    if refresh == Refresh::Now {
        transaction.refresh()?;
    }
    let ours = tree(context, &mut transaction.index)?;
    let merge = Merge { base: entry.base_tree, ours, theirs: entry.tree };
    let root = transaction.worktree();
    let merged = stash::merge(repo, root, &transaction.index, settings.big_file_threshold, merge);
    let merged = merged.map_err(&failed)?;
    let staged = if request.index == Some(true) && entry.base_tree != entry.index && ours != entry.index {
        // Git resets the index to HEAD before it applies the staged changes.
        let head = repo.head().map_err(Error::from)?.oid();
        let head = head.map(|head| repo.tree_of(head)).transpose().map_err(Error::from)?;
        if head != Some(ours) {
            return Err(PlanError::Unsupported("staged changes under those of the stash"));
        }
        Some(stash::staged(repo, &transaction.index, merge, entry.index, &merged).map_err(&failed)?)
    } else {
        None
    };
    let untracked = match entry.untracked {
        Some(tree) => Some(stash::plan_untracked(repo, root, tree).map_err(&failed)?),
        None => None,
    };
    let is_taken = |plan: &checkout::Plan| {
        let path_is_taken = |it: &Merged| !plan.index.range_of(it.path.as_bstr()).is_empty();
        merged.iter().any(path_is_taken)
    };
    if untracked.as_ref().is_some_and(is_taken) {
        return Err(PlanError::Unsupported("paths that are both tracked and untracked"));
    }
    let mut plan = stash::plan_merge(take_index(&mut transaction), &merged);
    let result = match (entry.base_tree == entry.tree, entry.base_tree == ours) {
        (true, _) => None,
        (false, true) => Some(entry.tree),
        (false, false) => Some(tree(context, &mut plan.index)?),
    };
    context.check_interrupt()?;
    let reflog_action = request.reflog_action.clone();
    Ok(Prepared { transaction, reflog_action, merged, plan, result, staged, untracked })
}

/// Writes the trees of an index, which the merge reads.
#[expect(clippy::disallowed_methods, reason = "nothing refers to the trees; Git writes the same ones")]
fn tree(context: Context<'_>, index: &mut Index) -> Result<ObjectId, PlanError> {
    let objects = objects::ObjectTransaction::new(context.settings.objects(context.repo));
    let trees = write_tree(index, context.repo, &objects, Missing::Refused);
    let root = trees.map_err(|error| before_changes(context)(error.into()))?.root;
    sys::changes::aside(|| objects.publish()).map_err(Error::from)?;
    Ok(root)
}

fn take_index(transaction: &mut IndexTransaction<'_>) -> Index {
    let empty = Index::empty(transaction.context().repo.hash());
    std::mem::replace(&mut transaction.index, empty)
}

impl Prepared<'_> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { transaction, reflog_action, merged, plan, result, staged, untracked } = self;
        let transaction = transaction.with_context(context);
        Prepared { transaction, reflog_action, merged, plan, result, staged, untracked }
    }

    /// Returns the paths to write.
    fn written(&self) -> Vec<BString> {
        let tracked = self.merged.iter().filter(|it| it.theirs.is_some()).map(|it| it.path.clone());
        let plan = self.untracked.iter();
        let untracked =
            plan.flat_map(|plan| plan.writes.iter().map(|write| plan.index.path_at(write.entry).to_owned()));
        tracked.chain(untracked).collect()
    }

    /// Changes the worktree and the index. Returns true if all files were written; then they are
    /// durable.
    pub fn execute(self) -> Result<bool, Error> {
        let context = self.transaction.context();
        let written = self.written();
        let is_complete = self.carry_out()?;
        if is_complete {
            make_durable(context, &written)?;
        }
        Ok(is_complete)
    }

    fn carry_out(self) -> Result<bool, Error> {
        let Prepared { mut transaction, reflog_action, merged, plan, result, staged, untracked } = self;
        let context = transaction.context();
        if staged.is_some() {
            reset_head(context, reflog_action.as_ref().map(|action| action.as_bstr()))?;
        }
        if result.is_none() {
            context.events.notice(Notice::UpToDate);
        }
        let mut is_complete = transaction.carry_out(plan)? == Done::Complete;
        if let Some(tree) = result {
            note_merge(context, tree)?;
        }
        match &staged {
            Some(staged) if is_complete => staged.apply(&mut transaction.index, &merged),
            _ => stash::unstage(context.repo, &mut transaction.index, &merged),
        }
        if let Some(plan) = untracked.filter(|_| !transaction.report.stopped) {
            // Untracked files have no entries in the index.
            let index = take_index(&mut transaction);
            transaction.policy.attributes = Attributes::OfWorktree;
            let done = transaction.carry_out(plan);
            transaction.index = index;
            if done? != Done::Complete {
                context.events.notice(Notice::UntrackedNotRestored);
                is_complete = false;
            }
        }
        transaction.finish(Recorded::Yes)?;
        Ok(is_complete)
    }
}

/// The steps of the worktree, each in a line.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.plan, formatter)?;
        self.untracked.iter().try_for_each(|plan| fmt::Display::fmt(plan, formatter))
    }
}

/// Records the tree of the merge in AUTO_MERGE, as Git does after each merge.
fn note_merge(context: Context<'_>, tree: ObjectId) -> Result<(), Error> {
    let Context { repo, settings, .. } = context;
    let mut lock = store::Lock::take(&repo.git_dir().join("AUTO_MERGE"), &settings.locks)?;
    lock.write(format!("{tree}\n").as_bytes())?;
    Ok(lock.commit_synced(&settings.fsync, Components::REFERENCE)?)
}

/// Makes the files durable if the removal of the entry will be durable: they may be the last copy.
fn make_durable(context: Context<'_>, paths: &[BString]) -> Result<(), Error> {
    if !context.settings.fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    let top = place_to_sync(context.repo)?;
    let root = sys::Dir::open(&top).map_err(Error::cannot_open(&top))?;
    let synced = stash::sync(&root, paths);
    Ok(synced.map_err(|(path, source)| StashError::NotDurable { path: Some(path), source })?)
}

/// Like the last step of [`Prepared::execute`], for files that the real Git wrote: their paths are
/// unknown.
pub fn make_all_durable(context: Context<'_>) -> Result<(), Error> {
    if !context.settings.fsync.hardens(Components::REFERENCE) {
        return Ok(());
    }
    let synced = sys::mount::sync_file_system(&place_to_sync(context.repo)?);
    Ok(synced.map_err(|source| StashError::NotDurable { path: None, source })?)
}

/// Returns the directory through which the files of the worktree are synced: of a workspace its
/// upper layer, because its mount may ignore syncs.
fn place_to_sync(repo: &Repository) -> Result<PathBuf, Error> {
    let top = repo.work_tree().ok_or(Error::NoWorktree)?;
    let upper = crash::place_to_sync(&repo.real_common_dir(), repo.git_dir());
    Ok(upper.unwrap_or_else(|| top.to_owned()))
}
