//! Planning a reset: everything that may refuse it.

use std::fmt;

use bstr::BStr;
use engine::{
    checkout::{
        self, Files, Force, IndexOptions, Merge, Operation, PlanOptions, Sparse, Vouched, plan_index,
    },
    sparse::Purpose,
    switch::{self, names, state},
};
use format::{ObjectId, index::Index};
use repo::convert::Metadata;

use super::{Executed, Mode, Report, Request};
use crate::{
    Context, Error, HeadChange, PlanError,
    hooks::Changed,
    index,
    read_tree::in_submodule,
    refs,
    sparse_index::{self, ExpansionHint},
    submodules, text,
    transaction::{IndexTransaction, Start},
};

/// The target of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The empty tree: HEAD has no commit yet.
    Nothing,
    /// A commit.
    Commit(ObjectId),
    /// A tree, for paths.
    Tree(ObjectId),
}

/// Resolves the revision of a request.
pub fn resolve(repo: &repo::Repository, request: &Request) -> Result<Target, Error> {
    let revision = request.revision.as_ref();
    if revision == "HEAD" && repo.head()?.oid().is_none() {
        return Ok(Target::Nothing);
    }
    let resolve = |what: &str| {
        let invalid = || Error::Failed(text!("Failed to resolve '", revision, "' as a valid ", what, "."));
        repo.rev_parse(revision).map_err(|error| Error::of_name(error, invalid()))
    };
    let no_object =
        |error| Error::of_name(error, Error::Failed(text!("Could not parse object '", revision, "'.")));
    if !request.pathspecs.is_empty() {
        let oid = resolve("tree")?;
        return Ok(Target::Tree(repo.tree_of(oid).map_err(no_object)?));
    }
    let object = resolve("revision")?;
    if let Some(commit) = repo.peel_to_commit(object).map_err(no_object)? {
        return Ok(Target::Commit(commit));
    }
    let (kind, _) = repo.objects().header(&object)?;
    let kind = format!("{kind:?}").to_lowercase();
    Err(Error::NotACommit { revision: request.revision.clone(), object, kind })
}

/// A reset that can run, with the locked index.
pub struct Prepared<'a> {
    pub(super) context: Context<'a>,
    pub(super) request: Request,
    pub(super) target: Target,
    pub(super) tree: ObjectId,
    /// `None` for paths, which leave HEAD.
    pub(super) refs: Option<store::refs::Options>,
    /// `None` for a soft reset.
    pub(super) change: Option<Change<'a>>,
}

/// A change of the index, and of the worktree.
pub(super) struct Change<'a> {
    pub(super) transaction: IndexTransaction<'a>,
    pub(super) plan: checkout::Plan,
}

/// Locks the index and plans the reset to the target of [`resolve`]. Changes nothing.
pub fn prepare<'a>(
    context: Context<'a>,
    request: Request,
    target: Target,
) -> Result<Prepared<'a>, PlanError> {
    let mut prepared = plan(context, request, target, false)?;
    if prepared.request.pathspecs.is_empty() {
        let refs = refs::planned_options(context)?;
        if let Target::Commit(commit) = target {
            switch::check_reset(context.repo, &refs, commit)
                .map_err(Error::cannot_move_head(HeadChange::Reset))?;
        }
        prepared.refs = Some(refs);
    }
    Ok(prepared)
}

/// Plans a reset without the lock, to show its steps. Returns `None` for a soft reset, which has
/// none.
pub fn preview(
    context: Context<'_>,
    request: Request,
    target: Target,
) -> Result<Option<checkout::Plan>, PlanError> {
    let Some(Change { transaction, plan }) = plan(context, request, target, true)?.change else {
        return Ok(None);
    };
    transaction.check(&plan)?;
    Ok(Some(plan))
}

fn plan<'a>(
    context: Context<'a>,
    request: Request,
    target: Target,
    dry_run: bool,
) -> Result<Prepared<'a>, PlanError> {
    check_mode(context, &request)?;
    let tree = match target {
        Target::Nothing => ObjectId::empty_tree(context.repo.hash()),
        Target::Commit(commit) => context.repo.tree_of(commit).map_err(Error::from)?,
        Target::Tree(tree) => tree,
    };
    let change = match request.mode {
        Mode::Soft => None,
        Mode::Mixed => Some(plan_index_only(context, &request, tree, dry_run)?),
        Mode::Hard | Mode::Merge | Mode::Keep => {
            let treeish = if let Target::Commit(commit) = target { commit } else { tree };
            Some(plan_worktree(context, &request, tree, treeish, dry_run)?)
        }
    };
    Ok(Prepared { context, request, target, tree, refs: None, change })
}

/// Refuses combinations of options, and modes that this repository cannot have now.
fn check_mode(context: Context<'_>, request: &Request) -> Result<(), Error> {
    let (repo, mode) = (context.repo, request.mode);
    let refuse = |message: String| Err(Error::Failed(message.into()));
    if mode != Mode::Mixed && !request.pathspecs.is_empty() {
        return refuse(format!("Cannot do {} reset with paths.", mode.name()));
    }
    match mode {
        Mode::Soft => {}
        // Inside the Git directory of a repository that is not bare, the index can be reset.
        Mode::Mixed if !repo.is_bare() => {}
        Mode::Mixed => return refuse("mixed reset is not allowed in a bare repository".to_owned()),
        _ if repo.work_tree().is_none() => return Err(Error::NoWorktree),
        _ => {}
    }
    if request.intent_to_add && mode != Mode::Mixed {
        return refuse("the option '-N' requires '--mixed'".to_owned());
    }
    if matches!(mode, Mode::Soft | Mode::Keep) && is_in_a_merge(context)? {
        return refuse(format!("Cannot do a {} reset in the middle of a merge.", mode.name()));
    }
    Ok(())
}

fn is_in_a_merge(context: Context<'_>) -> Result<bool, Error> {
    if state::is_merging(context.repo)? {
        return Ok(true);
    }
    let index = index::load_raw(context.repo, context.settings)?;
    if index.sparse && sparse_index::wanted(context.repo)?.is_none() {
        sparse_index::report_expansion(context, &index, ExpansionHint::Print)?;
    }
    Ok(index.is_unmerged())
}

/// Plans `--hard`, `--merge` or `--keep`.
fn plan_worktree<'a>(
    context: Context<'a>,
    request: &Request,
    tree: ObjectId,
    treeish: ObjectId,
    dry_run: bool,
) -> Result<Change<'a>, PlanError> {
    let repo = context.repo;
    let mut transaction = IndexTransaction::start(context, Start::Sparse { dry_run })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    transaction.policy.progress = request.progress;
    transaction.policy.recurses =
        submodules::wanted(request.recurse_submodules, repo)?.then_some(in_submodule);
    // Filters do not get the name of a detached HEAD.
    let reference = names::expand(repo, request.revision.as_ref()).map_err(Error::from)?.into_iter().next();
    let reference = reference.map(|(full, _)| full).filter(|full| full.starts_with(b"refs/"));
    transaction.policy.metadata = Metadata { reference, treeish: Some(treeish) };
    let merge = if request.mode == Mode::Keep {
        let head = repo.head().map_err(Error::from)?.oid().ok_or(Error::NoHead)?;
        Merge::TwoWay { head: Some(repo.tree_of(head).map_err(Error::from)?), target: tree }
    } else {
        Merge::OneWay { target: tree }
    };
    let hard = request.mode == Mode::Hard;
    let options = PlanOptions {
        merge,
        force: if hard { Force::OverwriteUntracked } else { Force::No },
        files: Files::Update,
        overwrite_ignored: true,
        refresh: false,
        original_cwd: request.keep.clone(),
        sparse: Sparse::Configured,
        operation: Operation::Plumbing,
        vouched: Vouched::Examined,
    };
    if hard && !dry_run {
        transaction.query_monitor()?;
    }
    let plan = transaction.plan(&options)?;
    Ok(Change { transaction, plan })
}

/// Plans `--mixed`, with or without paths.
fn plan_index_only<'a>(
    context: Context<'a>,
    request: &Request,
    tree: ObjectId,
    dry_run: bool,
) -> Result<Change<'a>, PlanError> {
    let (repo, specs) = (context.repo, &request.pathspecs);
    let mut transaction = IndexTransaction::start(context, Start::IndexOnly { dry_run })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    transaction.policy.changed = Changed::IndexAlone;
    let patterns = transaction.patterns()?;
    let options = IndexOptions {
        tree,
        sparse: patterns.as_deref(),
        pathspecs: (!specs.is_empty()).then_some(specs),
        intent_to_add: request.intent_to_add,
    };
    let purpose = |dir: &BStr| match patterns {
        Some(_) => specs.purpose(dir, Purpose::OneWay(tree)),
        None => Purpose::Files,
    };
    transaction.expand_for(patterns.as_deref(), &purpose)?;
    let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    let plan = plan_index(repo, index, &options)
        .map_err(|error| transaction.explain(error.into(), Operation::Plumbing))?;
    let needs_full = |before| patterns.as_ref().is_some_and(|by| specs.need_full_index(before, by));
    if transaction.state.before.as_ref().is_some_and(needs_full) {
        transaction.needs_full()?;
    }
    transaction.changes_collapsed(&plan.index)?;
    Ok(Change { transaction, plan })
}

impl<'a> Prepared<'a> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { request, target, tree, refs, change, .. } = self;
        let change = change.map(|Change { transaction, plan }| Change {
            transaction: transaction.with_context(context),
            plan,
        });
        Prepared { context, request, target, tree, refs, change }
    }

    /// Changes the worktree, and the index in memory.
    pub fn execute(self) -> Result<Executed<'a>, Error> {
        let Prepared { context, request, target, tree, refs, change } = self;
        let old = if refs.is_some() { context.repo.head()?.oid() } else { None };
        let mut report = Report { old, new: old, ..Report::default() };
        let transaction = match change {
            None => None,
            Some(Change { mut transaction, plan }) => {
                report.is_incomplete = !transaction.carry_out(plan)?.is_complete();
                if request.mode == Mode::Keep {
                    // Local changes that are kept show as unstaged: the whole index is the
                    // target's.
                    transaction.set_index_to(tree)?;
                }
                report.written = transaction.report.written;
                report.unmerged = transaction.unmerged();
                Some(transaction)
            }
        };
        Ok(Executed { context, request, target, refs, transaction, report })
    }
}

/// The steps of the worktree, each in a line.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.change.as_ref().map_or(Ok(()), |change| fmt::Display::fmt(&change.plan, formatter))
    }
}
