//! A commit in a workspace.
//!
//! overlayfs ignores syncs there, and after a crash the mount restores what is incomplete from the
//! base. So the files of the commit are on the disk before HEAD moves: otherwise a crash after the
//! commit could show the content of the base as a change.

use engine::{
    diff,
    pathspec::Pathspecs,
    workspace::{
        crash::{self, Notice},
        record::{self, Workspace},
    },
};
use format::{ObjectId, index::Index};
use repo::{Repository, submodule::Ignore};
use store::Components;

use sys::Dir;

use crate::{Error, context::Context};

/// Returns the workspace that is the worktree of the repository.
pub fn of(repo: &Repository) -> Result<Option<Workspace>, Error> {
    Ok(record::of_git_dir(&repo.real_common_dir(), repo.git_dir())?)
}

/// Makes the files of a commit of `index` durable, unless the user turned syncs off. `parent` is
/// the tree before.
pub fn sync_files(
    context: Context<'_>,
    workspace: &Workspace,
    worktree: &Dir,
    index: &Index,
    parent: Option<ObjectId>,
) -> Result<(), Error> {
    let hardens = context.settings.fsync.hardens(Components::REFERENCE);
    if !hardens || !crash::is_unsynced(workspace)? {
        return Ok(());
    }
    if index.sparse {
        return Ok(crash::sync(workspace)?);
    }
    let all = Pathspecs::default();
    let pairs = diff::staged(context.repo, worktree, index, parent, &all, Some(Ignore::None), None)?;
    let paths = pairs.into_iter().filter(|pair| pair.new.is_some()).map(|pair| pair.path);
    Ok(crash::sync_paths(workspace, paths.collect())?)
}

/// Removes the notice of files that a crash damaged: the user has committed the changes.
pub fn acknowledge(workspace: &Workspace) -> Result<(), Error> {
    Ok(Notice::remove(&workspace.state)?)
}
