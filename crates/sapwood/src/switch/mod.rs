//! Switch: the worktree and the index to another branch or commit, then HEAD.
//!
//! Order: checks that need no lock; the index lock; the plan and its refusals; the check that refs
//! can be changed. Then the files and the index; the new branch and its upstream; HEAD; the state
//! files; the hook `post-checkout`. If files could not be written, HEAD still moves, as in Git,
//! unless the request is [`Request::resumable`]. After a signal the finished steps are recorded,
//! and HEAD stays. A plan that is dropped releases the lock.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, switch};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = switch::Request { target: Some("topic".into()), ..switch::Request::default() };
//! let plan = switch::plan(&repository, request)?;
//! print!("{plan}");
//! let report = plan.run(&Silent)?;
//! println!("HEAD is on {:?}", report.new.branch);
//! # Ok(())
//! # }
//! ```

mod prepare;
mod refs;
mod rules;
mod source;
mod steps;

use std::fmt;

use bstr::{BStr, BString};
pub use engine::{
    diff::Pair,
    switch::{state::Ended, tracking::Track},
};
use format::ObjectId;

pub use prepare::{Prepared, Replacement, prepare, prepare_replacement, preview};
pub use rules::{check, check_new_branch, new_branch_ref};
pub use source::Source;
pub use steps::Executed;

use crate::{
    Events, Notice, PlanError, Repository, RunError, events::Notices, status::messages, transaction::Done,
    upstream::Installed,
};

/// The command whose rules apply where `git switch` and `git checkout` differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// `git switch`: it is refused while another operation is in progress, and detaches HEAD only
    /// if that is asked for. A new branch at HEAD leaves files alone; an orphan starts without any.
    #[default]
    Switch,
    /// `git checkout`
    Checkout,
}

/// Returns true if a word has special characters of a pattern: `*`, `?`, `[` or a backslash. Git
/// does not take such a word for the name of a remote's branch.
pub fn has_wildcards(word: &BStr) -> bool {
    word.iter().any(|&byte| format::wildmatch::is_special(byte))
}

/// A branch to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBranch {
    /// The name.
    pub name: BString,
    /// How it is created.
    pub kind: NewBranchKind,
}

/// How to create a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewBranchKind {
    /// The branch must not exist.
    Create,
    /// The branch may exist.
    Reset,
    /// The branch gets no commit.
    Orphan,
}

/// The local changes that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discard {
    /// None: a switch that would lose some is refused.
    #[default]
    Nothing,
    /// Changes of tracked files.
    Changes,
    /// Changes of tracked files, and untracked files in the way.
    ChangesAndUntracked,
}

/// The options of a switch.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A branch or a commit; `None` for HEAD's.
    pub target: Option<BString>,
    /// The command whose rules apply.
    pub rules: Rules,
    /// The branch to create at the target, and to switch to.
    pub new_branch: Option<NewBranch>,
    /// The upstream of the new branch; `None` for `branch.autoSetupMerge`.
    pub track: Option<Track>,
    /// Create a reflog for the new branch.
    pub reflog: bool,
    /// Detach HEAD.
    pub detach: bool,
    /// The local changes that are lost.
    pub discard: Discard,
    /// Merge local changes that are in the way. sapwood cannot do that yet: such a switch ends with
    /// [`crate::Error::NotSupported`].
    pub merge: bool,
    /// Refuse to overwrite ignored files.
    pub protect_ignored: bool,
    /// Switch to a branch that another worktree has checked out.
    pub ignore_other_worktrees: bool,
    /// With [`Rules::Checkout`]: a new branch at HEAD leaves files alone.
    pub only_head: bool,
    /// If files could not be written: the index records the finished steps and HEAD stays, so that
    /// the same request does the rest.
    pub resumable: bool,
    /// Submodules follow; `None` for `submodule.recurse`.
    pub recurse_submodules: Option<bool>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// The text of HEAD's reflog instead of `checkout: moving from ...` (`GIT_REFLOG_ACTION`).
    pub reflog_action: Option<BString>,
    /// Find the local changes that are left.
    pub list_changes: bool,
    /// Compare all files with the index even if [`Request::list_changes`] does not need it, so that
    /// the index has their stat data.
    pub refresh: bool,
    /// Report the progress of the files.
    pub progress: bool,
}

impl Request {
    fn makes(&self, kind: NewBranchKind) -> bool {
        self.new_branch.as_ref().is_some_and(|new| new.kind == kind)
    }

    /// Returns true if the new branch starts without files.
    fn starts_empty(&self) -> bool {
        self.rules == Rules::Switch && self.makes(NewBranchKind::Orphan)
    }

    fn discards(&self) -> bool {
        self.discard != Discard::Nothing
    }
}

/// HEAD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Full name of the branch, which may be unborn; `None` if HEAD is detached.
    pub branch: Option<BString>,
    /// The commit; `None` if there is none, or if it cannot be found.
    pub commit: Option<ObjectId>,
    /// The branch does not exist yet.
    pub is_unborn: bool,
}

impl Head {
    /// Reads HEAD.
    pub fn read(repo: &repo::Repository) -> Result<Head, crate::Error> {
        let head = repo.head()?;
        // Git can leave a branch whose object is missing, or not a commit, like an unborn one.
        let commit = head.oid().map(|oid| repo.commit_if_there(oid)).transpose()?.flatten();
        let is_unborn = matches!(head, repo::Head::Unborn { .. });
        Ok(Head { branch: head.branch().map(ToOwned::to_owned), commit, is_unborn })
    }
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// HEAD before.
    pub old: Head,
    /// HEAD now.
    pub new: Head,
    /// [`Done::Unfinished`] if the same request, run again, does the rest; HEAD stays then. The
    /// notices name the files that could not be written or removed.
    pub done: Done,
    /// The number of files that were written.
    pub written: usize,
    /// With [`Request::list_changes`]: the paths that differ from HEAD.
    pub changes: Vec<Pair>,
    /// The branch of [`Request::new_branch`] existed.
    pub existed: bool,
    /// The upstream that the new branch got.
    pub upstream: Option<Installed>,
    /// The operations that ended with the switch.
    pub ended: Ended,
    /// The exit code of the hook `post-checkout`; 0 without a hook.
    pub hook: u8,
}

/// A switch that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Prepared<'r>,
    notices: Vec<Notice>,
}

/// Plans a switch. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    let target = request.target.as_ref();
    let source = target.map(|name| Source::find(repo, name.as_ref())).transpose()?;
    messages::about_objects(repo, &notices);
    if let Some(branch) = &request.new_branch {
        check_new_branch(repo, branch)?;
    }
    check(context, &request, source.as_ref())?;
    let prepared = prepare(context, request, source)?.with_context(repository.context(&crate::Silent));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, changes the files and the index, moves HEAD, and runs the hook.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut executed = prepared.with_context(repository.context(events)).execute()?;
        if executed.report().done == Done::Unfinished {
            return Ok(executed.into_report());
        }
        executed.create_branch()?;
        executed.move_head()?;
        executed.end_operations()?;
        executed.run_hook()?;
        Ok(executed.into_report())
    }
}

/// The steps of the worktree, each in a line, as [`engine::checkout::Plan`] prints them. A new
/// branch instead of an unborn one is `HEAD -> <branch>`.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.prepared, formatter)
    }
}
