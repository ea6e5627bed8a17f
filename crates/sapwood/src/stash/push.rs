//! Pushing: the changes become the newest stash entry, and the worktree is reset to HEAD.
//!
//! Order: the index lock, the changes, their objects; then the objects are made durable, and the
//! entry is recorded; then the untracked files, the worktree, the index, and the state files. A
//! plan that is dropped releases the lock and removes the objects.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash::push};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = push::Request { untracked: push::Untracked::Stashed, ..push::Request::default() };
//! let plan = push::plan(&repository, request)?;
//! print!("{plan}");
//! let report = plan.run(&Silent)?;
//! println!("{:?}", report.entry);
//! # Ok(())
//! # }
//! ```

use std::fmt;

use bstr::BString;
use engine::pathspec::Pathspecs;
use format::ObjectId;

pub use super::{
    commits::Objects,
    prepare::{Nothing, Prepared, Stash, prepare},
    steps::Steps,
};
use crate::{Events, Notice, PlanError, Repository, RunError, events::Notices};

/// The treatment of untracked files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Untracked {
    /// They stay in the worktree.
    #[default]
    Stay,
    /// Untracked files are stashed, ignored ones are not.
    Stashed,
    /// Untracked and ignored files are stashed.
    All,
}

/// The options of a push.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths whose changes are stashed; all if empty.
    pub pathspecs: Pathspecs,
    /// The treatment of untracked files.
    pub untracked: Untracked,
    /// Only staged changes are stashed (`--staged`).
    pub staged: bool,
    /// Staged changes stay as they are (`--keep-index`).
    pub keep_index: bool,
    /// The message; `None` for one made of HEAD.
    pub message: Option<BString>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// The text of HEAD's reflog instead of `reset: moving to HEAD` (`GIT_REFLOG_ACTION`).
    pub reflog_action: Option<BString>,
}

/// Why there is nothing to stash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// HEAD has no commit yet.
    NoCommit,
    /// There are no changes.
    NoChanges,
    /// There are no staged changes.
    NothingStaged,
}

/// A new entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Its commit.
    pub commit: ObjectId,
    /// Its message.
    pub message: BString,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The new entry, or why there is none.
    pub entry: Result<Saved, Reason>,
    /// True if files could not be written or removed; the notices name them. The entry has their
    /// content.
    pub is_incomplete: bool,
    /// True if the directory [`Request::keep`] is empty now and would have been removed otherwise.
    pub kept_directory: bool,
}

/// A push that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Prepared<'r, 'r>,
    notices: Vec<Notice>,
}

/// Finds the changes. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    super::check(&repository.inner)?;
    let notices = Notices::default();
    let silent = repository.recording_context(&crate::Silent);
    let objects = Objects::new(silent.repo, silent.settings);
    let prepared = prepare(repository.recording_context(&notices), objects, request)?;
    Ok(Plan { repository, prepared: prepared.with_context(silent), notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, records the entry, and resets the worktree.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        match prepared.with_context(repository.recording_context(events)) {
            Prepared::Nothing(nothing) => {
                let entry = Err(nothing.reason);
                nothing.finish()?;
                Ok(Report { entry, is_incomplete: false, kept_directory: false })
            }
            Prepared::Stash(stash) => Ok(save(*stash)?),
        }
    }
}

fn save(stash: Stash<'_, '_>) -> Result<Report, crate::Error> {
    let mut steps = stash.record()?;
    let mut report = Report { entry: Ok(steps.saved().clone()), is_incomplete: true, kept_directory: false };
    if !steps.remove_untracked()? {
        return Ok(report);
    }
    let cleaned = steps.remove_directories();
    report.is_incomplete = !steps.reset()?;
    report.kept_directory = cleaned?;
    Ok(report)
}

/// The paths whose changes are stashed, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.prepared, formatter)
    }
}
