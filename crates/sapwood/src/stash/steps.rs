//! The steps of a push after its plan.

use std::collections::HashSet;

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout::{Plan, Premise, Removal},
    stash::{self, Changes},
    switch::{self, ResetReason, state},
};
use format::index::Index;
use repo::convert::Metadata;
use store::refs::Expected;

use super::{
    STASH, StashError,
    prepare::Stash,
    push::{Request, Saved},
};
use crate::{
    Context, Error, refs,
    transaction::{Done, IndexTransaction, Recorded},
};

/// The steps after the entry is recorded, in the order of the methods.
pub struct Steps<'a> {
    request: Request,
    transaction: IndexTransaction<'a>,
    plan: Plan,
    /// The removals that come before all other steps.
    untracked: Vec<Removal>,
    doomed: Vec<bstr::BString>,
    saved: Saved,
}

impl<'a> Stash<'_, 'a> {
    /// Makes the objects durable, and records the commit as the newest entry.
    pub fn record(self) -> Result<Steps<'a>, Error> {
        let Stash { request, mut transaction, objects, head, changes, doomed, saved } = self;
        let context = transaction.context();
        objects.publish()?;
        let index = std::mem::replace(&mut transaction.index, Index::empty(context.repo.hash()));
        let mut plan = stash::reset(context.repo, index, &changes, request.target());
        if !request.pathspecs.is_empty() {
            // Git's `apply` looks at no entry whose file is missing.
            plan.removals.retain(|removal| removal.premise != Premise::Absent);
        }
        let untracked = first_removals(&request, &mut plan, &changes);
        let options = refs::options(context)?;
        store::refs::record(&options, BStr::new(STASH), saved.commit, Expected::Any, saved.message.as_bstr())
            .map_err(StashError::NotRecorded)?;
        transaction.policy.metadata = Metadata { reference: None, treeish: Some(head.commit) };
        Ok(Steps { request, transaction, plan, untracked, doomed, saved })
    }
}

/// Takes the removals out of `plan` that come before all other steps: those of untracked files,
/// unless paths are given. Git runs `clean` for them, and changes nothing else if that fails.
fn first_removals(request: &Request, plan: &mut Plan, changes: &Changes) -> Vec<Removal> {
    if changes.untracked.is_empty() || !request.pathspecs.is_empty() {
        return Vec::new();
    }
    let untracked: HashSet<&BStr> = changes.untracked.iter().map(|(path, _)| path.as_bstr()).collect();
    plan.removals.extract_if(.., |removal| untracked.contains(removal.path.as_bstr())).collect()
}

impl Steps<'_> {
    /// Returns the entry.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Removes untracked files. Returns false if some stay, so that Git would change nothing else;
    /// the errors were reported.
    pub fn remove_untracked(&mut self) -> Result<bool, Error> {
        let removals = std::mem::take(&mut self.untracked);
        if removals.is_empty() {
            return Ok(true);
        }
        let context = self.transaction.context();
        let index = Index::empty(context.repo.hash());
        let first = removals.clone();
        let plan = Plan { writes: Vec::new(), removals, warnings: Vec::new(), index };
        let done = self.transaction.carry_out(plan)?;
        context.check_interrupt()?;
        self.plan.follow_removals(self.transaction.worktree(), &first);
        Ok(done == Done::Complete && !self.transaction.report.was_undeleted)
    }

    /// Removes the directories of untracked files that are empty now. Returns true if
    /// [`Request::keep`] is one of them; it stays.
    pub fn remove_directories(&self) -> Result<bool, Error> {
        let repo = self.transaction.context().repo;
        let top = repo.work_tree().ok_or(Error::NoWorktree)?;
        let kept = self.request.keep.as_ref().map(|keep| keep.as_bstr());
        let root = self.transaction.worktree();
        Ok(stash::remove_empty_directories(repo, top, root, &self.doomed, kept)?)
    }

    /// Resets the worktree and the index, and ends the operations in progress. Returns false if
    /// files could not be written or removed; the errors were reported.
    pub fn reset(self) -> Result<bool, Error> {
        let Steps { request, mut transaction, plan, .. } = self;
        let done = transaction.carry_out(plan)?;
        transaction.finish(Recorded::Yes)?;
        if request.moves_head() {
            reset_head(transaction.context(), request.reflog_action.as_ref().map(|action| action.as_bstr()))?;
        }
        // With paths, Git's `apply` fails if it cannot remove a file.
        let was_undeleted = !request.pathspecs.is_empty() && transaction.report.was_undeleted;
        Ok(done == Done::Complete && !was_undeleted)
    }
}

/// Resets HEAD to itself, and ends the operations in progress. `action` is the text of the reflog,
/// if it is not Git's.
pub(super) fn reset_head(context: Context<'_>, action: Option<&BStr>) -> Result<(), Error> {
    let refs = refs::options(context)?;
    let reason = match action {
        Some(action) => ResetReason::Action(action),
        None => ResetReason::To("HEAD".into()),
    };
    switch::reset_head_to_itself(context.repo, &refs, reason)?;
    state::end(context.repo, &refs)?;
    Ok(())
}
