//! Updating submodules to the commits that the superproject records.
//!
//! Order: the list of submodules, from the index; the settings of those that are registered; the
//! missing repositories, side by side; then, one after another, a fetch if the commit is missing,
//! the worktree, and the nested submodules. A submodule whose worktree refuses the commit does not
//! stop the others. After a failure or a kill, the same request does the rest: repositories that
//! came are used as they are.
//!
//! `.gitmodules` is treated as hostile input, as by Git. Submodules are cloned and fetched without
//! what `protocol.<name>.allow` leaves to the user's own commands.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, submodule::update};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = update::Request { init: true, recursive: true, ..update::Request::default() };
//! let plan = update::plan(&repository, request)?;
//! print!("{plan}");
//! for updated in plan.run(&Silent)?.updated {
//!     println!("{}: {}", updated.path, updated.commit);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The steps are functions for a caller that runs them as processes: [`select()`], [`prepare`] and
//! [`finish`] around a clone, and [`one()`] over a [`Source`].

mod alternates;
mod one;
mod process;
mod repository;
mod select;

use std::fmt;

use bstr::{BString, ByteSlice as _};
use engine::{clone::Filter, pathspec::Pathspecs};
use repo::keys;

pub use one::{Bring, Failed, Fetch, Place, Source, Updated, one};
pub use repository::{NewRepository, Step, Wanted, finish, prepare};
pub use select::{Selected, Skipped, Update, Why, select};

use super::{Strategy, Superproject, init, links};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, Silent,
    events::Notices,
    index::load_index,
    settings::refused::{self, Reader},
    text,
};

/// The options of an update.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths of submodules; all of them if empty.
    pub pathspecs: Pathspecs,
    /// Register the submodules first, as [`init`] does.
    pub init: bool,
    /// As [`Request::init`]; clone only into empty directories.
    pub require_init: bool,
    /// Follow the branches of the submodules' remotes instead of the recorded commits.
    pub remote: bool,
    /// Do not fetch.
    pub no_fetch: bool,
    /// Lose local changes, also in submodules that have their commit.
    pub force: bool,
    /// Update the submodules within submodules, too.
    pub recursive: bool,
    /// The way to the commit; `None` for that of each submodule.
    pub strategy: Option<Strategy>,
    /// The repositories whose objects new submodules borrow.
    pub references: Vec<BString>,
    /// Copy the borrowed objects afterwards.
    pub dissociate: bool,
    /// The number of commits to take; `None` or 0 for all.
    pub depth: Option<u32>,
    /// The number of clones side by side, 0 for one on each core; `None` for the configuration.
    pub jobs: Option<usize>,
    /// Use the depth that `.gitmodules` recommends; `None` for yes.
    pub recommend_shallow: Option<bool>,
    /// Take one branch only; `None` for yes if the history is limited.
    pub single_branch: Option<bool>,
    /// The objects that new submodules leave out.
    pub filter: Option<Filter>,
    /// The path of the worktree in its own superproject, with a slash.
    pub super_prefix: Option<BString>,
}

/// The result. Paths are shown relative to the directory that was opened.
#[derive(Debug, Default)]
pub struct Report {
    /// The submodules that were registered.
    pub registered: Vec<init::Registered>,
    /// The submodules that got their commit, nested ones included.
    pub updated: Vec<Updated>,
    /// The submodules that were left as they are.
    pub skipped: Vec<Skipped>,
    /// The submodules whose worktree refused the commit, and why.
    pub refused: Vec<(BString, Error)>,
}

/// An update that can run.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    jobs: usize,
    changes: init::Changes,
    /// The warnings about `.gitmodules` are among the notices.
    has_warned: bool,
    selected: Vec<Selected>,
    notices: Vec<Notice>,
}

/// Finds the submodules, and the settings of new ones. Changes nothing, and contacts nobody.
pub fn plan(repository: &Repository, mut request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let repo = context.repo;
    if repo.work_tree().is_none() {
        return Err(Error::NoWorktree.into());
    }
    let readers = [Reader::Every, Reader::Repository, Reader::Refs];
    refused::check(repo, &readers).map_err(Error::from)?;
    repo.check_grafts().map_err(Error::from)?;
    if repo.extensions().submodule_paths {
        return Err(PlanError::Unsupported("repositories with extensions.submodulePathConfig"));
    }
    request.init |= request.require_init;
    let named = !request.pathspecs.is_empty();
    let index = load_index(context)?;
    let superproject = Superproject::new(context, &index, request.super_prefix.clone())?;
    let jobs = jobs(&superproject, request.jobs)?;
    let links = links(&index, &request.pathspecs)?;
    let mut changes = init::Changes::default();
    if request.init {
        let (found, done) = init::changes(&superproject, links.clone(), named, &|_| {});
        done?;
        changes = found;
    }
    let has_warned = superproject.submodules.has_warned();
    drop(superproject);
    // The run selects again, and reports the notices of that.
    let silent = Superproject::new(repository.context(&Silent), &index, request.super_prefix.clone())?;
    let mut selected = Vec::new();
    for link in &links {
        let found = select(&silent, &request, link, &changes)?;
        if let Selected::Update(update) | Selected::New(update, _) = &found
            && one::merges(&silent, &request, update)?
        {
            return Err(PlanError::Unsupported("merges and rebases of submodules"));
        }
        selected.push(found);
    }
    let notices = notices.into_vec();
    Ok(Plan { repository, request, jobs, changes, has_warned, selected, notices })
}

/// Returns the number of clones side by side. `wanted` is that of the request; 0 stands for one on
/// each core.
pub fn jobs(superproject: &Superproject<'_>, wanted: Option<usize>) -> Result<usize, Error> {
    let parse = |text: BString| text.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let configured = match superproject.repo.config(&keys::submodule::FETCH_JOBS)? {
        Some(number) => Some(i64::from(number)),
        None => superproject.submodules.general(&keys::submodule::FETCH_JOBS).and_then(parse),
    };
    if configured.is_some_and(|number| number < 0) {
        return Err(Error::failed("negative values not allowed for submodule.fetchJobs"));
    }
    let configured = configured.and_then(|number| usize::try_from(number).ok());
    Ok(wanted.or(configured).map_or(1, |number| if number == 0 { sys::cores() } else { number }))
}

impl Plan<'_> {
    /// Reports the notices, writes the settings, and updates the submodules.
    pub fn run<E: Events>(self, events: &E) -> Result<Report, RunError> {
        let Plan { repository, request, jobs, changes, has_warned, notices, .. } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let mut repository = repository.again()?;
        let changes = changes.without_present(&repository.inner);
        if !changes.is_empty() {
            changes.write(repository.context(events))?;
            repository = repository.again()?;
        }
        let context = repository.context(events);
        let index = load_index(context)?;
        let superproject = Superproject::new(context, &index, request.super_prefix.clone())?;
        superproject.submodules.set_warned(has_warned);
        let process = process::Process::new(&superproject, &request, &repository, events);
        process.update(&links(&index, &request.pathspecs)?, jobs)?;
        Ok(Report { registered: changes.registered, ..process.into_report() })
    }
}

/// The submodules, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.registered.iter().try_for_each(|one| writeln!(formatter, "{}", one.text()))?;
        let named = !self.request.pathspecs.is_empty();
        for selected in &self.selected {
            match selected {
                Selected::Skipped(skipped) => write!(formatter, "{}", skipped.text(named))?,
                Selected::Update(update) => writeln!(formatter, "update {}", update.path)?,
                Selected::New(_, wanted) => writeln!(formatter, "clone {} into {}", wanted.url, wanted.path)?,
            }
        }
        Ok(())
    }
}

impl Report {
    /// Adds the result in a nested superproject.
    fn add(&mut self, nested: Report) {
        let Report { registered, updated, skipped, refused } = nested;
        self.registered.extend(registered);
        self.updated.extend(updated);
        self.skipped.extend(skipped);
        self.refused.extend(refused);
    }
}

impl<E: Into<Error> + fmt::Display> From<Failed<E>> for Error {
    fn from(failed: Failed<E>) -> Error {
        let (message, cause) = match failed {
            Failed::Other(cause) => return cause.into(),
            Failed::Brought { path, bring, cause } => (bring.failed(path.as_bstr()), cause),
            Failed::Nested { path, cause } => {
                (text!("Failed to recurse into submodule path '", path, "'"), cause)
            }
        };
        match cause.into() {
            Error::Interrupted => Error::Interrupted,
            cause => Error::Submodule { message, cause: Box::new(cause) },
        }
    }
}
