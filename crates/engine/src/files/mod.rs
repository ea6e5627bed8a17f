//! The only owner of calls that change a user's directory.
//!
//! A [`Worktree`] is made with a [`Guard`], so that no call reaches the repository itself. A call
//! that removes or replaces something takes a [`Premise`]: the state in which the change is
//! allowed. The premise is compared with the disk right before the change; if it does not hold, the
//! entry stays. A creation fails if its path is occupied.
//!
//! Executors check all paths of a plan at once and then work in open directories: `Allowed` is
//! the proof that the guard was asked. It costs no system call.
//!
//! - `directory` has the calls that change the entries of one open directory;
//! - [`whole`] moves and removes whole worktrees by their paths;
//! - `own` opens directories that belong to sapwood or to the Git directory.
//!
//! `clippy.toml` forbids [`sys::DirMut`] elsewhere. A test lists the files that remove or rename by
//! path: `cli/tests/it/owners.rs`.

pub(crate) mod directory;
pub(crate) mod own;
mod premise;
pub(crate) mod tree;
pub mod whole;

use std::path::Path;

use bstr::BStr;
use repo::Repository;
use sys::Dir;

use crate::{
    guard::{self, Guard},
    look::unlinked::Unlinked,
};

pub(crate) use directory::Directory;
pub use directory::{Failed, Removed};
pub use premise::Premise;
pub(crate) use premise::{FileId, Proof, file_id};

/// The reason why a path was not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path belongs to the repository.
    #[error(transparent)]
    Guard(#[from] guard::Error),
    /// A system call failed.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// A proof that the guard was asked about the paths of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed(());

impl Allowed {
    /// A proof for a directory that this process has just created and no other process uses.
    pub(crate) fn in_new_directory() -> Allowed {
        Allowed(())
    }

    /// A proof for a plan without steps, which may concern the repository too.
    pub(crate) fn for_no_step() -> Allowed {
        Allowed(())
    }

    /// Returns the calls that change `dir`, the directory of the checked paths.
    pub(crate) fn within(self, dir: &Dir) -> Directory<'_> {
        Directory::within(dir)
    }
}

/// A directory of a user that may be changed below its root.
///
/// A removal without a premise does not compile:
///
/// ```compile_fail
/// fn remove(worktree: &engine::files::Worktree<'_>, path: &bstr::BStr) {
///     let _ = worktree.remove(path, &engine::unlinked::Unlinked::default());
/// }
/// ```
///
/// With a premise it does:
///
/// ```
/// fn remove(worktree: &engine::files::Worktree<'_>, path: &bstr::BStr) {
///     let premise = engine::files::Premise::Anything;
///     let _ = worktree.remove(path, &premise, &engine::unlinked::Unlinked::default());
/// }
/// ```
///
/// The handle of a directory only reads:
///
/// ```compile_fail
/// fn remove(root: &sys::Dir) {
///     let _ = root.remove_file(b"file");
/// }
/// ```
#[derive(Debug)]
pub struct Worktree<'d> {
    guard: Guard,
    root: &'d Dir,
}

impl<'d> Worktree<'d> {
    /// Allows changes below `root`, the open directory at `path`. Returns an error if that is the
    /// repository, or a part of it.
    pub fn of(repo: &Repository, path: &Path, root: &'d Dir) -> Result<Worktree<'d>, guard::Error> {
        Ok(Worktree { guard: Guard::of(repo, path)?, root })
    }

    /// Returns a proof that `path` is neither a directory of the repository nor in one.
    pub(crate) fn check(&self, path: &BStr) -> Result<Allowed, guard::Error> {
        self.guard.check(path).map(|()| Allowed(()))
    }

    /// Like [`Worktree::check`]; the proof also covers everything below `path`.
    pub(crate) fn check_tree(&self, path: &BStr) -> Result<Allowed, guard::Error> {
        self.guard.check_tree(path).map(|()| Allowed(()))
    }

    /// Returns a proof for all steps of a plan, if `check` finds none that the guard refuses.
    pub(crate) fn check_plan(
        &self,
        check: impl FnOnce(&Guard) -> Result<(), guard::Error>,
    ) -> Result<Allowed, guard::Error> {
        check(&self.guard).map(|()| Allowed(()))
    }

    /// Removes a file or link if `premise` holds.
    pub fn remove(&self, path: &BStr, premise: &Premise, unlinked: &Unlinked) -> Result<Removed, Error> {
        Ok(self.check(path)?.within(self.root).remove(path, premise, unlinked)?)
    }

    /// Removes a directory, if it is empty.
    pub fn remove_empty(&self, path: &BStr) -> Result<(), Error> {
        let removed = self.check(path)?.within(self.root).remove_empty(path);
        Ok(removed.map_err(Failed::Change)?)
    }

    /// Removes a directory with everything in it. The premise must hold for each entry.
    pub fn remove_tree(&self, path: &BStr, premise: &Premise, unlinked: &Unlinked) -> Result<(), Error> {
        let removed = self.check_tree(path)?.within(self.root).remove_tree(path, premise, unlinked);
        Ok(removed.map_err(Failed::Change)?)
    }

    /// Renames an entry. `premise` is that of the path `to`: nothing, or an entry to replace.
    /// Returns [`Removed::Changed`] if it does not hold, else [`Removed::Gone`]: `from` is gone.
    pub fn rename(&self, from: &BStr, to: &BStr, premise: &Premise) -> Result<Removed, Error> {
        self.check_tree(from)?;
        Ok(self.check(to)?.within(self.root).rename(from, to, premise)?)
    }
}
