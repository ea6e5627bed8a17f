//! Fast-forward: the current branch, the index and the worktree to a commit that descends from
//! HEAD.
//!
//! Order: the commits, and the settings that ask for more than that; the index lock; the plan and
//! the check that HEAD can move. Then `ORIG_HEAD`; the files and the index; HEAD; the hook
//! `post-merge`; the state files of a merge. If files could not be written, HEAD stays, and the
//! same request does the rest. A plan that is dropped releases the lock.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, fast_forward};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let mut request = fast_forward::Request::default();
//! request.revision = "origin/main".into();
//! let plan = fast_forward::plan(&repository, request)?;
//! print!("{plan}");
//! let report = plan.run(&Silent)?;
//! println!("{} files written", report.written);
//! # Ok(())
//! # }
//! ```

mod prepare;
mod rules;
mod steps;

use std::fmt;

use bstr::{BString, ByteSlice as _};
use format::ObjectId;

pub use prepare::{Goal, HeadStep, Prepared, prepare};
pub use rules::{FastForward, is_linear, obstacle};
pub use steps::{Executed, Moved, set_orig_head};

pub use engine::switch::state::end_merge;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    index::load_index,
    maintenance::{self, MaintenanceOutput},
    refs, text,
    transaction::{Done, IndexTransaction, Start},
};

/// The options of a fast-forward.
#[derive(Clone, Debug)]
pub struct Request {
    /// The commit, or a name of it.
    pub revision: BString,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// The begin of the text of reflogs instead of `merge <revision>` (`GIT_REFLOG_ACTION`).
    pub reflog_action: Option<BString>,
    /// Report the progress of the files.
    pub progress: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request { revision: "FETCH_HEAD".into(), keep: None, reflog_action: None, progress: true }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The commit of the files before; `None` if there was none.
    pub old: Option<ObjectId>,
    /// The commit of HEAD now. Equal to `old` if HEAD had the commit of the request already.
    pub new: Option<ObjectId>,
    /// [`Done::Complete`] if HEAD has moved. If not, the notices name the files that could not be
    /// written or removed.
    pub done: Done,
    /// The number of files that were written.
    pub written: usize,
}

/// A fast-forward that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    merge: Merge<'r>,
    notices: Vec<Notice>,
}

/// Plans a fast-forward. Changes nothing. If HEAD and the commit have diverged, the error is
/// [`Error::Diverged`].
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    repo.work_tree().ok_or(Error::NoWorktree)?;
    refs::check_state(repo)?;
    check_state(context)?;
    let unknown = || Error::Failed(text!(request.revision, " - not something we can merge"));
    let theirs = repo.rev_parse(request.revision.as_bstr());
    let theirs = theirs.map_err(|error| Error::of_name(error, unknown()))?;
    if let Some(what) = obstacle(repo, None, None)? {
        return Err(PlanError::Unsupported(what));
    }
    let action = request.reflog_action.unwrap_or_else(|| text!("merge ", request.revision));
    let merge = Merge::plan(context, theirs, &action, request.keep, request.progress)?;
    let merge = merge.with_context(repository.context(&crate::Silent));
    Ok(Plan { repository, merge, notices: notices.into_vec() })
}

/// Returns an error if there are conflicts or an unfinished merge.
pub fn check_state(context: Context<'_>) -> Result<(), Error> {
    let index = load_index(context)?;
    if index.is_unmerged() {
        let mut paths: Vec<BString> = index.unmerged().map(|at| index.path_at(at).to_owned()).collect();
        paths.dedup();
        return Err(Error::Conflicts(paths));
    }
    if engine::switch::state::is_merging(context.repo)? {
        return Err(Error::UnfinishedMerge);
    }
    Ok(())
}

impl Plan<'_> {
    /// Reports the notices, changes the files and the index, moves HEAD, and runs the hook.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, merge, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(merge.with_context(repository.context(events)).run()?)
    }
}

/// The steps of the worktree, each in a line, as [`engine::checkout::Plan`] prints them.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.merge.prepared.as_ref().map_or(Ok(()), |prepared| fmt::Display::fmt(prepared, formatter))
    }
}

/// A merge of one commit that needs no new commit.
pub(crate) struct Merge<'a> {
    context: Context<'a>,
    ours: ObjectId,
    refs: refs::Options,
    /// `None` if HEAD has the commit already.
    prepared: Option<Prepared<'a>>,
}

impl<'a> Merge<'a> {
    /// Plans it. `theirs` may be a tag, of which Git would make a commit.
    pub(crate) fn plan(
        context: Context<'a>,
        theirs: ObjectId,
        action: &BString,
        keep: Option<BString>,
        progress: bool,
    ) -> Result<Merge<'a>, PlanError> {
        let repo = context.repo;
        let ours = repo.head().map_err(Error::from)?.oid().ok_or(Error::NoHead)?;
        let commit = repo.peel_to_commit(theirs).map_err(Error::from)?;
        let commit = commit.ok_or_else(|| Error::failed(format!("{theirs} is not a commit")))?;
        if commit != theirs {
            return Err(PlanError::Unsupported("merges of tags"));
        }
        if !is_linear(repo, ours, commit)? {
            return Err(Error::Diverged { ours, theirs: commit, must_choose: false }.into());
        }
        let refs = refs::planned_options(context)?;
        if repo.is_reachable(commit, &[ours]).map_err(Error::from)? {
            return Ok(Merge { context, ours, refs, prepared: None });
        }
        let mut transaction = IndexTransaction::start(context, Start::Sparse { dry_run: false })?;
        transaction.policy.original_cwd = keep;
        transaction.policy.progress = progress;
        let message = text!(action, ": Fast-forward");
        let head = Some(HeadStep { refs: refs.clone(), from: Some(ours), message });
        let prepared = prepare(transaction, Goal { old: Some(ours), new: commit, head })?;
        Ok(Merge { context, ours, refs, prepared: Some(prepared) })
    }

    fn with_context<'b>(self, context: Context<'b>) -> Merge<'b> {
        let Merge { ours, refs, prepared, .. } = self;
        let prepared = prepared.map(|prepared| prepared.with_context(context));
        Merge { context, ours, refs, prepared }
    }

    /// Does it. Starts Git's automatic maintenance if HEAD has moved.
    pub(crate) fn run(self) -> Result<Report, Error> {
        let Merge { context, ours, refs, prepared } = self;
        if context.repo.head()?.oid() != Some(ours) {
            return Err(Error::failed("HEAD was moved meanwhile; try again"));
        }
        set_orig_head(&refs, ours)?;
        let Some(prepared) = prepared else {
            end_merge(context.repo, &refs)?;
            let head = Some(ours);
            return Ok(Report { old: head, new: head, done: Done::Complete, written: 0 });
        };
        let executed = prepared.execute()?;
        if !executed.report().done.is_complete() {
            return Ok(executed.into_report());
        }
        let moved = executed.move_head()?;
        maintenance::start_auto(context, MaintenanceOutput::Quiet)?;
        moved.end()
    }
}
