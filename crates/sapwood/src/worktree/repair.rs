//! Repairing the links between worktrees and their records, after one of them was moved.
//!
//! Each link is examined when it is repaired, so planning only resolves the paths and reads the
//! settings.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, worktree::repair};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let request = repair::Request { paths: vec!["../moved".into()], relative: None };
//! for finding in repair::plan(&repository, request)?.run(&Silent)?.findings {
//!     println!("{}: {}", finding.path.display(), finding.message);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};

pub use engine::worktree::repair::{Finding, Outcome};
use engine::worktree::{admin::Linker, repair};

use super::records::{Given, Worktrees};
use crate::{Error, Events, Notice, PlanError, Repository, RunError, events::Notices};

/// The options of a repair.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Worktrees that were moved, relative to the directory from which the repository was opened;
    /// that directory if empty.
    pub paths: Vec<PathBuf>,
    /// The links are relative; `None` for `worktree.useRelativePaths`.
    pub relative: Option<bool>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The broken links, and if they are repaired.
    pub findings: Vec<Finding>,
}

/// Links to examine.
pub struct Plan<'r> {
    repository: &'r Repository,
    paths: Vec<Given>,
    linker: Linker,
    notices: Vec<Notice>,
}

/// Resolves the paths. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let paths = if request.paths.is_empty() { vec![".".into()] } else { request.paths };
    let paths = paths.iter().map(|path| Given::of(repository, path)).collect::<Result<_, _>>()?;
    let linker = worktrees.linker(request.relative)?;
    Ok(Plan { repository, paths, linker, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Repairs the records of the paths, then the worktrees of all records.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        let mut findings = Vec::new();
        for given in &self.paths {
            findings.extend(at(&worktrees, given, &self.linker)?);
        }
        all(&worktrees, &self.linker, |finding| findings.push(finding))?;
        Ok(Report { findings })
    }
}

/// Repairs the record of the worktree at a path.
pub fn at(worktrees: &Worktrees<'_>, given: &Given, linker: &Linker) -> Result<Option<Finding>, Error> {
    let shown = Path::new(sys::os_str(&given.shown));
    Ok(repair::at_path(&given.path, shown, worktrees.repo, linker)?)
}

/// Repairs the worktrees of all records. `report` gets each finding at once.
pub fn all(worktrees: &Worktrees<'_>, linker: &Linker, mut report: impl FnMut(Finding)) -> Result<(), Error> {
    for worktree in worktrees.repo.worktrees()? {
        repair::from_admin(&worktree, worktrees.repo, linker)?.into_iter().for_each(&mut report);
    }
    Ok(())
}
