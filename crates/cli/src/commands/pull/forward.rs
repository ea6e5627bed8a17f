//! The fast-forward: the files, then HEAD, then the report, as in Git's `merge`.
//!
//! If files could not be written, HEAD stays, the exit code is 1, and the same pull completes the
//! rest.

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout::{Files, Force, Merge, Operation, PlanOptions, Sparse, Vouched},
    switch::{self, state},
};
use repo::{convert::Metadata, keys, keys::Key};
use store::refs::{Change, Expected};

use super::options::Request;
use sapwood::{
    ObjectId,
    maintenance::{self, MaintenanceOutput},
};

use crate::{
    commands::diffstat,
    session::{
        Session, hooks,
        index::{Done, IncompleteSteps, Start},
    },
    term::{
        console::{self, text},
        failure::{Failure, refused_with},
    },
};

/// A fast-forward from one commit to another. `old` is `None` for a branch without commits.
pub(super) struct Forward<'a> {
    pub(super) session: Session<'a>,
    pub(super) old: Option<ObjectId>,
    pub(super) new: ObjectId,
}

impl<'a> Forward<'a> {
    /// Returns the fast-forward that `git merge FETCH_HEAD` would make; `None` if it would do
    /// something else, or more.
    pub(super) fn of_merge(
        session: Session<'a>,
        request: &Request,
        heads: &[ObjectId],
    ) -> Result<Option<Forward<'a>>, Failure> {
        let repo = session.repository;
        let ([theirs], Some(ours)) = (heads, repo.head()?.oid()) else { return Ok(None) };
        let asks_more = request.squash.is_some()
            || !request.strategies.is_empty()
            || !request.strategy_options.is_empty()
            || request.verify_signatures.is_some()
            || Request::is(&request.ff, "--no-ff");
        if asks_more || request.autostash == Some(true) {
            return Ok(None);
        }
        let is_on = |key: Key<bool>| repo.config(&key);
        let forbids = || {
            let value = repo.config_str(&keys::merge::FF);
            value.is_some_and(|value| repo::parse_bool(Some(value.as_bstr())) == Some(false))
        };
        if is_on(keys::merge::VERIFY_SIGNATURES)?
            || request.autostash.is_none() && is_on(keys::merge::AUTOSTASH)?
            || request.ff.is_none() && forbids()
        {
            return Ok(None);
        }
        let head = repo.head()?;
        let branch = head.branch().and_then(|branch| branch.strip_prefix(b"refs/heads/")).map(BStr::new);
        let has_options = |branch| repo.config_str(&keys::branch::MERGE_OPTIONS.of(branch)).is_some();
        if branch.is_some_and(has_options) || has_file(repo, "CHERRY_PICK_HEAD") {
            return Ok(None);
        }
        // Git merges a tag with a merge commit unless the repository itself has the tag.
        let is_commit = repo.peel_to_commit(*theirs)? == Some(*theirs);
        let is_linear =
            is_commit && (repo.is_reachable(ours, &[*theirs])? || repo.is_reachable(*theirs, &[ours])?);
        let is_plain = is_linear && !has_file(repo, "MERGE_AUTOSTASH");
        Ok(is_plain.then_some(Forward { session, old: Some(ours), new: *theirs }))
    }

    /// Performs a whole merge that fast-forwards. Returns the exit code.
    pub(super) fn merge(&self, verbosity: i32, stat: Option<diffstat::Form>) -> Result<u8, Failure> {
        let Session { invocation: run, repository: repo, settings } = self.session;
        let refs = settings.refs(repo)?;
        let old = self.old.expect("only a branch with commits is merged into");
        let change = Change::Update {
            name: "ORIG_HEAD".into(),
            new: old,
            expected: Expected::Any,
            message: "updating ORIG_HEAD".into(),
        };
        store::refs::apply(&refs, vec![change])
            .map_err(|error| Failure::fatal(format!("update_ref failed for ref 'ORIG_HEAD': {error}")))?;
        if repo.is_reachable(self.new, &[old])? {
            if verbosity >= 0 {
                console::out("Already up to date.");
            }
            state::end_merge(repo, &refs)?;
            return Ok(0);
        }
        if verbosity >= 0 {
            let line = format!("Updating {}..{}", repo.abbreviate(old)?, repo.abbreviate(self.new)?);
            console::out(line);
        }
        let message = text!(run.variable("GIT_REFLOG_ACTION").unwrap_or(b"merge"), ": Fast-forward");
        let preflight = || switch::check_advance(repo, &refs, Some(old), self.new).map_err(cannot_update);
        match self.files(&preflight)? {
            0 => {}
            code => return Ok(code),
        }
        if verbosity >= 0 {
            console::out("Fast-forward");
        }
        switch::advance_head(repo, &refs, Some(old), self.new, message.as_bstr()).map_err(cannot_update)?;
        let output = if verbosity < 0 { MaintenanceOutput::Quiet } else { MaintenanceOutput::Progress };
        maintenance::start_auto(self.session.context(run), output)?;
        if let Some(form) = stat {
            diffstat::print(self.session, old, self.new, form)?;
        }
        hooks::post_merge(repo, settings)?;
        state::end_merge(repo, &refs)?;
        Ok(0)
    }

    /// Creates the first commit of a branch. `current` is the commit that the fetch has already put
    /// there, if any. Returns the exit code.
    pub(super) fn first_commit(&self, current: Option<ObjectId>) -> Result<u8, Failure> {
        let Session { repository: repo, settings, .. } = self.session;
        let refs = settings.refs(repo)?;
        let preflight = || switch::check_advance(repo, &refs, current, self.new).map_err(cannot_update);
        let code = self.files(&preflight)?;
        if code == 0 {
            let message = b"initial pull".as_bstr();
            switch::advance_head(repo, &refs, current, self.new, message).map_err(cannot_update)?;
        }
        Ok(code)
    }

    /// Updates index and worktree to the new commit. Returns the exit code. `preflight` is called
    /// after the plan and before the first step.
    pub(super) fn files(&self, preflight: &dyn Fn() -> Result<(), Failure>) -> Result<u8, Failure> {
        let Session { invocation: run, repository: repo, .. } = self.session;
        let head = self.old.map(|old| repo.tree_of(old)).transpose()?;
        let merge = Merge::TwoWay { head, target: repo.tree_of(self.new)? };
        let start = self.session.start(Start::Sparse { dry_run: false });
        let mut transaction = match start {
            Ok(transaction) => transaction,
            Err(failure) => return refused(failure),
        };
        transaction.policy.progress = true;
        transaction.policy.incomplete_steps = IncompleteSteps::Resumable;
        transaction.policy.metadata = Metadata { reference: None, treeish: Some(self.new) };
        transaction.refresh()?;
        let options = PlanOptions {
            merge,
            force: Force::No,
            files: Files::Update,
            overwrite_ignored: true,
            refresh: true,
            original_cwd: run.original_cwd(repo),
            sparse: Sparse::Configured,
            operation: Operation::Merge,
            vouched: Vouched::Examined,
        };
        let plan = match transaction.plan(&options).map_err(refused_with(1)) {
            Ok(plan) => plan,
            Err(failure @ Failure::Refused(..)) => {
                failure.print();
                return Ok(failure.code());
            }
            Err(failure) => return Err(failure),
        };
        preflight()?;
        Ok(u8::from(transaction.perform(plan, None)?.done != Done::Complete))
    }
}

fn has_file(repo: &repo::Repository, name: &str) -> bool {
    sys::by_path::stat(&repo.git_dir().join(name)).is_ok_and(|found| found.is_some())
}

/// Reports why the index cannot be locked. Returns the exit code.
fn refused(failure: Failure) -> Result<u8, Failure> {
    match failure {
        Failure::Fatal(message) => Err(Failure::Error(message, 1)),
        Failure::Advised(inner, advice) => match *inner {
            Failure::Fatal(message) => Err(Failure::Error(message, 1).advised(Some(advice))),
            other => Err(other.advised(Some(advice))),
        },
        other => Err(other),
    }
}

fn cannot_update(error: switch::Error) -> Failure {
    if error.is_missing_committer() {
        error.into()
    } else {
        Failure::fatal(format!("update_ref failed for ref 'HEAD': {error}")).advised(error.advice())
    }
}
