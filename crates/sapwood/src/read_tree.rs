//! Merging trees into the index and the worktree, as `read-tree` does: for the command, and for
//! submodules that follow their superproject.
//!
//! Order: the index lock; the trees; the plan; then the steps and the index, as in
//! [`crate::transaction`].

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use engine::checkout::{
    self, Conflicts, Files, Force, Merge, OneSided, Operation, Plan, PlanOptions, Sparse, Vouched,
};
use format::ObjectId;
use repo::Repository;

use crate::{
    Error, PlanError,
    context::Context,
    settings::refused::{self, Reader},
    submodules::{self, InSubmodule, SubmoduleTask},
    text,
    transaction::{Done, IndexTransaction, Start},
};

/// The largest number of trees that Git merges in one run.
pub const MOST_TREES: usize = 8;

/// The trees to read, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Ignore the sparse patterns.
    pub no_sparse_checkout: bool,
    /// The file to write instead of the index: an absolute path.
    pub output: Option<PathBuf>,
    /// Empty the index.
    pub empty: bool,
    /// Report the progress.
    pub verbose: bool,
    /// Merge the trees with the index.
    pub merge: bool,
    /// Refuse a merge that has to merge files.
    pub trivial: bool,
    /// Resolve paths that only one side has removed or added.
    pub aggressive: bool,
    /// Merge, and drop unmerged entries and local changes.
    pub reset: bool,
    /// The directory below which the tree is read into the index.
    pub prefix: Option<BString>,
    /// Update the worktree.
    pub update: bool,
    /// Do not examine the worktree.
    pub index_only: bool,
    /// Only find out if it would be refused.
    pub dry_run: bool,
    /// Leave out the paths of a refusal.
    pub quiet: bool,
    /// Take submodules along; `None` for `submodule.recurse`.
    pub recurse: Option<bool>,
    /// The path of this worktree in its superproject, with a slash at the end; else empty.
    pub lead: BString,
}

/// Changes the submodule of `context`, whose path is `lead`, with a slash: a
/// [`submodules::Mover`]. Returns false if files could not be written.
pub fn in_submodule(context: Context<'_>, change: InSubmodule, lead: BString) -> Result<bool, PlanError> {
    let InSubmodule { task, force, from, to } = change;
    let (asks, forced) = (task == SubmoduleTask::Check, force != Force::No);
    let request = Request {
        merge: !forced,
        reset: forced,
        // This check includes untracked files, unlike Git's.
        update: task == SubmoduleTask::Move || asks && !forced,
        index_only: task == SubmoduleTask::EmptyIndex,
        dry_run: asks,
        recurse: Some(true),
        lead,
        ..Request::default()
    };
    let started = ReadTree::start(context, request)?;
    let empty = ObjectId::empty_tree(context.repo.hash());
    let mut trees = match from {
        _ if forced => Vec::new(),
        checkout::Start::Nothing => vec![empty],
        checkout::Start::Head => {
            let invalid = || Error::Failed("Not a valid object name HEAD".into());
            let head = context.repo.rev_parse("HEAD".into());
            let head = head.map_err(|error| Error::of_name(error, invalid()))?;
            vec![tree_of(context.repo, head, &"HEAD".into())?]
        }
        checkout::Start::Commit(oid) => vec![tree_of(context.repo, oid, &oid.to_string().into())?],
    };
    trees.push(to.map_or(Ok(empty), |oid| tree_of(context.repo, oid, &oid.to_string().into()))?);
    started.run(trees)
}

/// Returns the tree of the object `oid`, which the revision `name` names. An object without a tree
/// is an error with Git's message.
pub fn tree_of(repo: &Repository, oid: ObjectId, name: &BString) -> Result<ObjectId, Error> {
    let empty = ObjectId::empty_tree(repo.hash());
    let none = || Error::Failed(text!("failed to unpack tree object ", name));
    let tree = repo.tree_of(oid).map_err(|error| Error::of_name(error, none()))?;
    Some(tree).filter(|tree| *tree == empty || repo.objects().contains(tree)).ok_or_else(none)
}

/// A change whose index is locked and loaded.
pub struct ReadTree<'a> {
    context: Context<'a>,
    request: Request,
    transaction: IndexTransaction<'a>,
}

impl<'a> ReadTree<'a> {
    /// Locks the index and loads it.
    pub fn start(context: Context<'a>, request: Request) -> Result<ReadTree<'a>, Error> {
        refused::check(context.repo, &[Reader::Refs, Reader::Hooks])?;
        // Unless trees are merged, start with an empty index, so that a broken one can be replaced.
        let start = if request.merges() { Start::IndexOnly { dry_run: false } } else { Start::Empty };
        let transaction = IndexTransaction::start(context, start)?;
        if request.merges() && !request.reset && transaction.index.is_unmerged() {
            return Err(Error::Failed("You need to resolve your current index first".into()));
        }
        Ok(ReadTree { context, request, transaction })
    }

    /// Plans, executes and records the change. Returns false if files could not be written.
    pub fn run(self, trees: Vec<ObjectId>) -> Result<bool, PlanError> {
        let ReadTree { context, request, mut transaction } = self;
        let merges = request.merges();
        // Like Git, do not use the cache-tree, which may be wrong.
        transaction.index.cache_tree = None;
        transaction.policy.quiet = request.quiet;
        let recurses = merges && submodules::wanted(request.recurse, context.repo)?;
        transaction.policy.recurses = recurses.then_some(in_submodule);
        transaction.policy.lead_of_submodule = request.lead.clone();
        transaction.policy.progress = request.verbose && request.update;
        transaction.state.output.clone_from(&request.output);
        if request.no_sparse_checkout {
            transaction.needs_full()?;
        }
        if let Some(prefix) = &request.prefix {
            transaction.looks_for(text!(prefix.trim_end_with(|letter| letter == '/'), "/-").as_bstr())?;
        }
        let options = PlanOptions {
            merge: request.kind(trees)?,
            force: if request.reset { Force::OverwriteUntracked } else { Force::No },
            files: match (merges && !request.index_only, request.update) {
                (false, _) => Files::Ignore,
                (true, false) => Files::Check,
                (true, true) => Files::Update,
            },
            overwrite_ignored: true,
            refresh: false,
            original_cwd: transaction.policy.original_cwd.clone(),
            sparse: if request.no_sparse_checkout { Sparse::Ignored } else { Sparse::Configured },
            operation: Operation::Plumbing,
            vouched: Vouched::Examined,
        };
        let plan: Plan = transaction.plan(&options)?;
        if request.dry_run {
            return Ok(true);
        }
        Ok(transaction.perform(plan, None)?.done == Done::Complete)
    }

    /// Sets the directory in which the program was started: see [`crate::transaction::Policy`].
    pub fn started_in(mut self, dir: Option<BString>) -> ReadTree<'a> {
        self.transaction.policy.original_cwd = dir;
        self
    }

    /// Sets the file to write instead of the index.
    pub fn with_output(mut self, output: Option<PathBuf>) -> ReadTree<'a> {
        self.request.output = output;
        self
    }
}

impl Request {
    /// Returns true if the content of the index matters.
    pub fn merges(&self) -> bool {
        self.merge || self.reset || self.prefix.is_some()
    }

    fn kind(&self, mut trees: Vec<ObjectId>) -> Result<Merge, Error> {
        if !self.merges() {
            return Ok(Merge::Overlay { trees });
        }
        let target = trees.pop().expect("checked");
        if let Some(prefix) = &self.prefix {
            return if trees.is_empty() {
                let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix.as_slice()).into();
                Ok(Merge::Bind { tree: target, prefix })
            } else {
                Err(Error::NotSupported("'--prefix' with several trees"))
            };
        }
        Ok(match (trees.pop(), trees.is_empty()) {
            (None, _) => Merge::OneWay { target },
            (head, true) => Merge::TwoWay { head, target },
            (Some(ours), false) => Merge::ThreeWay {
                bases: trees,
                ours,
                theirs: target,
                one_sided: if self.aggressive { OneSided::Settle } else { OneSided::Leave },
                conflicts: if self.trivial { Conflicts::Refuse } else { Conflicts::Stages },
            },
        })
    }
}
