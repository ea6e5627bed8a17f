//! The worktree of a new clone: files that arrived with the objects, and the others.

use bstr::{BStr, BString};
use engine::{
    checkout::{Files, Merge, Operation, PlanOptions, Sparse, Vouched},
    clone::{Cloned, Worktree},
};
use format::ObjectId;
use repo::{OpenOptions, Repository, convert::Metadata};

use crate::{
    Context, Error,
    transaction::{Filled, IndexTransaction, Start, Unfilled},
};

/// Opens the repository of a clone. `outside` are the options of the caller's directory.
pub fn open(outside: &OpenOptions, cloned: &mut Cloned) -> Result<Repository, Error> {
    let mut repo = Repository::open(&OpenOptions {
        git_dir: Some(cloned.git_dir.clone()),
        work_tree: cloned.work_tree.clone(),
        is_created_by_command: true,
        ..outside.clone()
    })?;
    if let Some(before) = cloned.settings.take() {
        repo.restore_startup_settings(before);
    }
    Ok(repo)
}

/// The files to check out.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// The commit.
    pub commit: ObjectId,
    /// Report the progress of the files.
    pub progress: bool,
    /// A directory that stays, relative to the root of the worktree, and so do its parents.
    pub keep: Option<BString>,
}

/// Returns an error after which a later run can finish the clone.
pub(super) fn resumable(error: impl Into<Error>) -> Unfilled {
    Unfilled { error: Box::new(error.into().into()), is_resumable: true }
}

/// Fills the worktree of a clone and writes its index. `context` has the repository of the clone.
pub fn check_out(context: Context<'_>, cloned: &mut Cloned, checkout: Checkout) -> Result<Filled, Unfilled> {
    let Checkout { commit, progress, keep } = checkout;
    let mut transaction =
        IndexTransaction::start(context, Start::Full { dry_run: false }).map_err(resumable)?;
    transaction.policy.original_cwd = keep;
    transaction.policy.progress = progress;
    let is_detached = matches!(cloned.worktree, Worktree::Detached(_));
    let head = || context.repo.head().map_err(resumable);
    let reference = if is_detached { None } else { head()?.branch().map(BStr::to_owned) };
    transaction.policy.metadata = Metadata { reference, treeish: Some(commit) };
    let options = PlanOptions {
        merge: Merge::OneWay { target: context.repo.tree_of(commit).map_err(resumable)? },
        force: cloned.force,
        files: Files::Update,
        overwrite_ignored: true,
        refresh: false,
        original_cwd: None,
        sparse: Sparse::Configured,
        operation: Operation::Checkout,
        vouched: Vouched::Examined,
    };
    let adopted = cloned.staged.take().map_or(0, |staged| {
        let (worktree, index) = transaction.worktree_and_index();
        staged.adopt(worktree, index)
    });
    transaction.policy.written_ahead = adopted;
    let filled = transaction.fill(&options)?;
    Ok(Filled { written: adopted + filled.written, ..filled })
}
