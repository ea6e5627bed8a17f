//! The local changes that a pull that may rebase refuses.

use bstr::{BString, ByteSlice as _};
use engine::{diff, pathspec::Pathspecs};
use format::ObjectId;
use repo::submodule::Ignore;

use crate::{
    Context, Error,
    transaction::{IndexTransaction, Recorded, Start},
};

/// Returns an error for local changes relative to `head`, the commit of HEAD, unless they will be
/// stashed. Submodules do not count. `start` is [`Start::Full`]: the refreshed index is written
/// unless it is a dry run.
pub fn refuse_changes(
    context: Context<'_>,
    head: Option<ObjectId>,
    stashes: bool,
    start: Start,
) -> Result<(), Error> {
    let repo = context.repo;
    let has_index = sys::by_path::stat(&repo.index_path()).is_ok_and(|found| found.is_some());
    if head.is_none() && has_index {
        return Err(Error::failed("Updating an unborn branch with changes added to the index."));
    }
    if stashes || !has_index {
        return Ok(());
    }
    let mut transaction = IndexTransaction::start(context, start)?;
    let changes = transaction.refresh()?;
    let tree = head.map(|head| repo.tree_of(head)).transpose()?;
    let (root, index) = transaction.worktree_and_index();
    let is_submodule = |path: &BString| {
        let range = index.range_of(path.as_bstr());
        index.entries_in(range).any(|entry| entry.mode.is_gitlink())
    };
    let unstaged = changes.iter().any(|change| !is_submodule(&change.path));
    let all = Pathspecs::default();
    let staged = !diff::staged(repo, root, index, tree, &all, Some(Ignore::All), None)?.is_empty();
    transaction.finish(Recorded::Yes)?;
    if unstaged || staged {
        return Err(Error::LocalChanges { unstaged, staged });
    }
    Ok(())
}
