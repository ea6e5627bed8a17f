//! The checks before a pull that may rebase.

use bstr::{BString, ByteSlice as _};
use engine::{diff, pathspec::Pathspecs};
use repo::submodule::Ignore;
use sapwood::ObjectId;

use super::{Prepared, Pull, rebase};
use crate::{
    session::{
        Session,
        index::{Recorded, Start},
    },
    term::{console, failure::Failure},
};

impl Pull<'_> {
    /// Returns an error for local changes, unless they will be stashed, and finds the fork point,
    /// which depends on the state before the fetch.
    pub(super) fn prepare_rebase(
        &self,
        orig: Option<ObjectId>,
        rebase_autostash: bool,
    ) -> Result<Prepared, Failure> {
        let repo = self.session.repository;
        let autostash = self.request.autostash.unwrap_or(rebase_autostash);
        let has_index = sys::by_path::stat(&repo.index_path()).is_ok_and(|found| found.is_some());
        if orig.is_none() && has_index {
            return Err(Failure::fatal("Updating an unborn branch with changes added to the index."));
        }
        if !autostash && has_index {
            require_clean(self.session, orig)?;
        }
        let refspec = self.words.get(1).map(|word| word.as_bstr());
        let repository = self.words.first().map(|word| word.as_bstr());
        let fork = rebase::fork_point(self.session, repository, refspec)?;
        Ok(Prepared { autostash: Some(autostash), fork })
    }
}

/// Returns an error for changes of the worktree or the index. Submodules do not count.
fn require_clean(session: Session<'_>, head: Option<ObjectId>) -> Result<(), Failure> {
    let repo = session.repository;
    let mut transaction = session.start(Start::Full { dry_run: false })?;
    let changes = transaction.refresh()?;
    let tree = head.map(|head| repo.tree_of(head)).transpose()?;
    let (root, index) = transaction.worktree_and_index();
    let is_submodule = |path: &BString| {
        let range = index.range_of(path.as_bstr());
        index.entries_in(range).any(|entry| entry.mode.is_gitlink())
    };
    let unstaged = changes.iter().any(|change| !is_submodule(&change.path));
    let all = Pathspecs::default();
    let staged = diff::staged(repo, root, index, tree, &all, Some(Ignore::All), None)?;
    transaction.finish(Recorded::Yes)?;
    let action = "cannot pull with rebase";
    if unstaged {
        console::error(format!("{action}: You have unstaged changes."));
    }
    match (staged.is_empty(), unstaged) {
        (true, false) => return Ok(()),
        (true, true) => {}
        (false, true) => console::error("additionally, your index contains uncommitted changes."),
        (false, false) => console::error(format!("{action}: Your index contains uncommitted changes.")),
    }
    console::error("Please commit or stash them.");
    Err(Failure::Reported(128))
}
