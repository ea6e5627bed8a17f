//! The bases of a base directory on this machine: listed, compared with their trees, removed.

use std::{fmt, path::PathBuf, time::Duration};

use bstr::BString;
use engine::workspace::base::{Act, Base, Bases};
pub use engine::workspace::base::{Flaw, Freed, Verified};

use crate::{Context, Error, Events, PlanError, Repository, RunError, workspace::places};

/// The directory, and what to do with its bases.
#[derive(Clone, Debug)]
pub struct Request {
    /// The directory; `None` for `sapwood.baseDir`, else one in the repository.
    pub base_dir: Option<PathBuf>,
    /// The action.
    pub action: Action,
}

/// An action with the bases of a directory.
#[derive(Clone, Debug)]
pub enum Action {
    /// List them.
    List,
    /// Compare those with these names with their trees; all of them if there are no names.
    Verify(Vec<String>),
    /// Remove those with these names.
    Remove(Vec<String>),
    /// Remove contents that no base needs.
    Collect {
        /// Find what would be removed, and remove nothing.
        dry_run: bool,
    },
    /// Remove bases that no workspace has used for this time, and contents as well.
    Prune {
        /// The time.
        unused: Duration,
        /// Find what would be removed, and remove nothing.
        dry_run: bool,
    },
}

/// The result.
#[derive(Debug)]
pub enum Report {
    /// The bases.
    Listed(Vec<Base>),
    /// The bases, and their flaws.
    Verified(Vec<(Base, Verified)>),
    /// The bases were removed.
    Removed,
    /// The space that was freed.
    Freed(Freed),
}

/// An action that can run.
pub struct Plan<'r> {
    repository: &'r Repository,
    bases: Bases,
    action: Action,
}

/// Finds the directory. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let bases = places::bases(&repository.inner, request.base_dir.as_deref())?;
    Ok(Plan { repository, bases, action: request.action })
}

impl Plan<'_> {
    /// Carries the action out.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        Ok(carry_out(self.repository.context(events), &self.bases, &self.action)?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.bases.dir().display();
        match &self.action {
            Action::List => write!(formatter, "list the bases of '{dir}'"),
            Action::Verify(names) if names.is_empty() => write!(formatter, "verify the bases of '{dir}'"),
            Action::Verify(names) => write!(formatter, "verify {} of '{dir}'", names.join(", ")),
            Action::Remove(names) => write!(formatter, "remove {} of '{dir}'", names.join(", ")),
            Action::Collect { .. } => write!(formatter, "remove unused contents of '{dir}'"),
            Action::Prune { .. } => write!(formatter, "remove unused bases of '{dir}'"),
        }
    }
}

/// Carries an action out.
pub fn carry_out(context: Context<'_>, bases: &Bases, action: &Action) -> Result<Report, Error> {
    let shared = context.settings.locks.shared;
    let act = |dry_run: bool| if dry_run { Act::DryRun } else { Act::Remove };
    let freed = match action {
        Action::List => return Ok(Report::Listed(bases.list()?)),
        Action::Verify(names) => return Ok(Report::Verified(verify(context, bases, names)?)),
        Action::Remove(names) => {
            names.iter().try_for_each(|name| bases.remove(name, shared))?;
            return Ok(Report::Removed);
        }
        Action::Collect { dry_run } => bases.gc(shared, act(*dry_run), context.interrupt),
        Action::Prune { unused, dry_run } => {
            bases.prune_older(shared, act(*dry_run), context.interrupt, *unused)
        }
    };
    context.check_interrupt()?;
    Ok(Report::Freed(freed?))
}

/// Compares the named bases, or all, with their trees.
fn verify(context: Context<'_>, bases: &Bases, names: &[String]) -> Result<Vec<(Base, Verified)>, Error> {
    let chosen = if names.is_empty() {
        bases.list()?
    } else {
        names.iter().map(|name| bases.get(name)).collect::<Result<_, _>>()?
    };
    let mut reports = Vec::new();
    for base in chosen {
        // A base of another repository is compared without its objects.
        let repo = context.repo.objects().contains(&base.tree).then_some(context.repo);
        let verified = match base.verify(repo, sys::cores()) {
            // It is built again before it is used.
            Err(error) if base.is_lost() => {
                let flaw = Flaw { path: BString::default(), what: error.to_string() };
                Verified { flaws: vec![flaw], ..Verified::default() }
            }
            verified => verified?,
        };
        reports.push((base, verified));
    }
    Ok(reports)
}
