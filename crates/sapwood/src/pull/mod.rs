//! Pull: a fetch, then a fast-forward of the current branch with its files.
//!
//! Order: the settings, and the refusals that need no server; the fetch; the commits of
//! `FETCH_HEAD`; the decision; the fast-forward, as in [`crate::fast_forward`]. If HEAD and the
//! fetched commit have diverged, the run ends with [`Error::Diverged`] after the fetch: merges and
//! rebases are not done here. Submodules stay.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, pull};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let report = pull::plan(&repository, pull::Request::default())?.run(&Silent)?;
//! match report.outcome {
//!     pull::Outcome::Forwarded(forward) => println!("HEAD is {:?}", forward.new),
//!     pull::Outcome::UpToDate => println!("up to date"),
//!     pull::Outcome::Fetched => println!("only fetched"),
//! }
//! # Ok(())
//! # }
//! ```

mod choice;
mod clean;
mod heads;
mod rebase;

use std::fmt;

use bstr::BString;
use format::ObjectId;
use repo::keys;

pub use choice::{Choice, Rebase, Step, choose, decide};
pub use clean::refuse_changes;
pub use heads::{heads, moved, must_be_one};
pub use rebase::{Target, fork_point};

pub use crate::error::local_changes;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, Silent,
    events::Notices,
    fast_forward::{self, FastForward, Goal, HeadStep, Merge},
    fetch::{self, FetchHeadPolicy},
    refs, submodules,
    transaction::{IndexTransaction, Start},
};

/// The options of a pull.
#[derive(Clone)]
pub struct Request {
    /// The fetch. It always writes `FETCH_HEAD`, and may move the current branch.
    pub fetch: fetch::Request,
    /// When a fast-forward is wanted; `None` for `pull.ff`.
    pub ff: Option<FastForward>,
    /// The integration of commits that have diverged; `None` for the configuration.
    pub rebase: Option<Rebase>,
    /// Stash local changes meanwhile; `None` for the configuration.
    pub autostash: Option<bool>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// Report the progress of the files.
    pub progress: bool,
}

impl Default for Request {
    fn default() -> Request {
        let fetch = fetch::Request::default();
        Request { fetch, ff: None, rebase: None, autostash: None, keep: None, progress: true }
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The result of the fetch.
    pub fetch: fetch::Report,
    /// The result for the current branch.
    pub outcome: Outcome,
}

/// The result of a pull for the current branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays: some refs could not be changed, or the fetch was a dry run.
    Fetched,
    /// HEAD has all fetched commits.
    UpToDate,
    /// It moves, or its files could not be written.
    Forwarded(fast_forward::Report),
}

/// A pull that can run.
pub struct Plan<'r> {
    repository: &'r Repository,
    fetch: fetch::Plan<'r>,
    steps: Steps,
    is_dry: bool,
    notices: Vec<Notice>,
}

/// The values for the steps after the fetch.
struct Steps {
    choice: Choice,
    /// The commit of HEAD before the fetch.
    ours: Option<ObjectId>,
    action: BString,
    keep: Option<BString>,
    progress: bool,
}

/// Reads the settings and the state of the worktree. Changes nothing, and contacts nobody.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let Request { mut fetch, ff, rebase, autostash, keep, progress } = request;
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    repo.work_tree().ok_or(Error::NoWorktree)?;
    if submodules::wanted(None, repo)? {
        return Err(PlanError::Unsupported("submodules that a pull updates"));
    }
    let asked = match autostash {
        None => repo.config(&keys::pull::AUTOSTASH).map_err(Error::from)?,
        asked => asked,
    };
    let of_rebases = repo.config(&keys::rebase::AUTOSTASH).map_err(Error::from)?;
    let choice = choose(repo, ff, rebase)?;
    fast_forward::check_state(context)?;
    let rebases = choice.rebase != Rebase::No;
    let stashes = if rebases { asked.or(Some(of_rebases)) } else { asked };
    if let Some(what) = fast_forward::obstacle(repo, choice.ff, stashes)? {
        return Err(PlanError::Unsupported(what));
    }
    let ours = repo.head().map_err(Error::from)?.oid();
    if rebases {
        refuse_changes(context, ours, false, Start::Full { dry_run: true })?;
    }
    // The fetch must not begin if HEAD cannot move. The run reports what this finds.
    refs::check_state(repo)?;
    refs::planned_options(repository.context(&Silent))?;
    fetch.update_head_ok = true;
    if fetch.fetch_head == FetchHeadPolicy::Leave {
        fetch.fetch_head = FetchHeadPolicy::Replace;
    }
    if fetch.action.is_empty() {
        fetch.action = "pull".into();
    }
    let steps = Steps { choice, ours, action: fetch.action.clone(), keep, progress };
    let is_dry = fetch.dry_run;
    let fetch = fetch::plan(repository, fetch)?;
    Ok(Plan { repository, fetch, steps, is_dry, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, fetches, and moves the current branch.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, fetch, steps, is_dry, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let fetch = fetch.run(events)?;
        let fetched = &fetch.fetched;
        if is_dry || fetched.has_failures || fetched.failed_transaction.is_some() {
            return Ok(Report { fetch, outcome: Outcome::Fetched });
        }
        // The fetch has changed objects and refs.
        let repository = repository.again()?;
        let outcome = steps.run(repository.context(events))?;
        Ok(Report { fetch, outcome })
    }
}

/// The fetch, as [`fetch::Plan`] prints it.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fetch, formatter)
    }
}

impl Steps {
    fn run(self, context: Context<'_>) -> Result<Outcome, Error> {
        let repo = context.repo;
        let current = repo.head()?.oid();
        if let (Some(ours), Some(current)) = (self.ours, current)
            && ours != current
        {
            context.events.notice(Notice::Fetch(moved(ours).into()));
            let files = self.files(context, Goal { old: Some(ours), new: current, head: None })?;
            if !files.done.is_complete() {
                return Ok(Outcome::Forwarded(files));
            }
        }
        let heads = heads(repo)?;
        let Some(first) = heads.first().copied() else { return Err(Error::failed(heads::NONE)) };
        let Some(ours) = self.ours else {
            must_be_one(&heads)?;
            let refs = refs::options(context)?;
            let head = Some(HeadStep { refs, from: current, message: "initial pull".into() });
            return Ok(Outcome::Forwarded(self.files(context, Goal { old: None, new: first, head })?));
        };
        if let Step::Rebase { onto, can_forward: false } = decide(repo, &self.choice, ours, &heads)? {
            if repo.is_reachable(onto, &[ours])? {
                return Ok(Outcome::UpToDate);
            }
            return Err(Error::Diverged { ours, theirs: onto, must_choose: false });
        }
        if heads.len() > 1 {
            return Err(Error::NotSupported("a merge of several commits"));
        }
        let Steps { action, keep, progress, .. } = self;
        let report = Merge::plan(context, first, &action, keep, progress)?.run()?;
        if report.new == Some(ours) && report.done.is_complete() {
            return Ok(Outcome::UpToDate);
        }
        // The fetch may have moved HEAD, and files followed.
        Ok(Outcome::Forwarded(fast_forward::Report { old: Some(ours), ..report }))
    }

    /// Changes the files, and HEAD if the goal says so.
    fn files(&self, context: Context<'_>, goal: Goal) -> Result<fast_forward::Report, Error> {
        let mut transaction = IndexTransaction::start(context, Start::Sparse { dry_run: false })?;
        transaction.policy.original_cwd.clone_from(&self.keep);
        transaction.policy.progress = self.progress;
        let executed = fast_forward::prepare(transaction, goal)?.execute()?;
        Ok(executed.move_head()?.into_report())
    }
}
