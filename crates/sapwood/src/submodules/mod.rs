//! `--recurse-submodules`: submodules follow their superproject.
//!
//! Order: while a change of the superproject is planned, each affected submodule is checked at the
//! point where Git checks it ([`Submodules`]); [`Submodules::prepare`] checks the rest. Then the
//! worktrees of removed submodules are emptied, the superproject's files are changed, and new and
//! changed submodules are moved, in the order of the index. Moving a submodule is `read-tree` in
//! it, which handles nested ones the same way; its HEAD moves last.
//!
//! A submodule that could not be moved shows as changed afterwards, and does not stop the others.
//! Design: docs/design/submodules.md.

pub mod connect;
mod follow;

use std::path::PathBuf;

use bstr::BString;
use engine::checkout::{self, Force};
use format::ObjectId;
use repo::{Repository, keys};

pub use follow::{Submodules, as_fatal};

use crate::{Error, PlanError, context::Context};

/// Changes a submodule. The last argument is its path, with a slash. Returns false if files could
/// not be written.
pub type Mover = fn(Context<'_>, InSubmodule, BString) -> Result<bool, PlanError>;

/// The task in a submodule that follows its superproject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmoduleTask {
    /// Check whether the worktree can be moved.
    Check,
    /// Move the worktree.
    Move,
    /// Empty the index, and keep the files of the worktree.
    EmptyIndex,
}

/// A change of a submodule that follows its superproject.
#[derive(Clone, Copy, Debug)]
pub struct InSubmodule {
    /// The task.
    pub task: SubmoduleTask,
    /// The local changes that may be lost. With force, the state before does not matter.
    pub force: Force,
    /// The state before.
    pub from: checkout::Start,
    /// The new commit; `None` to empty the worktree.
    pub to: Option<ObjectId>,
}

/// Returns true if submodules are included: `asked`, else `submodule.recurse`.
pub fn wanted(asked: Option<bool>, repo: &Repository) -> Result<bool, Error> {
    let configured = repo.config(&keys::submodule::RECURSE)?;
    Ok(asked.or(configured).unwrap_or(false))
}

/// Returns the directory of the repository of this submodule inside the superproject's, if it
/// exists.
pub fn kept(repo: &Repository, name: Option<&BString>) -> Option<PathBuf> {
    let place = repo.git_dir().join("modules").join(sys::os_str(name?));
    repo.is_git_directory(&place).then_some(place)
}

/// Returns true if the configuration makes some submodule active. Inactive ones are never touched.
pub fn may_be_active(repo: &Repository) -> bool {
    repo.config_names().any(|name| {
        let about = name.strip_prefix(b"submodule.");
        about.is_some_and(|about| {
            about == b"active" || about.ends_with(b".active") || about.ends_with(b".url")
        })
    })
}
