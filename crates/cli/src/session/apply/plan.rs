//! Planning a change, and the messages of a refusal.

use bstr::{BStr, ByteSlice as _, ByteVec as _};
use engine::{
    checkout::{self, Files, Follow, Merge, Operation, Plan, PlanError, PlanOptions, RefusalKind, Sparse},
    look::LookError,
    sparse::{self, Patterns, Purpose},
};
use format::index::{Entry, Index};

use super::Transaction;
use crate::{
    session::{
        Session,
        hooks::Changed,
        invocation::Program,
        sparse_index,
        submodules::{self, Submodules},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// A plan that another module executes. The index stays locked until this is dropped.
pub(crate) struct LockedPlan {
    pub(crate) plan: Plan,
    _lock: Option<store::Lock>,
}

impl<'a> Transaction<'a> {
    /// Plans the change; the caller executes the plan.
    pub(crate) fn plan_locked(mut self, options: &PlanOptions, refusal: u8) -> Result<LockedPlan, Failure> {
        let plan = self.plan(options, refusal)?;
        self.preflight(&plan)?;
        Ok(LockedPlan { plan, _lock: self.state.lock.take() })
    }

    /// Plans the change without executing it, to report a refusal.
    pub(crate) fn check_plan(mut self, options: &PlanOptions, refusal: u8) -> Result<(), Failure> {
        self.plan(options, refusal).map(drop)
    }

    pub(super) fn plan(&mut self, options: &PlanOptions, refusal: u8) -> Result<Plan, Failure> {
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
            _ => sparse_index::expand(self.session.repository, &mut self.index)?,
        }
        if let (Some(before), Merge::TwoWay { head: Some(head), target }) =
            (&self.state.before, &options.merge)
        {
            sparse_index::yield_to_files(self.session.repository, before, &mut self.index, *head, *target)?;
        }
        let index = std::mem::replace(&mut self.index, Index::empty(self.session.repository.hash()));
        self.policy.changed = Changed::Worktree;
        // Submodules are not checked if worktree files are ignored.
        self.submodules = self.submodules_of(&index)?.filter(|_| options.files != Files::Ignore);
        self.policy.force_on_submodules = options.force;
        let follow = self.submodules.as_ref().map(|submodules| submodules as &dyn Follow);
        let mut plan = checkout::plan_with_submodules(
            self.session.repository,
            &self.target.worktree,
            index,
            &options,
            follow,
        )
        .map_err(|error| self.explain(error, options.operation, refusal))?;
        if let (Some(before), Merge::OneWay { .. } | Merge::TwoWay { .. }) =
            (&self.state.before, &options.merge)
        {
            sparse_index::leave_replaced(before, &mut plan);
        }
        Ok(plan)
    }

    /// Expands as much of a sparse index as `purpose` needs. If only some directories need it, or
    /// if files outside the cone (`patterns`) are in the index, Git's result depends on the point
    /// at which Git expanded the index. Called as `git`, sapwood hands this case over to Git.
    pub(crate) fn expand_for(
        &mut self,
        patterns: Option<&Patterns>,
        purpose: &dyn Fn(&BStr) -> Purpose,
    ) -> Result<(), Failure> {
        sparse_index::expand_for(self.session.repository, &mut self.index, purpose)?;
        let Some(before) =
            self.state.before.as_ref().filter(|_| self.session.invocation.program == Program::Git)
        else {
            return Ok(());
        };
        if sparse::collapsed(before).count() != sparse::collapsed(&self.index).count() {
            return Err(Failure::Unserved("changes within a directory that is one entry of a sparse index"));
        }
        let outside = |entry: &Entry| {
            !entry.mode.is_tree() && patterns.is_some_and(|by| !by.includes(before.path(entry)))
        };
        match before.entries().iter().any(outside) {
            true => Err(Failure::Unserved("a sparse index with files outside of the cone")),
            false => Ok(()),
        }
    }

    /// Returns the submodules, if they follow the superproject and some may exist.
    pub(super) fn submodules_of(&self, index: &Index) -> Result<Option<Submodules<'a>>, Failure> {
        let is_there = || index.entries().iter().any(|entry| entry.mode.is_gitlink());
        if !self.policy.recurses || !submodules::may_be_active(self.session.repository) && !is_there() {
            return Ok(None);
        }
        let Session { invocation: run, repository: repo, settings } = self.session;
        let lead = self.policy.lead_of_submodule.as_bstr();
        Submodules::new(run, repo, settings, index, lead).map(Some)
    }

    /// Turns a planning error into Git's message.
    pub(crate) fn explain(&self, error: PlanError, operation: Operation, refusal: u8) -> Failure {
        match error {
            PlanError::Refused(_) if self.policy.merges => Failure::unsupported("a merge of local changes"),
            PlanError::Refused(mut refusals) => {
                for refusal in &mut refusals {
                    refusal.path.insert_str(0, &self.policy.lead_of_submodule);
                }
                if self.policy.quiet {
                    refusals.retain(|refusal| refusal.kind == RefusalKind::InvalidPath);
                }
                let advice = self
                    .session
                    .settings
                    .advises(self.session.repository, "commitBeforeMerge")
                    .unwrap_or(true);
                console::eprint_raw(&checkout::refusal_text(&refusals, operation, advice));
                Failure::Reported(refusal)
            }
            PlanError::Look(LookError::InvalidPath(path)) => {
                console::error(text!("invalid path '", path, "'"));
                Failure::Reported(refusal)
            }
            PlanError::Look(error @ LookError::TooDeep) => {
                console::error(error.to_string());
                Failure::Reported(refusal)
            }
            PlanError::NotTrivial => {
                if !self.policy.quiet {
                    console::error(PlanError::NotTrivial.to_string());
                }
                Failure::Reported(refusal)
            }
            PlanError::Look(LookError::Unsupported(what)) => Failure::Unserved(what),
            other => Failure::fatal(other.to_string()),
        }
    }
}
