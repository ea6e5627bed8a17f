//! Removing workspaces that nobody needs: those whose commits landed, then those that are pushed
//! and idle, until the rest fits a budget.
//!
//! Never removed: a workspace with unsaved work, one that a process uses, one that is locked or
//! frozen, and one of which this is unknown. Each is classed again right before it is removed, and
//! [`super::remove`] checks for unsaved work on its own once more.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use sapwood::{Repository, Silent, workspace::budget};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let idle = Some(Duration::from_secs(3 * 24 * 60 * 60));
//! let request = budget::Request { landed: true, idle, budget: Some(20 << 30) };
//! let plan = budget::plan(&repository, request)?;
//! print!("{plan}");
//! plan.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/workspace-budget.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fmt,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::BString;
use engine::workspace::{
    backend::Mounted,
    frozen,
    record::{Activity, Workspace},
};

use super::{
    all,
    class::{Class, Look, Unsaved, classify},
    list::{bytes_below, size_of},
    mounts, rebase,
    remove::{self, Attempt, Force},
};
use crate::{
    Error, Events, Notice, PlanError, Repository, RunError,
    events::Notices,
    locks,
    worktree::{
        records::{Worktrees, open_worktree},
        remove::hides_untracked,
    },
};

/// The workspaces to remove. Nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Those whose commits landed.
    pub landed: bool,
    /// Those that are pushed, or never had a commit of their own, and idle for so long.
    pub idle: Option<Duration>,
    /// The bytes that the upper layers, the administrative directories and the frozen layers may
    /// have together: nothing is removed as long as they have no more. `None` removes all of the
    /// workspaces above.
    pub budget: Option<u64>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The workspaces that were removed, in order.
    pub removed: Vec<BString>,
    /// The workspaces that were to be removed, and are kept, with the reasons.
    pub kept: Vec<(BString, String)>,
}

/// Why a workspace is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its commits are in this branch.
    Landed(BString),
    /// It is pushed and idle.
    Idle,
    /// It has no commit of its own, and is idle.
    Unused,
}

/// A workspace to remove.
#[derive(Clone, Debug)]
pub struct Step {
    /// The workspace.
    pub workspace: Workspace,
    /// The reason.
    pub reason: Reason,
    /// The time of its last change, in seconds since 1970.
    pub idle_since: i64,
    /// The bytes that become free, if there is a budget.
    pub size: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Landed(branch) => write!(formatter, "its commits are in '{branch}'"),
            Reason::Idle => formatter.write_str("it is pushed and idle"),
            Reason::Unused => formatter.write_str("it has no commits of its own and is idle"),
        }
    }
}

/// The workspaces to remove, in order.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    request: Request,
    /// The steps.
    pub steps: Vec<Step>,
    /// The bytes of all workspaces and frozen layers, if there is a budget.
    pub total: u64,
}

/// The workspaces to remove.
pub struct Plan<'r> {
    repository: &'r Repository,
    steps: Steps,
    notices: Vec<Notice>,
}

/// Selects the workspaces to remove. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let worktrees = Worktrees::of(repository.context(&notices), Vec::new());
    let steps = Steps::select(&worktrees, request)?;
    Ok(Plan { repository, steps, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the workspaces to remove, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps.steps
    }

    /// Removes the workspaces. One that changed since the plan so that it would not be selected now
    /// is kept. A failure does not end the run.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let worktrees = Worktrees::of(self.repository.context(events), Vec::new());
        locks::recover(&worktrees.common, events);
        let mut report = Report::default();
        for step in &self.steps.steps {
            let name = BString::from(step.workspace.name.as_encoded_bytes());
            match self.steps.remove(&worktrees, step) {
                Ok(Attempt::Removed) => report.removed.push(name),
                Ok(Attempt::RecordStays) => {
                    report.kept.push((name, "its record could not be removed".to_owned()));
                }
                Ok(Attempt::Locked) => report.kept.push((name, "another command has locked it".to_owned())),
                Err(Error::Interrupted) => return Err(Error::Interrupted.into()),
                Err(error) => report.kept.push((name, error.to_string())),
            }
        }
        if !report.removed.is_empty() {
            discard_unused_layers(&worktrees)?;
        }
        Ok(report)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps().iter().try_for_each(|step| {
            writeln!(formatter, "remove workspace '{}': {step}", step.workspace.name.display())
        })
    }
}

/// Removes the frozen layers that no workspace uses.
pub fn discard_unused_layers(worktrees: &Worktrees<'_>) -> Result<(), Error> {
    let unused = frozen::unused(&worktrees.common);
    for layer in unused.map_err(|error| Error::failed(error.to_string()))? {
        rebase::discard(worktrees, &layer);
    }
    Ok(())
}

/// A frozen layer, which goes with the last workspace that uses it.
struct Frozen<'a> {
    size: u64,
    users: BTreeSet<&'a OsStr>,
}

impl Steps {
    /// Selects the workspaces to remove.
    pub fn select(worktrees: &Worktrees<'_>, request: Request) -> Result<Steps, Error> {
        let all = all(worktrees)?;
        let looks: Vec<Look<'_>> = all.iter().map(|workspace| Look::at(worktrees, workspace)).collect();
        let classes = classify(worktrees, &looks)?;
        let mut steps = Vec::new();
        for (workspace, class) in all.iter().zip(&classes) {
            worktrees.check_interrupt()?;
            if let Some(reason) = request.reason(class)
                && may_go(worktrees, workspace, class)?
            {
                let (workspace, idle_since) = (workspace.clone(), class.idle_since);
                steps.push(Step { workspace, reason, idle_since, size: 0 });
            }
        }
        steps.sort_by_key(|step| (!matches!(step.reason, Reason::Landed(_)), step.idle_since));
        let mut selected = Steps { request, steps, total: 0 };
        if let Some(budget) = request.budget {
            selected.fit(&all, budget);
        }
        Ok(selected)
    }

    /// Keeps the steps that are needed until the rest has at most `budget` bytes.
    fn fit(&mut self, all: &[Workspace], budget: u64) {
        let mut layers: BTreeMap<PathBuf, Frozen<'_>> = BTreeMap::new();
        for workspace in all {
            for layer in workspace.frozen() {
                let new = || Frozen { size: bytes_below(&layer), users: BTreeSet::new() };
                let found = layers.entry(layer.clone()).or_insert_with(new);
                found.users.insert(&workspace.name);
            }
        }
        let own: u64 = all.iter().map(size_of).sum();
        self.total = own + layers.values().map(|layer| layer.size).sum::<u64>();
        let mut rest = self.total;
        self.steps.retain_mut(|step| {
            if rest <= budget {
                return false;
            }
            step.size = size_of(&step.workspace);
            for layer in step.workspace.frozen() {
                let Some(found) = layers.get_mut(&layer) else { continue };
                if found.users.remove(step.workspace.name.as_os_str()) && found.users.is_empty() {
                    step.size += found.size;
                }
            }
            rest = rest.saturating_sub(step.size);
            true
        });
    }

    /// Removes a workspace, if it would be selected now, and no other command has locked it.
    pub fn remove(&self, worktrees: &Worktrees<'_>, step: &Step) -> Result<Attempt, Error> {
        let is_selected = || self.check(worktrees, step);
        remove::remove_if(worktrees, &step.workspace, Force::No, &is_selected)
    }

    /// Returns an error if a workspace would not be selected now, or was used since.
    fn check(&self, worktrees: &Worktrees<'_>, step: &Step) -> Result<(), Error> {
        let look = Look::at(worktrees, &step.workspace);
        let classes = classify(worktrees, &[look])?;
        let class = classes.first().expect("one class for each workspace");
        let is_selected = self.request.reason(class).is_some() && may_go(worktrees, &step.workspace, class)?;
        if is_selected && class.idle_since <= step.idle_since {
            return Ok(());
        }
        Err(Error::failed(format!("'{}' is used again", step.workspace.name.display())))
    }
}

impl Request {
    /// Returns true if the request selects nothing.
    pub fn is_empty(&self) -> bool {
        !self.landed && self.idle.is_none()
    }

    /// Returns why a workspace of this class is selected.
    fn reason(&self, class: &Class) -> Option<Reason> {
        // Without commits of its own, the workspace may be about to get its first one.
        if let (true, true, Some(branch)) = (self.landed, class.has_moved, &class.landed) {
            return Some(Reason::Landed(branch.clone()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let idle = now.as_secs().saturating_sub(u64::try_from(class.idle_since).unwrap_or(0));
        if self.idle.is_none_or(|wanted| idle < wanted.as_secs()) {
            return None;
        }
        match class {
            Class { pushed: true, .. } => Some(Reason::Idle),
            Class { has_moved: false, landed: Some(_), .. } => Some(Reason::Unused),
            _ => None,
        }
    }
}

/// Returns true if nothing is lost without a workspace, and nobody uses it.
fn may_go(worktrees: &Worktrees<'_>, workspace: &Workspace, class: &Class) -> Result<bool, Error> {
    let is_active = workspace.record.activity == Activity::Active;
    if class.live.is_some() || class.is_locked || !is_active {
        return Ok(false);
    }
    match &class.unsaved {
        None => Ok(true),
        // A status decides where the upper layer does not.
        Some(Unsaved::Staged | Unsaved::Unexamined(_)) => {
            let Some(worktree) = workspace.linked_worktree(worktrees.repo) else { return Ok(false) };
            // That status leaves out what the user's settings hide.
            let shows_all =
                || open_worktree(worktrees.repo, &worktree).is_ok_and(|repo| !hides_untracked(&repo));
            Ok(matches!(mounts::state(workspace), Ok(Mounted::Here))
                && shows_all()
                && remove::refuse_unsaved(worktrees, workspace, &worktree).is_ok())
        }
        Some(_) => Ok(false),
    }
}
