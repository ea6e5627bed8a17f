//! Planning a change, and its refusal.

use bstr::{BStr, ByteSlice as _, ByteVec as _};
use engine::{
    checkout::{self, Files, Follow, Merge, Operation, Plan, PlanOptions, RefusalKind, Sparse},
    look::LookError,
    sparse::{self, Patterns, Purpose},
};
use format::index::{Entry, Index};
use repo::keys;

use super::IndexTransaction;
use crate::{
    Error, PlanError,
    hooks::Changed,
    refused::Refused,
    sparse_index,
    submodules::{self, Submodules},
};

/// A plan that another module executes. The index stays locked until this is dropped.
pub struct LockedPlan {
    /// The plan.
    pub plan: Plan,
    _lock: Option<store::Lock>,
}

impl<'a> IndexTransaction<'a> {
    /// Gives a plan to another module, which executes it.
    pub(crate) fn into_locked(mut self, plan: Plan) -> LockedPlan {
        LockedPlan { plan, _lock: self.state.lock.take() }
    }

    /// Plans the change. It may be refused; nothing was changed by then.
    pub fn plan(&mut self, options: &PlanOptions) -> Result<Plan, PlanError> {
        let mut options = options.clone();
        if let (Sparse::Configured, Files::Update) = (&options.sparse, options.files) {
            options.sparse = self.patterns()?.map_or(Sparse::Ignored, Sparse::Given);
        }
        match (&options.sparse, options.files, &options.merge) {
            (Sparse::Given(patterns), Files::Update, Merge::OneWay { target }) => {
                self.expand_for(Some(patterns), &|_| Purpose::OneWay(*target))?;
            }
            (Sparse::Given(patterns), Files::Update, Merge::TwoWay { head: Some(head), target }) => {
                self.expand_for(Some(patterns), &|_| Purpose::TwoWay(*head, *target))?;
            }
            _ => sparse_index::expand(self.context.repo, &mut self.index)?,
        }
        if let (Some(before), Merge::TwoWay { head: Some(head), target }) =
            (&self.state.before, &options.merge)
        {
            sparse_index::yield_to_files(self.context.repo, before, &mut self.index, *head, *target)?;
        }
        let index = std::mem::replace(&mut self.index, Index::empty(self.context.repo.hash()));
        self.policy.changed = Changed::Worktree;
        // Submodules are not checked if worktree files are ignored.
        self.submodules = self.submodules_of(&index)?.filter(|_| options.files != Files::Ignore);
        self.policy.force_on_submodules = options.force;
        let follow = self.submodules.as_ref().map(|submodules| submodules as &dyn Follow);
        let mut plan =
            checkout::plan_with_submodules(self.context.repo, &self.target.worktree, index, &options, follow)
                .map_err(|error| self.explain(error, options.operation))?;
        if let (Some(before), Merge::OneWay { .. } | Merge::TwoWay { .. }) =
            (&self.state.before, &options.merge)
        {
            sparse_index::leave_replaced(before, &mut plan);
        }
        Ok(plan)
    }

    /// Expands as much of a sparse index as `purpose` needs. If only some directories need it, or
    /// if files outside the cone (`patterns`) are in the index, Git's result depends on the point
    /// at which Git expanded the index: that is unsupported if the caller can hand over.
    pub fn expand_for(
        &mut self,
        patterns: Option<&Patterns>,
        purpose: &dyn Fn(&BStr) -> Purpose,
    ) -> Result<(), PlanError> {
        sparse_index::expand_for(self.context.repo, &mut self.index, purpose)?;
        let Some(before) = self.state.before.as_ref().filter(|_| self.context.hands_over) else {
            return Ok(());
        };
        if sparse::collapsed(before).count() != sparse::collapsed(&self.index).count() {
            return Err(PlanError::Unsupported(
                "changes within a directory that is one entry of a sparse index",
            ));
        }
        let outside = |entry: &Entry| {
            !entry.mode.is_tree() && patterns.is_some_and(|by| !by.includes(before.path(entry)))
        };
        if before.iter().any(|entry| outside(&entry)) {
            Err(PlanError::Unsupported("a sparse index with files outside of the cone"))
        } else {
            Ok(())
        }
    }

    /// Returns the submodules, if they follow the superproject and some may exist.
    pub(super) fn submodules_of(&self, index: &Index) -> Result<Option<Submodules<'a>>, Error> {
        let is_there = || index.gitlinks().next().is_some();
        let Some(mover) = self.policy.recurses else { return Ok(None) };
        if !submodules::may_be_active(self.context.repo) && !is_there() {
            return Ok(None);
        }
        let submodules = Submodules::new(self.context, index, self.policy.lead_of_submodule.as_bstr())?;
        Ok(Some(submodules.moved_by(mover)))
    }

    /// Returns the error of a change that the engine does not plan.
    pub fn explain(&self, error: checkout::PlanError, operation: Operation) -> PlanError {
        match error {
            checkout::PlanError::Refused(_) if self.policy.merges => {
                Error::NotSupported("a merge of local changes").into()
            }
            checkout::PlanError::Refused(mut refusals) => {
                for refusal in &mut refusals {
                    refusal.path.insert_str(0, &self.policy.lead_of_submodule);
                }
                if self.policy.quiet {
                    refusals.retain(|refusal| refusal.kind == RefusalKind::InvalidPath);
                }
                let advises = self.context.advises(keys::advice::COMMIT_BEFORE_MERGE).unwrap_or(true);
                Error::Refused(Refused::Paths { refusals, operation, advises }).into()
            }
            checkout::PlanError::Look(LookError::InvalidPath(path)) => {
                Error::Refused(Refused::InvalidPath(path)).into()
            }
            checkout::PlanError::Look(LookError::TooDeep) => Error::Refused(Refused::TooDeep).into(),
            checkout::PlanError::NotTrivial => {
                Error::Refused(Refused::NotTrivial { quiet: self.policy.quiet }).into()
            }
            checkout::PlanError::Look(error) => Error::Look(error).into(),
            checkout::PlanError::Unmerged => Error::Failed(error.to_string().into()).into(),
        }
    }
}
