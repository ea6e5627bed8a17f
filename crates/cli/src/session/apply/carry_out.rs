//! Executing a plan's steps, and reporting their outcomes.

use std::sync::OnceLock;

use bstr::{BString, ByteSlice as _};
use engine::checkout::{
    self, Action, ExecuteOptions, IndexOptions, Links, Outcome, Plan, PlanOptions, StepError,
};
use engine::{checkout::Cleared, diff::Pair, sparse::Purpose};
use format::{ObjectId, index::Index};

use super::{Done, Filled, IncompleteSteps, Recorded, Transaction, load_index};
use crate::{
    session::sparse_index,
    term::{
        console::{self, text},
        failure::Failure,
        progress::Progress,
    },
};

impl Transaction<'_> {
    /// Plans, executes and records a change. A refusal gives the exit code `refusal`. With
    /// `changes`, lists the local changes relative to that tree at the end; the caller must have
    /// refreshed the index.
    pub(crate) fn perform(
        mut self,
        options: &PlanOptions,
        refusal: u8,
        changes: Option<ObjectId>,
    ) -> Result<Done, Failure> {
        let done = self.plan_and_carry_out(options, refusal)?;
        if done == Done::Planned {
            return Ok(done);
        }
        self.finish(Recorded::Yes)?;
        // If objects have become unreadable, the changes are unknown. The unreadable files were
        // reported.
        if let Some(tree) = changes.filter(|_| sys::unreadable_map().is_none()) {
            if done != Done::Complete {
                self.refresh()?;
            }
            self.list_changes(tree)?;
        }
        Ok(done)
    }

    /// Plans, executes and records the worktree of a clone. Sets `resumable` to true if a later run
    /// can resume the clone: files are missing that can still be written.
    pub(crate) fn fill(mut self, options: &PlanOptions, resumable: &mut bool) -> Result<Filled, Failure> {
        self.policy.links = Links::GiveWay;
        self.policy.incomplete_steps = IncompleteSteps::Resumable;
        // A path that is forbidden in a worktree stays refused on every retry.
        let plan = self
            .plan(options, 128)
            .inspect_err(|error| *resumable = !matches!(error, Failure::Reported(_)))?;
        let done = self.carry_out(plan)?;
        self.finish(Recorded::Yes)?;
        *resumable = self.report.in_the_way || self.report.stopped || done == Done::Unfinished;
        Ok(Filled { done, written: self.report.written, collided: self.report.collided })
    }

    /// Like [`Transaction::perform`], then sets the whole index to `tree`, so local changes that
    /// remain in the worktree are not staged.
    pub(crate) fn perform_then_index(
        mut self,
        options: &PlanOptions,
        refusal: u8,
        tree: ObjectId,
    ) -> Result<Done, Failure> {
        let done = self.plan_and_carry_out(options, refusal)?;
        if done != Done::Planned {
            if !self.report.stopped {
                sparse_index::expand_for(self.session.repository, &mut self.index, &|_| {
                    Purpose::OneWay(tree)
                })?;
                let options = IndexOptions { tree, pathspecs: None, intent_to_add: false, sparse: None };
                let index = std::mem::replace(&mut self.index, Index::empty(self.session.repository.hash()));
                self.index = checkout::plan_index(self.session.repository, index, &options)?.index;
            }
            self.finish(Recorded::Yes)?;
        }
        Ok(done)
    }

    /// Executes a plan. The caller then calls [`Transaction::finish`].
    pub(crate) fn carry_out(&mut self, plan: Plan) -> Result<Done, Failure> {
        plan.warnings.iter().for_each(|text| console::eprint_raw(text));
        if !self.policy.dry_run {
            self.preflight(&plan)?;
        }
        let submodules = self.submodules.take();
        let cleared = Cleared::new(self.session.repository, &self.target.root, &plan, &self.target.lead)?;
        if self.policy.dry_run {
            console::out(plan.to_string().trim_end());
            return Ok(Done::Planned);
        }
        let submodules = match submodules {
            Some(submodules) => Some(submodules),
            None => self.submodules_of(&plan.index)?,
        };
        if let Some(submodules) = &submodules {
            submodules.prepare(&plan)?;
        }
        self.fetch_missing(&plan)?;
        self.session.invocation.interrupt.check()?;
        if let Some(submodules) = &submodules {
            submodules.remove_worktrees(&plan, self.policy.force_on_submodules)?;
        }
        let ahead = self.policy.written_ahead;
        let total = ahead + plan.writes.len() + plan.removals.len();
        let progress =
            Progress::new("Updating files", self.policy.progress, self.session.settings.progress_delay);
        let filtered: OnceLock<Progress> = OnceLock::new();
        let filtering = |done: usize, delayed: usize, bytes: u64| {
            // As Git counts, all updates have been started by now.
            progress.finish(total, total);
            let new = || {
                Progress::new("Filtering content", self.policy.progress, self.session.settings.progress_delay)
            };
            filtered.get_or_init(new).update(done, delayed);
            if done == delayed {
                filtered.get_or_init(new).finish_bytes(done, delayed, bytes);
            }
        };
        let original_cwd = self.session.invocation.original_cwd(self.session.repository);
        let options = ExecuteOptions {
            filtering: &filtering,
            workers: self.session.settings.workers,
            threshold: self.session.settings.threshold,
            interrupt: self.session.invocation.interrupt.flag(),
            progress: &|done, total| progress.update(ahead + done, ahead + total),
            big_file_threshold: self.session.settings.big_file_threshold,
            symlinks: self.session.settings.symlinks,
            links: self.policy.links,
            metadata: self.policy.metadata.clone(),
            delays: self.policy.delays,
            attributes: self.policy.attributes,
            original_cwd: original_cwd.as_ref().map(|cwd| cwd.as_bstr()),
        };
        if let Some((path, error)) = sys::unreported_unreadable_map() {
            let message = format!("unable to read '{}': {}", path.display(), sys::reason(&error));
            return Err(Failure::fatal(message));
        }
        let mut report =
            checkout::execute(self.session.repository, &self.target.worktree, cleared, &options)?;
        // The plan used only pages that could be read. If a later file cannot be read, its step
        // fails.
        sys::mark_unreadable_maps_reported();
        if !report.interrupted {
            progress.finish(total, total);
        }
        for message in &report.messages {
            console::eprint_raw(format!("{message}\n").as_bytes());
        }
        for (step, outcome) in plan.removals.iter().zip(&report.removals) {
            report_outcome(step.path.as_ref(), outcome);
        }
        for (step, outcome) in plan.writes.iter().zip(&report.writes) {
            let path = plan.index.path(&plan.index.entries()[step.entry]);
            match self.target.prefix.is_empty() {
                true => report_outcome(path, outcome),
                false => report_outcome(text!(self.target.prefix, path).as_ref(), outcome),
            }
        }
        self.report.fatal = report.fatal().map(ToString::to_string);
        let entry = |step: usize| &plan.index.entries()[plan.writes[step].entry];
        let dead = report.first_directory_failure().map(|(step, error)| {
            let dir = missing_directory(
                &self.target.worktree,
                &text!(self.target.lead, plan.index.path(entry(step))),
            );
            format!("cannot create directory at '{dir}': {}", sys::reason(error))
        });
        let died = dead.is_some();
        self.report.fatal = self.report.fatal.take().or(dead);
        let mut moved = true;
        if let Some(submodules) = submodules.filter(|_| !report.interrupted && !died) {
            match submodules.move_worktrees(&plan, &mut report, self.policy.force_on_submodules) {
                Ok(all) => moved = all,
                // `finish` reports the signal after it has recorded the completed steps.
                Err(Failure::Signal(_)) => {}
                Err(Failure::Fatal(message)) => self.report.fatal = Some(message.to_string()),
                Err(failure) => {
                    failure.print();
                    moved = false;
                }
            }
        }
        self.report.stopped = report.interrupted;
        let written =
            |outcome: &&Outcome| matches!(outcome, Outcome::Written(_) | Outcome::Collided(Some(_)));
        self.report.written = report.writes.iter().filter(written).count();
        self.report.collided.extend(report.collided().map(|step| plan.index.path(entry(step)).to_owned()));
        self.report.was_undeleted |=
            report.removals.iter().any(|outcome| matches!(outcome, Outcome::Undeleted(_)));
        self.report.in_the_way = report.writes.iter().any(|outcome| matches!(outcome, Outcome::Stale));
        let done = if report.is_complete() && moved { Done::Complete } else { Done::Incomplete };
        let again =
            died || (self.policy.incomplete_steps == IncompleteSteps::Resumable && report.can_resume());
        let done = if again && !report.interrupted { Done::Unfinished } else { done };
        self.index = if report.interrupted || again {
            let before = load_index(self.session.repository, self.session.settings)?;
            checkout::record_interrupted(before, plan, &report)
        } else {
            checkout::record(plan, &report)
        };
        Ok(done)
    }

    /// Returns an error for each problem that can be detected before anything is written. A clone
    /// continues: it keeps the files it can write.
    pub(super) fn preflight(&mut self, plan: &Plan) -> Result<(), Failure> {
        if self.policy.links == Links::TakePlace
            && let Some(message) =
                checkout::unusable_filter(self.session.repository, plan, self.policy.attributes)?
        {
            return Err(Failure::fatal(message));
        }
        self.policy.preflight.take().map_or(Ok(()), |preflight| preflight())
    }

    fn plan_and_carry_out(&mut self, options: &PlanOptions, refusal: u8) -> Result<Done, Failure> {
        let plan = self.plan(options, refusal)?;
        self.carry_out(plan)
    }

    /// Fetches the objects that the plan needs and that a partial clone lacks, before anything is
    /// changed.
    fn fetch_missing(&self, plan: &Plan) -> Result<(), Failure> {
        let entries = plan.writes.iter().map(|write| &plan.index.entries()[write.entry]);
        let blobs = entries.filter(|entry| !entry.mode.is_gitlink());
        Ok(self.session.repository.objects().fetch_to_read(&mut blobs.map(|entry| entry.oid))?)
    }

    fn list_changes(&mut self, tree: ObjectId) -> Result<(), Failure> {
        sparse_index::expand_for(self.session.repository, &mut self.index, &|_| Purpose::Compare(tree))?;
        let found =
            checkout::local_changes(self.session.repository, &self.target.worktree, &self.index, tree)?;
        for warning in &found.warnings {
            console::warning(warning);
        }
        for Pair { status, path, .. } in found.pairs {
            let path = format::quote(path.as_ref(), self.session.settings.quote_path);
            console::out(text!([status.letter()], "\t", path));
        }
        Ok(())
    }
}

/// Returns the first missing directory on the way to `path`.
fn missing_directory(worktree: &sys::Dir, path: &[u8]) -> BString {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    let mut dirs = slashes.clone();
    let missing = dirs.find(|dir| !matches!(worktree.stat(dir), Ok(Some(_))));
    missing.or_else(|| slashes.clone().next_back()).unwrap_or_default().into()
}

/// Prints the error of one step.
fn report_outcome(path: &bstr::BStr, outcome: &Outcome) {
    match outcome {
        // This error stopped the whole operation, and is printed at its end.
        Outcome::Failed(StepError::Convert(_)) => {}
        Outcome::Failed(StepError::Io { action: Action::CreateDirectory, .. }) => {}
        Outcome::Failed(error) => console::error(error.message(path)),
        Outcome::Undeleted(error) => console::warning(error.message(path)),
        Outcome::Stale => console::error(text!("'", path, "' was changed meanwhile: left as it is")),
        _ => {}
    }
}
