//! The steps of a restore after its files.

use super::Report;
use crate::{
    Context, Error, hooks,
    transaction::{IndexTransaction, Recorded},
};

/// A restore whose files are changed. [`Executed::record`] and [`Executed::run_hook`] are left, in
/// this order.
pub struct Executed<'a> {
    pub(super) context: Context<'a>,
    pub(super) transaction: IndexTransaction<'a>,
    /// True if the index is written.
    pub(super) records: bool,
    pub(super) report: Report,
}

impl Executed<'_> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns true if the steps ended early. [`Executed::record`] returns the reason.
    pub fn is_stopped(&self) -> bool {
        self.transaction.report.stopped
    }

    /// Writes the index.
    pub fn record(&mut self) -> Result<(), Error> {
        self.transaction.finish(if self.records { Recorded::Yes } else { Recorded::No })
    }

    /// Runs the hook `post-checkout`.
    pub fn run_hook(mut self) -> Result<Report, Error> {
        let head = self.context.repo.head()?.oid();
        self.report.hook = hooks::post_checkout(self.context, head, head, false)?;
        Ok(self.report)
    }
}
