//! Restore: paths of the worktree, the index or both, from a tree or from the index.
//!
//! Order: the source; the index lock; the plan; then the files, the index, and the hook
//! `post-checkout`. Local changes of the paths are lost. A plan that is dropped releases the lock.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Pathspecs, Repository, Silent, restore};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let pathspecs = Pathspecs::parse(&["src".into()], "".into(), "".into(), Default::default())?;
//! let request = restore::Request { pathspecs, ..restore::Request::default() };
//! let plan = restore::plan(&repository, request)?;
//! print!("{plan}");
//! println!("{} files written", plan.run(&Silent)?.written);
//! # Ok(())
//! # }
//! ```

mod prepare;
mod steps;

use std::fmt;

use bstr::BString;
pub use engine::checkout::ConflictSide;
use engine::pathspec::Pathspecs;

pub use crate::error::unmerged;
pub use prepare::{Prepared, Preview, prepare, preview};
pub use steps::Executed;

use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, events::Notices, status::messages,
    switch::Source, text,
};

/// The options of a restore.
#[derive(Clone, Debug)]
pub struct Request {
    /// The commit or tree that has the content; `None` for the index.
    pub source: Option<BString>,
    /// The paths.
    pub pathspecs: Pathspecs,
    /// Restore the index.
    pub index: bool,
    /// Restore the worktree.
    pub worktree: bool,
    /// Keep paths that the source lacks.
    pub overlay: bool,
    /// Restore files outside of a sparse worktree too.
    pub include_sparse: bool,
    /// The side to take of unmerged paths.
    pub side: Option<ConflictSide>,
    /// Leave unmerged paths as they are. Otherwise they are refused.
    pub ignore_unmerged: bool,
    /// Submodules follow; `None` for `submodule.recurse`.
    pub recurse_submodules: Option<bool>,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
    /// Report the progress of the files.
    pub progress: bool,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            source: None,
            pathspecs: Pathspecs::default(),
            index: false,
            worktree: true,
            overlay: false,
            include_sparse: false,
            side: None,
            ignore_unmerged: false,
            recurse_submodules: None,
            keep: None,
            progress: true,
        }
    }
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of files that were written.
    pub written: usize,
    /// True if files could not be written or removed; the notices name them.
    pub is_incomplete: bool,
    /// The unmerged paths that were left as they are.
    pub unmerged: Vec<BString>,
    /// The exit code of the hook `post-checkout`; 0 without a hook.
    pub hook: u8,
}

/// A restore that can run. The index is locked until it is dropped.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Prepared<'r>,
    notices: Vec<Notice>,
}

/// Plans a restore. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    if request.pathspecs.is_empty() {
        return Err(Error::Failed("you must specify path(s) to restore".into()).into());
    }
    let find = |name: &BString| {
        let unknown = || Error::Failed(text!("could not resolve '", name, "'"));
        let oid = repo.rev_parse_or_base(name.as_ref()).map_err(|error| Error::of_name(error, unknown()))?;
        Source::describe(repo, name.as_ref(), oid)
    };
    let source = request.source.as_ref().map(find).transpose()?;
    messages::about_objects(repo, &notices);
    let prepared = prepare(context, request, source)?.with_context(repository.context(&crate::Silent));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, changes the files and the index, and runs the hook.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut executed = prepared.with_context(repository.context(events)).execute()?;
        executed.record()?;
        Ok(executed.run_hook()?)
    }
}

/// The steps of the worktree, each in a line, as [`engine::checkout::Plan`] prints them.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.prepared, formatter)
    }
}
