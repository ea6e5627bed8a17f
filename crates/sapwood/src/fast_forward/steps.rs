//! The steps of a fast-forward before and after its files. Each is a call, so that a caller can
//! report one before the next one, whose hooks write to the same terminal.

use engine::switch::{self, state};
use format::ObjectId;
use store::refs::{Change, Expected, Options};

use super::{Goal, HeadStep, Report};
use crate::{Context, Error, HeadChange, hooks};

/// Records the commit of HEAD in `ORIG_HEAD`. A merge begins with it, even if it will be refused.
pub fn set_orig_head(refs: &Options, ours: ObjectId) -> Result<(), Error> {
    let change = Change::Update {
        name: "ORIG_HEAD".into(),
        new: ours,
        expected: Expected::Any,
        message: "updating ORIG_HEAD".into(),
    };
    store::refs::apply(refs, vec![change])
        .map_err(|error| Error::failed(format!("update_ref failed for ref 'ORIG_HEAD': {error}")))
}

/// A fast-forward whose files and index are changed.
pub struct Executed<'a> {
    pub(super) context: Context<'a>,
    pub(super) goal: Goal,
    pub(super) report: Report,
}

impl<'a> Executed<'a> {
    /// The result so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the result.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// Moves HEAD, unless it stays or files could not be written.
    pub fn move_head(self) -> Result<Moved<'a>, Error> {
        let Executed { context, goal: Goal { new, head, .. }, mut report } = self;
        let head = head.filter(|_| report.done.is_complete());
        if let Some(HeadStep { refs, from, message }) = &head {
            switch::advance_head(context.repo, refs, *from, new, message.as_ref())
                .map_err(Error::cannot_move_head(HeadChange::Advance))?;
            report.new = Some(new);
        }
        Ok(Moved { context, refs: head.map(|head| head.refs), report })
    }
}

/// A fast-forward after HEAD has moved.
pub struct Moved<'a> {
    context: Context<'a>,
    /// `None` if HEAD stays.
    refs: Option<Options>,
    report: Report,
}

impl Moved<'_> {
    /// Returns the result. That is all for the first commit of a branch, which is no merge.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// Runs the hook `post-merge`, and removes the state files of a merge.
    pub fn end(self) -> Result<Report, Error> {
        if let Some(refs) = &self.refs {
            hooks::post_merge(self.context)?;
            state::end_merge(self.context.repo, refs)?;
        }
        Ok(self.report)
    }
}
