//! Execution of a plan. All changes go through [`crate::files`].
//!
//! Order: removals; removal of files that block writes ([`clear`]); adoption of files that a killed
//! run left ([`remnant`]); regular files and submodule directories, while a separate lane writes
//! the files of external filters; symbolic links; collisions ([`collide`]). Within a phase all
//! steps are independent and run in parallel. A directory is created with its first file, or all
//! directories are created before the files ([`groups`]).
//!
//! Promise: nothing outside the worktree is changed, and no symbolic link is followed. A path is
//! overwritten or removed only if its premise holds at that moment. Each step gets exactly one
//! [`Outcome`]. A failed step removes only what it created itself. After an interrupt, or an error
//! at which Git stops, no further step begins.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bstr::BStr;
use format::index::Entry;
use repo::{convert::Converter, keys};

use super::{Cleared, Plan, Write};
use sys::profile::{self, Phase};

use crate::{
    crew::{Crew, Tuning, Workers},
    files::{Allowed, Directory},
    look::unlinked::Unlinked,
};

mod attributes;
mod batch;
mod clear;
mod collide;
mod directories;
mod external;
mod files;
mod groups;
mod layout;
mod outcome;
mod remnant;
mod remove;
mod round;

pub use attributes::{Attributes, unusable_filter};
use directories::FileId;
pub use outcome::{Action, Outcome, Report, StepError};

/// The treatment of a symbolic link at the path of a directory that this run created, if the file
/// system treats both names as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The link is not created. A clone does this, so that no later write is redirected.
    GiveWay,
    /// The link replaces the directory if everything in it comes from this run.
    TakePlace,
}

/// Options of execution.
pub struct ExecuteOptions<'a> {
    /// The number of workers.
    pub workers: Workers,
    /// `checkout.thresholdForParallelism`: with fewer steps, a fixed number of workers is reduced
    /// to one.
    pub threshold: usize,
    /// Set by a signal handler; checked before each step.
    pub interrupt: &'a AtomicBool,
    /// Called with (done, total) from time to time, from any thread.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Called with (done, total, bytes) for files that filters delayed: once before the first, when
    /// all other files have begun, then after each.
    pub filtering: &'a (dyn Fn(usize, usize, u64) + Sync),
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// `core.symlinks`
    pub symlinks: bool,
    /// The treatment of symbolic links that collide with directories.
    pub links: Links,
    /// The facts about the commit that are sent to long-running filters.
    pub metadata: repo::convert::Metadata,
    /// The moment at which process filters may deliver files.
    pub delays: repo::convert::Delays,
    /// The source of attribute files.
    pub attributes: Attributes,
    /// See [`PlanOptions::original_cwd`](super::PlanOptions::original_cwd).
    pub original_cwd: Option<&'a BStr>,
}

/// The state that all phases share.
struct Run<'r> {
    repo: &'r repo::Repository,
    converter: &'r Converter,
    worktree: &'r sys::Dir,
    allowed: Allowed,
    plan: &'r Plan,
    options: &'r ExecuteOptions<'r>,
    done: AtomicUsize,
    tuning: Tuning,
    /// True after an error that forbids further steps.
    stopped: AtomicBool,
    /// The directories created so far.
    created_dirs: Mutex<Vec<FileId>>,
    messages: Mutex<Vec<String>>,
    /// The target paths of the writes, if they differ from the entries' paths.
    target_paths: Option<Vec<Vec<u8>>>,
    /// See [`Report::filter_failed`].
    filter_failed: AtomicBool,
    /// See [`Report::filter_error`].
    filter_error: Mutex<Option<repo::Error>>,
    /// The files of the premises.
    unlinked: Unlinked,
}

/// Number of steps from which freed memory is returned to the system.
const MIN_STEPS_TO_RELEASE: usize = 10_000;

/// Approximate number of progress reports.
const PROGRESS_CALLS: usize = 1000;

impl<'r> Run<'r> {
    fn interrupted(&self) -> bool {
        self.options.interrupt.load(Ordering::Relaxed) || self.stopped.load(Ordering::Relaxed)
    }

    /// Turns an error into an outcome. [`StepError::Convert`] also stops the run.
    fn failed(&self, error: StepError) -> Outcome {
        if matches!(error, StepError::Convert(_)) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        Outcome::Failed(error)
    }

    fn crew(&self, steps: usize) -> Crew<'_> {
        Crew::decide(self.options.workers, self.options.threshold, steps, Some(&self.tuning))
    }

    /// Counts one finished step and reports progress.
    fn count_step(&self) {
        let total = self.plan.removals.len() + self.plan.writes.len();
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done == total || done.is_multiple_of(1 + total / PROGRESS_CALLS) {
            (self.options.progress)(done, total);
        }
    }

    /// Returns the calls that change a directory of the worktree.
    fn within<'d>(&self, dir: &'d sys::Dir) -> Directory<'d> {
        self.allowed.within(dir)
    }

    /// Ends the run for an error of a filter that belongs to no step.
    fn stop_for_filter(&self, error: repo::Error) {
        self.stopped.store(true, Ordering::Relaxed);
        self.filter_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Collects messages for the report.
    fn add_messages(&self, messages: Vec<String>) {
        if !messages.is_empty() {
            self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        }
    }

    /// Returns true if the step creates a symbolic link.
    fn is_link(&self, step: usize) -> bool {
        self.options.symlinks && self.write(step).1.mode.is_symlink()
    }

    /// Returns a step, its entry, and the path of its file.
    fn write(&self, step: usize) -> (&'r Write, Entry, &[u8]) {
        let write = &self.plan.writes[step];
        let entry = self.plan.index.entry(write.entry);
        match &self.target_paths {
            None => (write, entry, self.plan.index.path_at(write.entry)),
            Some(target_paths) => (write, entry, &target_paths[step]),
        }
    }

    /// Returns the entry's path, which selects attributes and filters.
    fn entry_path(&self, step: usize) -> &'r BStr {
        self.plan.index.path_at(self.plan.writes[step].entry)
    }
}

/// Executes a plan. Returns an error if attributes or filters cannot be read. Nothing was changed
/// in that case.
pub fn execute(
    repo: &repo::Repository,
    cleared: Cleared<'_>,
    options: &ExecuteOptions<'_>,
) -> Result<Report, repo::Error> {
    let _phase = profile::span(Phase::Execute);
    let (plan, lead, worktree) = (cleared.plan(), cleared.lead(), cleared.root());
    let converter = attributes::converter(repo, plan, options.attributes)?;
    let converter = converter.with_metadata(options.metadata.clone());
    let assumes_unchanged = repo.config(&keys::core::IGNORE_STAT)?;
    let run = Run {
        repo,
        converter: &converter,
        worktree,
        allowed: cleared.allowed(),
        plan,
        options,
        done: AtomicUsize::new(0),
        tuning: Tuning::writing(worktree, plan.writes.len() + plan.removals.len()),
        stopped: AtomicBool::new(false),
        created_dirs: Mutex::new(Vec::new()),
        messages: Mutex::new(Vec::new()),
        target_paths: (!lead.is_empty()).then(|| {
            let path = |write: &Write| [lead, plan.index.path_at(write.entry)].concat();
            plan.writes.iter().map(path).collect()
        }),
        filter_failed: AtomicBool::new(false),
        filter_error: Mutex::default(),
        unlinked: Unlinked::of(plan.files()),
    };
    let large = plan.writes.len() + plan.removals.len() >= MIN_STEPS_TO_RELEASE;
    let release = || {
        if large {
            sys::release_freed();
        }
    };
    release();
    let removals = remove::remove(&run);
    let writes = round::write(&run);
    release();
    let interrupted = run.interrupted();
    let filter_failed = run.filter_failed.load(Ordering::Relaxed);
    let messages = round::into_inner(run.messages);
    let filter_error = round::into_inner(run.filter_error);
    Ok(Report { removals, writes, messages, filter_failed, filter_error, interrupted, assumes_unchanged })
}
