//! Planning a switch: everything that may refuse it.

use std::fmt;

use bstr::{BStr, BString};
use engine::{
    checkout::{self, Files, Force, Merge, Operation, PlanOptions, Sparse, Vouched},
    switch::names,
};
use format::ObjectId;
use repo::convert::Metadata;

use super::{Discard, Ended, Executed, Head, Report, Request, Rules, Source, refs, rules};
use crate::{
    Context, Error, PlanError,
    read_tree::in_submodule,
    submodules, text,
    transaction::{Done, IncompleteSteps, IndexTransaction, LockedPlan, Performed, Start},
};

/// A switch that can run, with the locked index.
pub struct Prepared<'a> {
    context: Context<'a>,
    request: Request,
    old: Head,
    new: NewHead,
    /// `None` if the plan is only shown.
    refs: Option<store::refs::Options>,
    work: Work<'a>,
}

/// The state of HEAD after the switch.
#[derive(Clone, Debug)]
pub(super) struct NewHead {
    /// The name for messages and reflogs.
    pub(super) name: BString,
    /// Full name of the branch, if HEAD will be on one.
    pub(super) branch: Option<BString>,
    pub(super) commit: Option<ObjectId>,
}

impl NewHead {
    /// Returns true if HEAD is not moved: there is no target, and no new branch.
    pub(super) fn stays(&self, request: &Request) -> bool {
        self.branch.is_none() && self.name == "HEAD" && !request.detach
    }
}

/// The work before HEAD moves.
enum Work<'a> {
    /// None.
    Nothing,
    /// None; the branch of HEAD is unborn, and HEAD gets this one instead.
    Unborn(BString),
    Files(Box<FileChange<'a>>),
}

/// A change of the files and the index.
struct FileChange<'a> {
    transaction: IndexTransaction<'a>,
    plan: checkout::Plan,
    /// The tree with which the files are compared afterwards.
    compared: Option<ObjectId>,
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Run,
    Show,
    /// Another module changes the files.
    Replace,
}

/// Locks the index and plans the switch to `source`. Changes nothing.
pub fn prepare<'a>(
    context: Context<'a>,
    request: Request,
    source: Option<Source>,
) -> Result<Prepared<'a>, PlanError> {
    plan(context, request, source, Purpose::Run)
}

/// Plans a switch without the lock. Returns its steps as text, or `None` if only refs would change.
pub fn preview(
    context: Context<'_>,
    request: Request,
    source: Option<Source>,
) -> Result<Option<String>, PlanError> {
    let prepared = plan(context, request, source, Purpose::Show)?;
    if let Work::Files(change) = &prepared.work {
        change.transaction.check(&change.plan)?;
    }
    Ok((!matches!(prepared.work, Work::Nothing)).then(|| prepared.to_string()))
}

/// A switch whose files another module changes.
pub struct Replacement<'a>(Prepared<'a>);

/// Like [`prepare`], for files that another module changes. The file system monitor is trusted.
pub fn prepare_replacement<'a>(
    context: Context<'a>,
    request: Request,
    source: Source,
) -> Result<Replacement<'a>, PlanError> {
    plan(context, request, Some(source), Purpose::Replace).map(Replacement)
}

fn plan<'a>(
    context: Context<'a>,
    request: Request,
    source: Option<Source>,
    purpose: Purpose,
) -> Result<Prepared<'a>, PlanError> {
    let repo = context.repo;
    let old = Head::read(repo)?;
    let options = |request: &Request| match purpose {
        Purpose::Show => Ok(None),
        Purpose::Run | Purpose::Replace => refs::options(context, request).map(Some),
    };
    rules::check_state(context, &request, source.as_ref(), &old)?;
    if let (None, true, Some(branch)) = (&source, old.is_unborn, &request.new_branch) {
        let full = text!(names::BRANCHES, branch.name);
        let new = NewHead { name: branch.name.clone(), branch: Some(full.clone()), commit: None };
        let refs = options(&request)?;
        return Ok(Prepared { context, request, old, new, refs, work: Work::Unborn(full) });
    }
    let new = match &source {
        _ if request.starts_empty() => NewHead { name: "(empty)".into(), branch: None, commit: None },
        Some(source) => {
            NewHead { name: source.name.clone(), branch: source.branch.clone(), commit: source.commit }
        }
        None if old.commit.is_none() => {
            return Err(Error::Failed("You are on a branch yet to be born".into()).into());
        }
        None => NewHead { name: "HEAD".into(), branch: None, commit: old.commit },
    };
    let stays = source.is_none() && !request.starts_empty();
    let work = if stays && (request.rules == Rules::Switch || request.only_head) {
        Work::Nothing
    } else {
        plan_files(context, &request, &old, &new, source, purpose)?
    };
    let refs = options(&request)?;
    if let Some(refs) = &refs {
        refs::check(context, refs, &request, &new)?;
    }
    Ok(Prepared { context, request, old, new, refs, work })
}

fn plan_files<'a>(
    context: Context<'a>,
    request: &Request,
    old: &Head,
    new: &NewHead,
    source: Option<Source>,
    purpose: Purpose,
) -> Result<Work<'a>, PlanError> {
    let repo = context.repo;
    let tree_of = |commit| repo.tree_of(commit).map_err(Error::from);
    let (tree, metadata) = match source {
        Some(source) => (source.tree, source.metadata),
        None => {
            let tree = new.commit.map_or_else(|| Ok(ObjectId::empty_tree(repo.hash())), tree_of)?;
            (tree, Metadata { reference: None, treeish: new.commit })
        }
    };
    let dry_run = purpose == Purpose::Show;
    let discards = request.discards();
    let mut transaction = IndexTransaction::start(context, Start::Sparse { dry_run })?;
    transaction.policy.original_cwd.clone_from(&request.keep);
    transaction.policy.progress = request.progress;
    transaction.policy.metadata = metadata;
    transaction.policy.merges = request.merge;
    if request.resumable {
        transaction.policy.incomplete_steps = IncompleteSteps::Resumable;
    }
    transaction.policy.recurses =
        submodules::wanted(request.recurse_submodules, repo)?.then_some(in_submodule);
    let merge = if discards {
        Merge::OneWay { target: tree }
    } else {
        Merge::TwoWay { head: old.commit.map(tree_of).transpose()?, target: tree }
    };
    if !discards && transaction.index.is_unmerged() {
        return Err(Error::Unmerged(transaction.unmerged()).into());
    }
    let compares = request.list_changes && !discards && new.commit.is_some() && !dry_run;
    if compares || purpose == Purpose::Replace || request.refresh && !discards && !dry_run {
        transaction.refresh()?;
    }
    let options = PlanOptions {
        merge,
        force: match request.discard {
            Discard::ChangesAndUntracked => Force::OverwriteUntracked,
            Discard::Changes => Force::ProtectUntracked,
            Discard::Nothing => Force::No,
        },
        files: Files::Update,
        overwrite_ignored: !request.protect_ignored,
        refresh: !discards,
        original_cwd: request.keep.clone(),
        sparse: Sparse::Configured,
        // `checkout -f` prints messages like the plumbing, one path at a time.
        operation: if discards { Operation::Plumbing } else { Operation::Checkout },
        vouched: if purpose == Purpose::Replace { Vouched::Trusted } else { Vouched::Examined },
    };
    let plan = transaction.plan(&options)?;
    if purpose == Purpose::Replace {
        transaction.preflight(&plan)?;
    }
    Ok(Work::Files(Box::new(FileChange { transaction, plan, compared: compares.then_some(tree) })))
}

impl<'a> Prepared<'a> {
    /// Replaces the context: another receiver gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Prepared<'b> {
        let Prepared { request, old, new, refs, work, .. } = self;
        let work = match work {
            Work::Nothing => Work::Nothing,
            Work::Unborn(full) => Work::Unborn(full),
            Work::Files(change) => {
                let FileChange { transaction, plan, compared } = *change;
                let transaction = transaction.with_context(context);
                Work::Files(Box::new(FileChange { transaction, plan, compared }))
            }
        };
        Prepared { context, request, old, new, refs, work }
    }

    /// Changes the files and the index.
    pub fn execute(self) -> Result<Executed<'a>, Error> {
        let (mut executed, work) = self.begin();
        if let Work::Files(change) = work {
            let FileChange { transaction, plan, compared } = *change;
            let Performed { done, written, changes } = transaction.perform(plan, compared)?;
            executed.report = Report { done, written, changes, ..executed.report };
        }
        Ok(executed)
    }

    fn begin(self) -> (Executed<'a>, Work<'a>) {
        let Prepared { context, request, old, new, refs, work } = self;
        let report = Report {
            new: old.clone(),
            old,
            done: Done::Complete,
            written: 0,
            changes: Vec::new(),
            existed: false,
            upstream: None,
            ended: Ended::default(),
            hook: 0,
        };
        let refs = refs.expect("a plan that is shown is not returned");
        let only_head = matches!(work, Work::Unborn(_));
        (Executed { context, request, new, refs, only_head, report }, work)
    }
}

impl<'a> Replacement<'a> {
    /// Calls `replace` with the plan, and with the branch of HEAD afterwards (`None`: detached) and
    /// the message for its reflog.
    pub fn execute_by<E: From<Error>>(
        self,
        replace: impl FnOnce(LockedPlan, Option<&BStr>, &BStr) -> Result<(), E>,
    ) -> Result<Executed<'a>, E> {
        let (executed, work) = self.0.begin();
        if let Work::Files(change) = work {
            let message = executed.reflog_message();
            replace(change.transaction.into_locked(change.plan), executed.attached_to(), message.as_ref())?;
        }
        Ok(executed)
    }
}

/// The steps of the worktree, each in a line. A new branch instead of an unborn one is
/// `HEAD -> <branch>`.
impl fmt::Display for Prepared<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Nothing => Ok(()),
            Work::Unborn(full) => writeln!(formatter, "HEAD -> {full}"),
            Work::Files(change) => fmt::Display::fmt(&change.plan, formatter),
        }
    }
}
