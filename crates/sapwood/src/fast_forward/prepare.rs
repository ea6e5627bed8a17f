//! Planning the files of a fast-forward.

use std::fmt;

use bstr::BString;
use engine::{
    checkout::{self, Files, Force, Merge, Operation, PlanOptions, Sparse, Vouched},
    switch,
};
use format::ObjectId;
use repo::convert::Metadata;

use super::{Executed, Report};
use crate::{
    Context, Error, HeadChange, PlanError, refs,
    transaction::{IncompleteSteps, IndexTransaction, Performed},
};

/// The commits of a fast-forward.
#[derive(Clone, Debug)]
pub struct Goal {
    /// The commit that index and worktree have; `None` for a branch without commits.
    pub old: Option<ObjectId>,
    /// The commit that they get.
    pub new: ObjectId,
    /// The change of HEAD; `None` if a fetch has moved it already.
    pub head: Option<HeadStep>,
}

/// The change of HEAD in a fast-forward.
#[derive(Clone, Debug)]
pub struct HeadStep {
    /// The options for writing refs.
    pub refs: refs::Options,
    /// The commit that HEAD, or its branch, has; `None` if the branch does not exist.
    pub from: Option<ObjectId>,
    /// The text for the reflog.
    pub message: BString,
}

/// A fast-forward that can run, with the locked index.
pub struct Prepared<'a> {
    transaction: IndexTransaction<'a>,
    plan: checkout::Plan,
    goal: Goal,
}

/// Plans the fast-forward of a locked index, started with [`crate::transaction::Start::Sparse`].
/// Changes nothing.
pub fn prepare(mut transaction: IndexTransaction<'_>, goal: Goal) -> Result<Prepared<'_>, PlanError> {
    let repo = transaction.context().repo;
    let tree_of = |commit| repo.tree_of(commit).map_err(Error::from);
    let merge = Merge::TwoWay { head: goal.old.map(tree_of).transpose()?, target: tree_of(goal.new)? };
    transaction.policy.incomplete_steps = IncompleteSteps::Resumable;
    transaction.policy.metadata = Metadata { reference: None, treeish: Some(goal.new) };
    transaction.refresh()?;
    let options = PlanOptions {
        merge,
        force: Force::No,
        files: Files::Update,
        overwrite_ignored: true,
        refresh: true,
        original_cwd: transaction.policy.original_cwd.clone(),
        sparse: Sparse::Configured,
        operation: Operation::Merge,
        vouched: Vouched::Examined,
    };
    let plan = transaction.plan(&options)?;
    if let Some(HeadStep { refs, from, .. }) = &goal.head {
        switch::check_advance(repo, refs, *from, goal.new)
            .map_err(Error::cannot_move_head(HeadChange::Advance))?;
    }
    Ok(Prepared { transaction, plan, goal })
}

impl<'a> Prepared<'a> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { transaction, plan, goal } = self;
        Prepared { transaction: transaction.with_context(context), plan, goal }
    }

    /// Changes the files and the index.
    pub fn execute(self) -> Result<Executed<'a>, Error> {
        let Prepared { transaction, plan, goal } = self;
        let context = transaction.context();
        let Performed { done, written, .. } = transaction.perform(plan, None)?;
        let new = goal.head.as_ref().map_or(Some(goal.new), |head| head.from);
        let report = Report { old: goal.old, new, done, written };
        Ok(Executed { context, goal, report })
    }
}

/// The steps of the worktree, each in a line.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.plan, formatter)
    }
}
