//! Executing a plan's steps, and reporting their outcomes.

use bstr::{BStr, BString};
use engine::{
    checkout::{
        self, Action, Cleared, ExecuteOptions, IndexOptions, Links, Outcome, Plan, PlanOptions, Report,
        StepError,
    },
    diff::Pair,
    sparse::Purpose,
};
use format::{ObjectId, index::Index};

use super::{Done, Filled, IncompleteSteps, IndexTransaction, Recorded, Target, Unfilled};
use crate::{
    Error, PlanError,
    events::Filtered,
    index::{load_index, must_have_been_readable},
    notice::Notice,
    sparse_index,
    submodules::{self, Submodules},
    text,
};

/// A change, and the local changes that remain.
#[derive(Debug)]
pub struct Performed {
    /// The result of the steps.
    pub done: Done,
    /// The number of entries that were written.
    pub written: usize,
    /// The paths that differ from the tree that was asked for.
    pub changes: Vec<Pair>,
}

impl IndexTransaction<'_> {
    /// Executes and records a plan. With `tree`, the result has the local changes relative to it;
    /// the caller must have refreshed the index.
    pub fn perform(mut self, plan: Plan, tree: Option<ObjectId>) -> Result<Performed, Error> {
        let done = self.carry_out(plan)?;
        self.finish(Recorded::Yes)?;
        let mut changes = Vec::new();
        // If objects have become unreadable, the changes are unknown. The unreadable files were
        // reported.
        if let Some(tree) = tree.filter(|_| sys::unreadable_map().is_none()) {
            if done != Done::Complete {
                self.refresh()?;
            }
            changes = self.local_changes(tree)?;
        }
        Ok(Performed { done, written: self.report.written, changes })
    }

    /// Plans, executes and records the worktree of a clone.
    pub fn fill(mut self, options: &PlanOptions) -> Result<Filled, Unfilled> {
        self.policy.links = Links::GiveWay;
        self.policy.incomplete_steps = IncompleteSteps::Resumable;
        let plan = self.plan(options).map_err(|error| Unfilled {
            // A path that is forbidden in a worktree stays refused on every retry.
            is_resumable: !matches!(error, PlanError::Failed(Error::Refused(_))),
            error: Box::new(error),
        })?;
        let stopped = |error: Error| Unfilled { error: Box::new(error.into()), is_resumable: true };
        let done = self.carry_out(plan).map_err(stopped)?;
        self.finish(Recorded::Yes).map_err(stopped)?;
        let is_resumable = self.report.in_the_way || self.report.stopped || done == Done::Unfinished;
        Ok(Filled { done, written: self.report.written, collided: self.report.collided, is_resumable })
    }

    /// Sets the whole index to `tree`, unless the steps were stopped. Local changes that remain in
    /// the worktree are not staged then.
    pub fn set_index_to(&mut self, tree: ObjectId) -> Result<(), Error> {
        if self.report.stopped {
            return Ok(());
        }
        let repo = self.context.repo;
        sparse_index::expand_for(repo, &mut self.index, &|_| Purpose::OneWay(tree))?;
        let options = IndexOptions { tree, pathspecs: None, intent_to_add: false, sparse: None };
        let index = std::mem::replace(&mut self.index, Index::empty(repo.hash()));
        self.index = checkout::plan_index(repo, index, &options)?.index;
        Ok(())
    }

    /// Checks a plan as [`IndexTransaction::carry_out`] does before its first step, for a dry run.
    /// Reports the warnings of the plan.
    pub fn check(&self, plan: &Plan) -> Result<(), Error> {
        self.report_warnings(plan);
        let Target { root, worktree, lead, .. } = &self.target;
        Cleared::new(self.context.repo, root, worktree, plan, lead)?;
        Ok(())
    }

    fn report_warnings(&self, plan: &Plan) {
        for text in &plan.warnings {
            self.context.events.notice(Notice::Plan(text.clone()));
        }
    }

    /// Executes a plan. The caller then calls [`IndexTransaction::finish`].
    pub fn carry_out(&mut self, plan: Plan) -> Result<Done, Error> {
        // Entries that stay in their file were read while planning.
        must_have_been_readable()?;
        self.report_warnings(&plan);
        self.preflight(&plan)?;
        let submodules = self.submodules.take();
        let Target { root, worktree, lead, .. } = &self.target;
        let cleared = Cleared::new(self.context.repo, root, worktree, &plan, lead)?;
        let submodules = match submodules {
            Some(submodules) => Some(submodules),
            None => self.submodules_of(&plan.index)?,
        };
        if let Some(submodules) = &submodules {
            submodules.prepare(&plan)?;
        }
        self.fetch_missing(&plan)?;
        self.context.check_interrupt()?;
        if let Some(submodules) = &submodules {
            submodules.remove_worktrees(&plan, self.policy.force_on_submodules)?;
        }
        let mut report = self.execute(&plan, cleared)?;
        self.report_outcomes(&plan, &report);
        let died = self.note_fatal(&plan, &report);
        let moved = match submodules.filter(|_| !report.interrupted && !died) {
            Some(submodules) => self.move_submodules(&submodules, &plan, &mut report),
            None => true,
        };
        self.sum_up(&plan, &report);
        let done = if report.is_complete() && moved { Done::Complete } else { Done::Incomplete };
        let again =
            died || (self.policy.incomplete_steps == IncompleteSteps::Resumable && report.can_resume());
        let done = if again && !report.interrupted { Done::Unfinished } else { done };
        self.index = if report.interrupted || again {
            let before = load_index(self.context)?;
            checkout::record_interrupted(before, plan, &report)
        } else {
            checkout::record(plan, &report)
        };
        Ok(done)
    }

    /// Executes the steps, with progress.
    fn execute(&self, plan: &Plan, cleared: Cleared<'_>) -> Result<Report, Error> {
        let ahead = self.policy.written_ahead;
        let total = ahead + plan.writes.len() + plan.removals.len();
        let steps = if self.policy.progress { self.context.events.steps() } else { None };
        let filtering = |done: usize, delayed: usize, bytes: u64| {
            if let Some(steps) = &steps {
                steps.filtered(Filtered { steps: total, done, total: delayed, bytes });
            }
        };
        let options = ExecuteOptions {
            filtering: &filtering,
            workers: self.context.settings.workers,
            threshold: self.context.settings.threshold,
            interrupt: self.context.interrupt,
            progress: &|done, total| {
                if let Some(steps) = &steps {
                    steps.update(ahead + done, ahead + total);
                }
            },
            big_file_threshold: self.context.settings.big_file_threshold,
            symlinks: self.context.settings.symlinks,
            links: self.policy.links,
            metadata: self.policy.metadata.clone(),
            delays: self.policy.delays,
            attributes: self.policy.attributes,
            original_cwd: self.policy.original_cwd.as_ref().map(|cwd| cwd.as_ref()),
        };
        if let Some((path, error)) = sys::unreported_unreadable_map() {
            let message = format!("unable to read '{}': {}", path.display(), sys::reason(&error));
            return Err(Error::Failed(message.into()));
        }
        let report = checkout::execute(self.context.repo, cleared, &options)?;
        // The plan used only pages that could be read. If a later file cannot be read, its step
        // fails.
        sys::mark_unreadable_maps_reported();
        if let Some(steps) = steps.filter(|_| !report.interrupted) {
            steps.finish(total);
        }
        Ok(report)
    }

    /// Reports the messages of filters, and the errors of single steps.
    fn report_outcomes(&self, plan: &Plan, report: &Report) {
        for message in &report.messages {
            self.context.events.notice(Notice::Converter(message.to_string()));
        }
        for (step, outcome) in plan.removals.iter().zip(&report.removals) {
            self.report_outcome(step.path.as_ref(), outcome);
        }
        for (step, outcome) in plan.writes.iter().zip(&report.writes) {
            let path = plan.index.path_at(step.entry);
            if self.target.prefix.is_empty() {
                self.report_outcome(path, outcome)
            } else {
                self.report_outcome(text!(self.target.prefix, path).as_ref(), outcome)
            }
        }
    }

    /// Notes the error that ended the steps. Returns true if a directory could not be created.
    fn note_fatal(&mut self, plan: &Plan, report: &Report) -> bool {
        self.report.fatal = report.fatal().map(ToString::to_string);
        let dead = report.first_directory_failure().map(|(step, error)| {
            let path = text!(self.target.lead, plan.index.path_at(plan.writes[step].entry));
            let dir = missing_directory(&self.target.worktree, &path);
            format!("cannot create directory at '{dir}': {}", sys::reason(error))
        });
        let died = dead.is_some();
        self.report.fatal = self.report.fatal.take().or(dead);
        died
    }

    /// Moves the submodules along. Returns false if one of them stays behind.
    fn move_submodules(&mut self, submodules: &Submodules<'_>, plan: &Plan, report: &mut Report) -> bool {
        match submodules.move_worktrees(plan, report, self.policy.force_on_submodules) {
            Ok(all) => all,
            // `finish` returns this error after it has recorded the completed steps.
            Err(Error::Interrupted) => true,
            Err(error) => match submodules::as_fatal(error) {
                Ok(message) => {
                    self.report.fatal = Some(message.to_string());
                    true
                }
                Err(error) => {
                    self.context.events.notice(Notice::SubmoduleFailed(Box::new(error)));
                    false
                }
            },
        }
    }

    /// Counts the outcomes.
    fn sum_up(&mut self, plan: &Plan, report: &Report) {
        self.report.stopped = report.interrupted;
        let written =
            |outcome: &&Outcome| matches!(outcome, Outcome::Written(_) | Outcome::Collided(Some(_)));
        self.report.written = report.writes.iter().filter(written).count();
        self.report
            .collided
            .extend(report.collided().map(|step| plan.index.path_at(plan.writes[step].entry).to_owned()));
        self.report.was_undeleted |=
            report.removals.iter().any(|outcome| matches!(outcome, Outcome::Undeleted(_)));
        self.report.in_the_way = report.writes.iter().any(|outcome| matches!(outcome, Outcome::Stale));
    }

    /// Returns an error for each problem that can be detected before anything is written. A clone
    /// continues: it keeps the files it can write.
    pub(crate) fn preflight(&self, plan: &Plan) -> Result<(), Error> {
        if self.policy.links == Links::TakePlace
            && let Some(message) = checkout::unusable_filter(self.context.repo, plan, self.policy.attributes)?
        {
            return Err(Error::Failed(message.into()));
        }
        Ok(())
    }

    /// Fetches the objects that the plan needs and that a partial clone lacks, before anything is
    /// changed.
    fn fetch_missing(&self, plan: &Plan) -> Result<(), Error> {
        let entries = plan.writes.iter().map(|write| plan.index.entry(write.entry));
        let blobs = entries.filter(|entry| !entry.mode.is_gitlink());
        Ok(self.context.repo.objects().fetch_to_read(&mut blobs.map(|entry| entry.oid))?)
    }

    fn local_changes(&mut self, tree: ObjectId) -> Result<Vec<Pair>, Error> {
        sparse_index::expand_for(self.context.repo, &mut self.index, &|_| Purpose::Compare(tree))?;
        let found = checkout::local_changes(self.context.repo, &self.target.worktree, &self.index, tree)?;
        for warning in found.warnings {
            self.context.events.notice(Notice::LocalChanges(warning));
        }
        Ok(found.pairs)
    }

    /// Reports the error of one step.
    fn report_outcome(&self, path: &BStr, outcome: &Outcome) {
        let notice = match outcome {
            // This error stopped the whole operation, which ends with it.
            Outcome::Failed(StepError::Convert(_)) => return,
            Outcome::Failed(StepError::Io { action: Action::CreateDirectory, .. }) => return,
            Outcome::Failed(error) => Notice::StepFailed(error.message(path).into()),
            Outcome::Undeleted(error) => Notice::Undeleted(error.message(path)),
            Outcome::Stale => Notice::ChangedMeanwhile(path.to_owned()),
            _ => return,
        };
        self.context.events.notice(notice);
    }
}

/// Returns the first missing directory on the way to `path`.
fn missing_directory(worktree: &sys::Dir, path: &[u8]) -> BString {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    let mut dirs = slashes.clone();
    let missing = dirs.find(|dir| !matches!(worktree.stat(dir), Ok(Some(_))));
    missing.or_else(|| slashes.clone().next_back()).unwrap_or_default().into()
}
