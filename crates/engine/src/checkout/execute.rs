//! Acting: the only code that touches the worktree.

use std::sync::atomic::AtomicBool;

use super::Plan;

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// sapwood decides.
    Auto,
    /// `checkout.workers`, 1 = serial.
    Fixed(usize),
}

/// Options of execution.
pub struct ExecuteOptions<'a> {
    /// See [`Workers`].
    pub workers: Workers,
    /// `checkout.thresholdForParallelism`
    pub threshold: usize,
    /// Set by a signal handler; looked at before each step.
    pub interrupt: &'a AtomicBool,
    /// Called with (done, total) now and then, from any thread.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// `core.symlinks`, `core.fileMode`
    pub symlinks: bool,
}

/// What became of one step.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Outcome {
    Written(sys::Stat),
    Removed,
    /// Already as it should be.
    Kept,
    /// Another entry of this run had the same name on this file system; redone serially.
    Collided(sys::Stat),
    /// The premise no longer held: left alone.
    Stale,
    Failed(StepError),
    /// Not reached, after an interrupt.
    Skipped,
}

/// What was attempted, and why it failed; the path is in the step.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StepError {
    #[error("unable to {what}")]
    Io { what: &'static str, source: std::io::Error },
    #[error(transparent)]
    Object(#[from] repo::objects::Error),
    #[error(transparent)]
    Convert(#[from] repo::Error),
}

/// The outcomes, one for each step of the plan, in the plan's order.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Report {
    pub writes: Vec<Outcome>,
    pub removals: Vec<Outcome>,
    pub interrupted: bool,
}

impl Report {
    /// Whether anything failed, was stale or was skipped.
    pub fn is_complete(&self) -> bool {
        !self.interrupted
            && self
                .writes
                .iter()
                .chain(&self.removals)
                .all(|outcome| !matches!(outcome, Outcome::Failed(_) | Outcome::Stale | Outcome::Skipped))
    }
}

/// Acts.
#[allow(unused_variables)]
pub fn execute(
    repo: &repo::Repository,
    worktree: &sys::Dir,
    plan: &Plan,
    options: &ExecuteOptions<'_>,
) -> Report {
    todo!("execute")
}
