//! The values that the steps of an operation share.

use std::sync::atomic::{AtomicBool, Ordering};

use repo::keys::Key;

use crate::{Error, events::Events, settings::Settings};

/// A repository, its settings, and the receiver of reports.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository.
    pub repo: &'a repo::Repository,
    /// Its settings.
    pub settings: &'a Settings,
    /// Receives the reports.
    pub events: &'a dyn Events,
    /// Set to stop the operation at its next step.
    pub interrupt: &'a AtomicBool,
    /// True if the caller starts the real Git on [`crate::PlanError::Unsupported`]. Planning then
    /// refuses a case in which the result depends on the moment at which Git expands a sparse
    /// index.
    pub hands_over: bool,
}

impl Context<'_> {
    /// Returns an error if the operation should stop. Called where no step is half done.
    pub fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns true if the advice is enabled.
    pub fn advises(&self, advice: Key<bool>) -> Result<bool, repo::Error> {
        self.settings.advises(self.repo, advice)
    }
}
