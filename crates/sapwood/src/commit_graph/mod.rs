//! A file with the parents, dates and generations of commits, which serves history queries.
//!
//! Order of a change: the commits to start from; the lock on the file; the old graph; the new one;
//! its file, which is on disk before the old one is removed. Without commits nothing is written. As
//! in Git, nothing is written in a shallow clone.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, commit_graph::{self, Request, Start}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { start: Start::Reachable, ..Request::default() };
//! let report = commit_graph::plan(&repository, request)?.run(&Silent)?;
//! println!("{} commits", report.commit_count);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod place;
mod prepare;
pub mod verify;

use bstr::BString;
pub use engine::{
    commit_graph::{Progress, Split, Stage, Tips},
    worktree::prune::Expire,
};
use format::ObjectId;

pub use self::{
    place::{Place, peel, referenced},
    prepare::{Filters, Prepared, prepare},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, Silent, events::Notices, object_files::ObjectDir,
};

/// The commits to start from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// All commits in packs.
    #[default]
    AllPacks,
    /// All commits in the packs with these index files.
    Packs(Vec<BString>),
    /// These commits.
    Commits(Vec<ObjectId>),
    /// The commits that refs name.
    Reachable,
}

/// The options of a new graph.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The commits to start from.
    pub start: Start,
    /// Keep the commits of the old graph.
    pub append: bool,
    /// Filters of changed paths; `None` to follow the configuration and the old graph.
    pub changed_paths: Option<bool>,
    /// The treatment of existing layers; `None` writes a single file.
    pub split: Option<Split>,
    /// The largest number of commits of a layer that is not merged.
    pub max_commits: Option<i32>,
    /// The largest ratio between two layers that are not merged.
    pub size_multiple: Option<i32>,
    /// The age of unused layers that are removed.
    pub expire: Option<Expire>,
    /// The largest number of new filters. Outer `None`: the configuration; inner `None`: no limit.
    pub max_new_filters: Option<Option<i32>>,
}

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of commits in the new file; 0 if none was written.
    pub commit_count: usize,
    /// The number of chunks of the new file.
    pub chunk_count: usize,
}

/// A new graph, with its file locked.
pub struct Plan<'r> {
    repository: &'r Repository,
    prepared: Option<Prepared<'r>>,
    notices: Vec<Notice>,
}

/// Computes the new graph in memory.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    let filters = Filters::of(repo).map_err(Error::from)?;
    let place = Place::of(repo, ObjectDir::own(repo)).map_err(Error::from)?;
    let objects = repo.stored_objects();
    let tips = match &request.start {
        Start::AllPacks => Tips::AllPacks,
        Start::Packs(names) => Tips::Packs(names.clone()),
        Start::Commits(commits) => Tips::Commits(commits.clone()),
        Start::Reachable => Tips::Commits(referenced(repo, &objects, &mut |_| {}).map_err(Error::from)?),
    };
    let prepared = prepare(context, &objects, place, filters, &request, tips, &|_, _, _| {})?;
    let prepared = prepared.map(|prepared| prepared.with_context(repository.context(&Silent)));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns true if there are commits for a graph, and the repository may have one.
    pub fn is_needed(&self) -> bool {
        self.prepared.is_some()
    }

    /// Reports the notices, and writes the file.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        match prepared {
            Some(prepared) => Ok(prepared.with_context(repository.context(events)).write()?),
            None => Ok(Report::default()),
        }
    }
}

/// Returns the error for a case that is left to Git.
fn unsupported(what: &'static str) -> PlanError {
    PlanError::Unsupported(what)
}
