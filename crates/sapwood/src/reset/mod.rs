//! Reset: HEAD's branch, the index and the worktree to a commit, or paths of the index to a tree.
//!
//! Order: the revision; the index lock; the plan and the check that HEAD can move; then the
//! worktree and the index; then ORIG_HEAD, HEAD and the state files. If files could not be written,
//! HEAD stays. A plan that is dropped releases the lock.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, reset};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = reset::Request {
//!     revision: "HEAD~1".into(),
//!     mode: reset::Mode::Hard,
//!     ..reset::Request::default()
//! };
//! let plan = reset::plan(&repository, request)?;
//! print!("{plan}");
//! let report = plan.run(&Silent)?;
//! println!("{} files written", report.written);
//! # Ok(())
//! # }
//! ```

mod prepare;
mod steps;

use std::{fmt, time::Duration};

use bstr::BString;
use engine::pathspec::Pathspecs;
pub use engine::{
    checkout::{ChangeKind, ChangedEntry},
    switch::state::Ended,
};
use format::ObjectId;

pub use prepare::{Prepared, Target, prepare, preview, resolve};
pub use steps::{Executed, Moved, Recorded};

use crate::{Events, Notice, PlanError, Repository, RunError, events::Notices, status::messages};

/// The parts that are reset in addition to HEAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The index.
    #[default]
    Mixed,
    /// Nothing.
    Soft,
    /// The index and the worktree. Local changes are lost.
    Hard,
    /// The index and the files that differ between HEAD and the target. Refused if one of these has
    /// changes that are not staged.
    Merge,
    /// The index and the files that differ between HEAD and the target. Refused if one of these has
    /// local changes.
    Keep,
}

impl Mode {
    /// Returns its name, as in Git's options.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Mixed => "mixed",
            Mode::Soft => "soft",
            Mode::Hard => "hard",
            Mode::Merge => "merge",
            Mode::Keep => "keep",
        }
    }
}

/// The options of a reset.
#[derive(Clone, Debug)]
pub struct Request {
    /// The revision.
    pub revision: BString,
    /// The parts to reset.
    pub mode: Mode,
    /// The paths whose index entries are reset. If empty, the whole index is, and HEAD moves.
    pub pathspecs: Pathspecs,
    /// Paths that the target lacks stay in the index, as paths that will be added (`-N`).
    pub intent_to_add: bool,
    /// A mixed reset compares all files with the new index.
    pub refresh: bool,
    /// Submodules follow; `None` for `submodule.recurse`.
    pub recurse_submodules: Option<bool>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// The text of reflogs instead of `reset: moving to <revision>` (`GIT_REFLOG_ACTION`).
    pub reflog_action: Option<BString>,
    /// Report the progress of the files.
    pub progress: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            revision: "HEAD".into(),
            mode: Mode::default(),
            pathspecs: Pathspecs::default(),
            intent_to_add: false,
            refresh: true,
            recurse_submodules: None,
            keep: None,
            reflog_action: None,
            progress: true,
        }
    }
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The commit of HEAD before; `None` if it had none, and for paths.
    pub old: Option<ObjectId>,
    /// The commit of HEAD now; `None` as above.
    pub new: Option<ObjectId>,
    /// True if files could not be written or removed; the notices name them. HEAD stays then.
    pub is_incomplete: bool,
    /// The number of files that were written.
    pub written: usize,
    /// The unmerged paths that are left.
    pub unmerged: Vec<BString>,
    /// After a mixed reset with [`Request::refresh`]: the files that differ from the index.
    pub changed: Vec<ChangedEntry>,
    /// The time that the comparison took.
    pub refresh_took: Duration,
    /// The operations that ended with the reset.
    pub ended: Ended,
}

/// A reset that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Prepared<'r>,
    notices: Vec<Notice>,
}

/// Plans a reset. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let target = resolve(context.repo, &request)?;
    messages::about_objects(context.repo, &notices);
    let prepared = prepare(context, request, target)?.with_context(repository.context(&crate::Silent));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, changes the worktree and the index, and moves HEAD.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut executed = prepared.with_context(repository.context(events)).execute()?;
        executed.refresh()?;
        Ok(executed.record()?.move_head()?.end()?)
    }
}

/// The steps of the worktree, each in a line, as [`engine::checkout::Plan`] prints them.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.prepared, formatter)
    }
}
