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
use repo::submodule::Ignore;
use store::Components;

use super::{Run, index::Prepared};
use crate::term::failure::Failure;

impl Run<'_> {
    /// Returns the workspace in which this command runs.
    pub(super) fn workspace(&self) -> Result<Option<Workspace>, Failure> {
        let repo = self.session.repository;
        Ok(record::of_git_dir(&repo.real_common_dir(), repo.git_dir())?)
    }

    /// Makes the files of the commit durable, unless the user turned syncs off.
    pub(super) fn sync_files(&self, workspace: &Workspace, prepared: &Prepared<'_>) -> Result<(), Failure> {
        let repo = self.session.repository;
        let hardens = self.session.settings.fsync.hardens(Components::REFERENCE);
        if !hardens || !crash::is_unsynced(workspace)? {
            return Ok(());
        }
        if prepared.index.sparse {
            return Ok(crash::sync(workspace)?);
        }
        let (tree, all) = (self.parent_tree()?, Pathspecs::default());
        let ignore = Some(Ignore::None);
        let pairs = diff::staged(repo, self.worktree, &prepared.index, tree, &all, ignore, None)?;
        let paths = pairs.into_iter().filter(|pair| pair.new.is_some()).map(|pair| pair.path);
        Ok(crash::sync_paths(workspace, paths.collect())?)
    }
}

/// Forgets what a crash damaged: the user has looked at the changes.
pub(super) fn acknowledge(workspace: &Workspace) -> Result<(), Failure> {
    Ok(Notice::remove(&workspace.state)?)
}
