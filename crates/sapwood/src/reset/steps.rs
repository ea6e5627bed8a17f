//! The steps of a reset after its files. Each is a call, so that a caller can report one before the
//! next one, whose hooks write to the same terminal.

use std::time::Instant;

use engine::switch::{self, ResetReason, state};

use super::{Mode, Report, Request, Target};
use crate::{
    Context, Error, HeadChange, Notice,
    transaction::{IndexTransaction, Recorded as Written},
};

/// A reset whose files are changed, and whose index is not written yet.
pub struct Executed<'a> {
    pub(super) context: Context<'a>,
    pub(super) request: Request,
    pub(super) target: Target,
    pub(super) refs: Option<store::refs::Options>,
    /// `None` for a soft reset.
    pub(super) transaction: Option<IndexTransaction<'a>>,
    pub(super) report: Report,
}

impl<'a> Executed<'a> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Compares all files with the new index, if the request wants that.
    pub fn refresh(&mut self) -> Result<(), Error> {
        let wanted = self.request.mode == Mode::Mixed && self.request.refresh;
        let Some(transaction) = self.transaction.as_mut().filter(|_| wanted) else { return Ok(()) };
        if self.context.repo.work_tree().is_some() {
            let started = Instant::now();
            self.report.changed = transaction.refresh()?;
            self.report.refresh_took = started.elapsed();
        }
        Ok(())
    }

    /// Writes the index.
    pub fn record(self) -> Result<Recorded<'a>, Error> {
        let Executed { context, request, target, refs, transaction, report } = self;
        if let Some(mut transaction) = transaction {
            transaction.finish(Written::Yes)?;
        }
        Ok(Recorded { context, request, target, refs, report })
    }
}

/// A reset whose index is written.
pub struct Recorded<'a> {
    context: Context<'a>,
    request: Request,
    target: Target,
    refs: Option<store::refs::Options>,
    report: Report,
}

impl<'a> Recorded<'a> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Moves HEAD, or its branch, to the target. HEAD stays for paths, and if files could not be
    /// written.
    pub fn move_head(self) -> Result<Moved<'a>, Error> {
        let Recorded { context, request, target, refs, mut report } = self;
        let refs = refs.filter(|_| !report.is_incomplete);
        let Some(refs) = refs else { return Ok(Moved { context, refs, report }) };
        if let Target::Commit(commit) = target {
            let reason = match &request.reflog_action {
                Some(action) => ResetReason::Action(action.as_ref()),
                None => ResetReason::To(request.revision.as_ref()),
            };
            let untold = switch::reset_head(context.repo, &refs, commit, reason)
                .map_err(Error::cannot_move_head(HeadChange::Reset))?;
            if let Some(error) = untold {
                context.events.notice(Notice::OrigHead(error.to_string()));
            }
            report.new = Some(commit);
        }
        Ok(Moved { context, refs: Some(refs), report })
    }
}

/// A reset after HEAD has moved.
pub struct Moved<'a> {
    context: Context<'a>,
    /// `None` if HEAD was to stay.
    refs: Option<store::refs::Options>,
    report: Report,
}

impl Moved<'_> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Ends a merge, cherry-pick or revert in progress.
    pub fn end(self) -> Result<Report, Error> {
        let Moved { context, refs, mut report } = self;
        if let Some(refs) = refs {
            report.ended = state::end(context.repo, &refs)?;
        }
        Ok(report)
    }
}
