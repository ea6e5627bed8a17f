//! The selection of the tracked files that are in the worktree.
//!
//! Order of a run: the configuration of this worktree; the lock on `info/sparse-checkout`; worktree
//! and index; the file. If files cannot be written, the file stays as it was and its patterns are
//! applied again.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, sparse_checkout::{self, Request, Task}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let task = Task::Set(vec!["src".into(), "docs".into()]);
//! let plan = sparse_checkout::plan(&repository, Request { task, ..Request::default() })?;
//! assert!(plan.run(&Silent)?.is_complete());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod selection;
mod update;

use bstr::BString;
use engine::sparse::Patterns;

use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, Silent, events::Notices, transaction::Done,
};
pub use selection::{Selection, Words, unquoted};

/// The change of the selection.
#[derive(Clone, Debug, Default)]
pub enum Task {
    /// Begin with the files at the root, or with the patterns that are there.
    #[default]
    Begin,
    /// Select these directories of a cone, or these patterns.
    Set(Vec<BString>),
    /// Select these directories or patterns, too.
    Add(Vec<BString>),
    /// Apply the patterns again.
    Reapply,
    /// Select all files.
    Disable,
}

/// The options of a change.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The change.
    pub task: Task,
    /// A cone of directories, or patterns; `None` to keep the mode.
    pub cone: Option<bool>,
    /// Write the index with directories for what is not selected; `None` to keep that setting.
    pub sparse_index: Option<bool>,
    /// Accept words that look like a mistake.
    pub skip_checks: bool,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The state of the worktree.
    pub done: Done,
}

impl Report {
    /// Returns true if the worktree has just the files of the selection.
    pub fn is_complete(self) -> bool {
        self.done.is_complete()
    }
}

/// A change that is known to be valid.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    selection: Selection<'r>,
    patterns: Option<Patterns>,
    notices: Vec<Notice>,
}

/// Checks the change, and finds its patterns.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let selection = Selection::of(repository.context(&notices))?;
    selection.must_be_changeable()?;
    let patterns = match &request.task {
        Task::Set(words) => {
            let mut decided = selection.clone();
            decided.decide_mode(request.cone);
            let words = decided.checked(&decided.read()?, words, request.skip_checks)?;
            Some(decided.selecting(&Words::Names(words))?)
        }
        Task::Add(words) => {
            selection.must_be_on("no sparse-checkout to add to")?;
            let words = selection.checked(&selection.read()?, words, request.skip_checks)?;
            Some(selection.adding(|| Ok::<_, Error>(Words::Names(words)))?)
        }
        Task::Reapply => {
            selection.must_be_on("must be in a sparse-checkout to reapply sparsity patterns")?;
            None
        }
        Task::Begin | Task::Disable => None,
    };
    let selection = selection.with_context(repository.context(&Silent));
    Ok(Plan { repository, request, selection, patterns, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and changes the configuration, the worktree and the index.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request, selection, patterns, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut selection = selection.with_context(repository.context(events));
        let (cone, sparse_index) = (request.cone, request.sparse_index);
        let done = match (request.task, patterns) {
            (Task::Set(_), Some(patterns)) => {
                selection.take_mode(cone, sparse_index)?;
                selection.write_and_update(patterns)?
            }
            (_, Some(patterns)) => selection.write_and_update(patterns)?,
            (Task::Disable, None) => {
                selection.disable()?;
                Done::Complete
            }
            (Task::Reapply, None) => {
                selection.take_mode(cone, sparse_index)?;
                selection.reapply()?
            }
            (_, None) => {
                selection.take_mode(cone, sparse_index)?;
                selection.begin()?
            }
        };
        Ok(Report { done })
    }
}
