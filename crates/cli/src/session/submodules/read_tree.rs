//! Merging trees into the index and the worktree, as `read-tree` does: for the command, and for
//! submodules that follow their superproject.
//!
//! Order: the index lock; the trees; the plan; then the steps and the index, as in
//! [`super::super::apply`].

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::checkout::{Conflicts, Files, Force, Merge, OneSided, Operation, PlanOptions, Sparse, Vouched};
use format::ObjectId;
use repo::Repository;
use sys::UserPath;

use crate::{
    session::{
        Session,
        apply::{Done, Start, Transaction},
        invocation::Invocation,
        revisions::warn_ambiguous,
        settings::{
            Settings,
            refused::{self, Reader},
        },
        submodules,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The largest number of trees that Git merges in one run.
const MOST_TREES: usize = 8;

#[derive(Default)]
pub(crate) struct Request {
    pub(crate) no_sparse_checkout: bool,
    pub(crate) output: Option<BString>,
    pub(crate) empty: bool,
    pub(crate) verbose: bool,
    pub(crate) merge: bool,
    pub(crate) trivial: bool,
    pub(crate) aggressive: bool,
    pub(crate) reset: bool,
    pub(crate) prefix: Option<BString>,
    pub(crate) update: bool,
    pub(crate) index_only: bool,
    pub(crate) dry_run: bool,
    pub(crate) quiet: bool,
    pub(crate) recurse: Option<bool>,
    /// See [`in_submodule`].
    pub(crate) lead: BString,
}

/// The task in a submodule that follows its superproject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmoduleTask {
    /// Check whether the worktree can be moved.
    Check,
    /// Move the worktree.
    Move,
    /// Empty the index, and keep the files of the worktree.
    EmptyIndex,
}

/// Performs the task. The worktree moves from the first of two `trees` to the second, or with
/// `force` to the only one, regardless of its content. `lead` is the submodule's path.
pub(crate) fn in_submodule(
    run: &Invocation,
    task: SubmoduleTask,
    force: Force,
    lead: BString,
    trees: &[BString],
) -> Result<u8, Failure> {
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
    carry_out(run, &request, trees)
}

pub(crate) fn carry_out(run: &Invocation, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let repo = run.open()?;
    let settings = Settings::read(run, &repo)?;
    refused::check(&repo, &[Reader::Refs, Reader::Hooks])?;
    let merges = request.merges();
    let mut transaction = match merges {
        true => Transaction::start(
            Session { invocation: run, repository: &repo, settings: &settings },
            Start::IndexOnly { dry_run: false },
        )?,
        // Start with an empty index, so that a broken one can be replaced.
        false => Transaction::start(
            Session { invocation: run, repository: &repo, settings: &settings },
            Start::Empty,
        )?,
    };
    if merges && !request.reset && transaction.index.is_unmerged() {
        return Err(Failure::fatal("You need to resolve your current index first"));
    }
    let trees = trees(&repo, &settings, names)?;
    request.check(&repo, &trees)?;
    // Like Git, do not use the cache-tree, which may be wrong.
    transaction.index.cache_tree = None;
    transaction.policy.quiet = request.quiet;
    transaction.policy.recurses = merges && submodules::wanted(request.recurse, &repo)?;
    transaction.policy.lead_of_submodule = request.lead.clone();
    transaction.policy.progress = request.verbose && request.update;
    transaction.state.output =
        request.output.as_ref().map(|file| output(run, &repo, file.as_bstr())).transpose()?;
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
        original_cwd: run.original_cwd(&repo),
        sparse: if request.no_sparse_checkout { Sparse::Ignored } else { Sparse::Configured },
        operation: Operation::Plumbing,
        vouched: Vouched::Examined,
    };
    if request.dry_run {
        transaction.check_plan(&options, 128)?;
        return Ok(0);
    }
    match transaction.perform(&options, 128, None)? {
        Done::Incomplete | Done::Unfinished => Ok(128),
        Done::Planned | Done::Complete => Ok(0),
    }
}

impl Request {
    /// Returns true if the content of the index matters.
    fn merges(&self) -> bool {
        self.merge || self.reset || self.prefix.is_some()
    }

    fn check(&self, repo: &Repository, trees: &[ObjectId]) -> Result<(), Failure> {
        let merges = self.merges();
        if trees.is_empty() && !self.empty && !merges {
            console::warning("read-tree: emptying the index with no arguments is deprecated; use --empty");
        } else if !trees.is_empty() && self.empty {
            return Err(Failure::fatal("passing trees as arguments contradicts --empty"));
        }
        if self.index_only && self.update {
            return Err(Failure::fatal("-u and -i at the same time makes no sense"));
        }
        if (self.update || self.index_only) && !merges {
            let option = if self.update { "-u" } else { "-i" };
            return Err(Failure::fatal(format!("{option} is meaningless without -m, --reset, or --prefix")));
        }
        if merges && !self.index_only && repo.work_tree().is_none() {
            return Err(Failure::no_worktree());
        }
        if merges && trees.is_empty() {
            return Err(Failure::fatal("you must specify at least one tree to merge"));
        }
        Ok(())
    }

    fn kind(&self, mut trees: Vec<ObjectId>) -> Result<Merge, Failure> {
        if !self.merges() {
            return Ok(Merge::Overlay { trees });
        }
        let target = trees.pop().expect("checked");
        if let Some(prefix) = &self.prefix {
            return match trees.is_empty() {
                true => {
                    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix.as_slice()).into();
                    Ok(Merge::Bind { tree: target, prefix })
                }
                false => Err(Failure::unsupported("'--prefix' with several trees")),
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

fn trees(repo: &Repository, settings: &Settings, args: &[BString]) -> Result<Vec<ObjectId>, Failure> {
    let mut trees = Vec::new();
    for arg in args {
        let named = repo.rev_parse(arg.as_bstr());
        let invalid = || Failure::Fatal(text!("Not a valid object name ", arg));
        let oid = named.map_err(|error| Failure::of_name(error, invalid()))?;
        warn_ambiguous(repo, settings, arg.as_bstr(), 1)?;
        if trees.len() == MOST_TREES {
            return Err(Failure::fatal(format!("I cannot read more than {MOST_TREES} trees")));
        }
        let empty = ObjectId::empty_tree(repo.hash());
        let is_there = |tree: &ObjectId| *tree == empty || repo.objects().contains(tree);
        let none = || Failure::Fatal(text!("failed to unpack tree object ", arg));
        let tree = repo.tree_of(oid).map_err(|error| Failure::of_name(error, none()))?;
        trees.push(Some(tree).filter(is_there).ok_or_else(none)?);
    }
    console::print_object_store_errors(repo);
    Ok(trees)
}

/// Returns the file of `--index-output`, relative to the worktree's root, where Git is by then.
fn output(run: &Invocation, repo: &Repository, file: &BStr) -> Result<PathBuf, Failure> {
    let file = UserPath::new(file);
    file.resolve(repo.work_tree().unwrap_or(&run.cwd)).map_err(|refused| Failure::refused(&file, refused))
}
