//! Acting: the only code that touches the worktree.
//!
//! Order: removals; what may go in the way of writes ([`clear`]); what a killed run left ([`remnant`]); regular files and submodule directories, with
//! files of external filters in a lane beside them; symbolic links; what was in each other's way ([`collide`]).
//! Within a phase all steps are independent and done in parallel; a directory is made when its first file comes, or all of them before ([`groups`]).
//!
//! Promise: nothing outside the worktree is touched and no symbolic link followed; nothing is
//! overwritten or removed whose premise does not hold at that moment; each step gets exactly one
//! [`Outcome`], and a step that fails removes what it created itself and nothing else. On interrupt, and after an
//! error that Git dies of, no step is begun.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bstr::BStr;
use format::index::Entry;
use repo::convert::Converter;

use super::{Cleared, Plan, Write};
use sys::profile::{self, Phase};

use crate::crew::{Crew, Tuning, Workers};

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
pub(super) mod subtree;

pub use attributes::{Attributes, unusable_filter};
use directories::FileId;
pub use outcome::{Action, Outcome, Report, StepError};

/// What becomes of a symbolic link where this run made a directory: names that are one on this file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is left out, as in a clone, where nothing shall be led elsewhere.
    GiveWay,
    /// It takes the directory's place, if all in there is this run's.
    TakePlace,
}

/// Options of execution.
pub struct ExecuteOptions<'a> {
    /// See [`Workers`].
    pub workers: Workers,
    /// `checkout.thresholdForParallelism`: with fewer steps, a fixed number of workers counts as one.
    pub threshold: usize,
    /// Set by a signal handler; looked at before each step.
    pub interrupt: &'a AtomicBool,
    /// Called with (done, total) now and then, from any thread.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Called with (done, total, bytes) when files that filters delayed are written: once before the first, when everything
    /// else has been begun, then for each.
    pub filtering: &'a (dyn Fn(usize, usize, u64) + Sync),
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// `core.symlinks`
    pub symlinks: bool,
    /// See [`Links`].
    pub links: Links,
    /// What long-running filters are told about the commit.
    pub metadata: repo::convert::Metadata,
    /// The moment at which process filters may deliver files.
    pub delays: repo::convert::Delays,
    /// Whose attribute files count.
    pub attributes: Attributes,
    /// See [`PlanOptions::original_cwd`](super::PlanOptions::original_cwd).
    pub original_cwd: Option<&'a BStr>,
}

/// What all phases share.
struct Run<'r> {
    repo: &'r repo::Repository,
    converter: &'r Converter,
    worktree: &'r sys::Dir,
    plan: &'r Plan,
    options: &'r ExecuteOptions<'r>,
    done: AtomicUsize,
    tuning: Tuning,
    /// Something went so wrong that no further step is to be begun.
    stopped: AtomicBool,
    /// Directories made so far.
    made: Mutex<Vec<FileId>>,
    messages: Mutex<Vec<String>>,
    /// Where the writes' files go, if that is not the entries' paths.
    placed: Option<Vec<Vec<u8>>>,
    /// See [`Report::filter_failed`].
    filter_failed: AtomicBool,
}

/// From so many steps on, memory that planning and the workers have freed is worth giving back.
const RELEASE_FROM: usize = 10_000;

/// Progress is told about so many times in all.
const PROGRESS_CALLS: usize = 1000;

impl<'r> Run<'r> {
    fn interrupted(&self) -> bool {
        self.options.interrupt.load(Ordering::Relaxed) || self.stopped.load(Ordering::Relaxed)
    }

    /// What becomes of a step that failed; see [`StepError::Convert`].
    fn failed(&self, error: StepError) -> Outcome {
        if matches!(error, StepError::Convert(_)) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        Outcome::Failed(error)
    }

    fn crew(&self, steps: usize) -> Crew<'_> {
        Crew::decide(self.options.workers, self.options.threshold, steps, Some(&self.tuning))
    }

    /// A step is over.
    fn finished(&self) {
        let total = self.plan.removals.len() + self.plan.writes.len();
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done == total || done.is_multiple_of(1 + total / PROGRESS_CALLS) {
            (self.options.progress)(done, total);
        }
    }

    /// Keeps what is to be told.
    fn say(&self, messages: Vec<String>) {
        if !messages.is_empty() {
            self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        }
    }

    /// A link that will be one on disk.
    fn is_link(&self, step: usize) -> bool {
        self.options.symlinks && self.write(step).1.mode.is_symlink()
    }

    /// A step, its entry, and where the file goes.
    fn write(&self, step: usize) -> (&'r Write, &'r Entry, &[u8]) {
        let write = &self.plan.writes[step];
        let entry = &self.plan.index.entries()[write.entry];
        match &self.placed {
            None => (write, entry, self.plan.index.path(entry)),
            Some(placed) => (write, entry, &placed[step]),
        }
    }

    /// The entry's path, by which attributes and filters go.
    fn tracked(&self, step: usize) -> &'r BStr {
        self.plan.index.path_at(self.plan.writes[step].entry)
    }
}

/// Acts. An error says that attributes or filters could not be read; nothing was touched then.
pub fn execute(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    cleared: Cleared<'_>,
    options: &ExecuteOptions<'_>,
) -> Result<Report, repo::Error> {
    let _phase = profile::span(Phase::Execute);
    let (plan, lead) = (cleared.plan(), cleared.lead());
    let converter = attributes::converter(repo, plan, options.attributes)?;
    let converter = converter.with_metadata(options.metadata.clone());
    let run = Run {
        repo,
        converter: &converter,
        worktree,
        plan,
        options,
        done: AtomicUsize::new(0),
        tuning: Tuning::writing(worktree, plan.writes.len() + plan.removals.len()),
        stopped: AtomicBool::new(false),
        made: Mutex::new(Vec::new()),
        messages: Mutex::new(Vec::new()),
        placed: (!lead.is_empty()).then(|| {
            let path = |write: &Write| [lead, plan.index.path_at(write.entry)].concat();
            plan.writes.iter().map(path).collect()
        }),
        filter_failed: AtomicBool::new(false),
    };
    let large = plan.writes.len() + plan.removals.len() >= RELEASE_FROM;
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
    Ok(Report { removals, writes, messages, filter_failed, interrupted })
}
