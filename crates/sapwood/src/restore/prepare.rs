//! Planning a restore: everything that may refuse it.

use std::fmt;

use bstr::BString;
use engine::{
    checkout::{self, Attributes, Operation, PathOptions, PathPlan, plan_paths},
    sparse::Purpose,
};
use format::index::Index;

use super::{Executed, Report, Request};
use crate::{
    Context, Error, Notice, PlanError,
    read_tree::in_submodule,
    sparse_index, submodules,
    switch::Source,
    transaction::{IndexTransaction, Start},
};

/// A restore that can run, with the locked index.
pub struct Prepared<'a> {
    context: Context<'a>,
    transaction: IndexTransaction<'a>,
    plan: checkout::Plan,
    /// True if the index is written.
    records: bool,
    unmerged: Vec<BString>,
}

/// Locks the index and plans the restore from `source`, or from the index. Changes nothing.
pub fn prepare<'a>(
    context: Context<'a>,
    request: Request,
    source: Option<Source>,
) -> Result<Prepared<'a>, PlanError> {
    plan(context, &request, source, false)
}

/// Plans a restore without the lock, to show its steps.
pub fn preview(
    context: Context<'_>,
    request: Request,
    source: Option<Source>,
) -> Result<Preview<'_>, PlanError> {
    plan(context, &request, source, true).map(Preview)
}

/// A plan that is only shown.
pub struct Preview<'a>(Prepared<'a>);

impl Preview<'_> {
    /// The unmerged paths that would be left as they are.
    pub fn unmerged(&self) -> &[BString] {
        self.0.unmerged()
    }

    /// Checks the plan as a run does before its first step, and returns it.
    pub fn check(self) -> Result<checkout::Plan, Error> {
        let Prepared { transaction, plan, .. } = self.0;
        transaction.check(&plan)?;
        Ok(plan)
    }
}

fn plan<'a>(
    context: Context<'a>,
    request: &Request,
    source: Option<Source>,
    dry_run: bool,
) -> Result<Prepared<'a>, PlanError> {
    let repo = context.repo;
    check_targets(request, source.as_ref())?;
    let mut transaction = IndexTransaction::start(context, Start::Sparse { dry_run })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    transaction.policy.progress = request.progress;
    let recurses = request.worktree && submodules::wanted(request.recurse_submodules, repo)?;
    transaction.policy.recurses = recurses.then_some(in_submodule);
    transaction.policy.attributes = Attributes::OfWorktree;
    let tree = source.as_ref().map(|source| source.tree);
    transaction.policy.metadata = source.map(|source| source.metadata).unwrap_or_default();
    let specs = &request.pathspecs;
    let options = PathOptions {
        source: tree,
        pathspecs: specs,
        overlay: request.overlay,
        update_worktree: request.worktree,
        include_sparse: request.include_sparse,
        recurse_submodules: recurses,
        side: request.side,
    };
    let whole = match tree {
        _ if options.include_sparse => Purpose::Files,
        None => Purpose::None,
        Some(tree) if options.overlay => Purpose::Compare(tree),
        Some(tree) => Purpose::OneWay(tree),
    };
    let patterns = transaction.state.before.is_some().then(|| transaction.patterns()).transpose()?.flatten();
    transaction.expand_for(patterns.as_deref(), &|dir| specs.purpose(dir, whole))?;
    let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    let planned = plan_paths(repo, transaction.worktree(), index, &options)
        .map_err(|error| transaction.explain(error.into(), Operation::Plumbing))?;
    let PathPlan { mut plan, invalid, unmatched, unmerged } = planned;
    match (&transaction.state.before, tree) {
        (Some(before), Some(_)) if !options.overlay => sparse_index::keep_out(before, &mut plan),
        _ => transaction.changes_collapsed(&plan.index)?,
    }
    invalid.into_iter().for_each(|path| context.events.notice(Notice::InvalidPath(path)));
    if !unmatched.is_empty() {
        return Err(Error::Unmatched(unmatched).into());
    }
    if !unmerged.is_empty() && !request.ignore_unmerged {
        return Err(Error::UnmergedPaths { paths: unmerged, side: request.side }.into());
    }
    // A restore from the index changes only its stat data.
    let records = request.index || tree.is_none();
    Ok(Prepared { context, transaction, plan, records, unmerged })
}

fn check_targets(request: &Request, source: Option<&Source>) -> Result<(), Error> {
    if request.worktree || request.index && source.is_some() {
        return Ok(());
    }
    Err(Error::Failed(if request.index {
        "'--worktree' must be used when '--source' is not specified".into()
    } else {
        "neither '--staged' or '--worktree' is specified".into()
    }))
}

impl<'a> Prepared<'a> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { transaction, plan, records, unmerged, .. } = self;
        Prepared { context, transaction: transaction.with_context(context), plan, records, unmerged }
    }

    /// The unmerged paths that are left as they are.
    pub fn unmerged(&self) -> &[BString] {
        &self.unmerged
    }

    /// Changes the files, and the index in memory.
    pub fn execute(self) -> Result<Executed<'a>, Error> {
        let Prepared { context, mut transaction, plan, records, unmerged } = self;
        let is_incomplete = !transaction.carry_out(plan)?.is_complete();
        let written = transaction.report.written;
        let report = Report { written, is_incomplete, unmerged, hook: 0 };
        Ok(Executed { context, transaction, records, report })
    }
}

/// The steps of the worktree, each in a line.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.plan, formatter)
    }
}
