//! A clone with its submodules.
//!
//! Order: the clone with its worktree, as [`crate::clone`] makes it; then the submodules that its
//! request names, as [`update`] brings them. A failure of a submodule leaves the clone, in which
//! [`update`] does the rest.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Silent, submodule::clone};
//!
//! let mut request = clone::Request::default();
//! request.clone.source = "https://example.com/a.git".into();
//! request.clone.submodules = vec![".".into()];
//! let report = clone::plan(".".as_ref(), std::env::vars_os().collect(), request)?.run(&Silent)?;
//! println!("{} submodules", report.submodules.updated.len());
//! # Ok(())
//! # }
//! ```

use std::{fmt, path::Path};

use repo::{OpenOptions, StandaloneConfig, keys};

use super::update;
use crate::{
    Error, Events, PlanError, Repository, RunError, clone,
    lazy::lazy,
    repository::{Environment, outside},
};

/// The options of a clone with submodules.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The clone, and its submodules ([`clone::Request::submodules`]).
    pub clone: clone::Request,
    /// The number of clones side by side, 0 for one on each core; `None` for the configuration.
    pub jobs: Option<usize>,
    /// Take one commit of each submodule.
    pub shallow: bool,
    /// Follow the branches of the submodules' remotes instead of the recorded commits.
    pub remote: bool,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The clone.
    pub clone: clone::Report,
    /// Its submodules. There are none without a worktree, and after a hook that failed.
    pub submodules: update::Report,
}

/// A clone that can run.
pub struct Plan {
    clone: clone::Plan,
    update: update::Request,
    open: OpenOptions,
    wants_submodules: bool,
}

/// Examines source and destination, as [`clone::plan`] does.
pub fn plan(dir: &Path, environment: Environment, request: Request) -> Result<Plan, PlanError> {
    let Request { clone: request, jobs, shallow, remote } = request;
    let absolute = std::path::absolute(dir);
    let dir = absolute.map_err(|source| Error::CannotOpen { path: dir.to_owned(), source })?;
    let open = outside(dir.clone(), environment.clone());
    let wants_submodules = !request.submodules.is_empty();
    let config = StandaloneConfig::load(&open).map_err(Error::from)?;
    let filters = config.config(&keys::clone::FILTER_SUBMODULES).map_err(Error::from)?;
    let update = update::Request {
        require_init: true,
        recursive: true,
        jobs,
        depth: shallow.then_some(1),
        remote,
        no_fetch: remote,
        filter: request.filter.clone().filter(|_| filters),
        single_branch: Some(request.takes_single_branch()),
        ..update::Request::default()
    };
    let clone = clone::plan(&dir, environment, request)?;
    Ok(Plan { clone, update, open, wants_submodules })
}

impl Plan {
    /// Reports the notices, and clones.
    pub fn run<E: Events>(self, events: &E) -> Result<Report, RunError> {
        let Plan { clone, update, open, wants_submodules } = self;
        let interrupt = clone.interrupt();
        let clone = clone.run(events)?;
        let mut submodules = update::Report::default();
        if let Some(top) = &clone.work_tree
            && wants_submodules
            && clone.commit.is_some()
            && clone.hook == 0
        {
            let repository = repo::Repository::open(&OpenOptions {
                cwd: top.clone(),
                git_dir: Some(clone.git_dir.clone()),
                work_tree: Some(top.clone()),
                ..lazy(open, &interrupt)
            });
            let repository = Repository::of(repository.map_err(Error::from)?, interrupt)?;
            submodules = update::plan(&repository, update).map_err(Error::from)?.run(events)?;
        }
        Ok(Report { clone, submodules })
    }
}

/// The source and the new directory.
impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone.fmt(formatter)
    }
}
