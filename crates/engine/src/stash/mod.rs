//! Stash: stores local changes as commits, and restores them.
//!
//! Order of a push: `changes` finds every path that differs between HEAD, the index and the
//! worktree, and examines each once; [`snapshot()`] stores the trees; the caller makes them durable
//! and records the stash; then [`reset()`] plans the reset to HEAD, as a plan of
//! [`crate::checkout`].
//!
//! Order of an apply: [`merge()`] plans a merge without content merges; `untracked` plans the
//! untracked files; [`sync()`] makes the files durable before the stash is dropped.
//!
//! Content merges, and rare states for which Git has special rules, return [`Error::Unsupported`]
//! before the worktree is changed.

mod changes;
mod merge;
mod reset;
mod snapshot;
mod sync;
mod untracked;

use crate::{add::WriteTreeError, look::LookError};

pub use changes::{Changed, Changes, Content, File, Scope, check_index, collect};
pub use merge::{Merge, Merged, Staged, merge, plan as plan_merge, staged, unstage};
pub use reset::{Target, reset};
pub use snapshot::{Snapshot, snapshot};
pub use sync::sync;
pub use untracked::{plan as plan_untracked, remove_empty_directories};

/// The reason why a stash was not created or not restored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// A state that only the real Git supports.
    #[error("{0} are not supported")]
    Unsupported(&'static str),
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Objects(#[from] repo::objects::Error),
    #[error(transparent)]
    Plan(#[from] crate::checkout::PlanError),
    #[error(transparent)]
    File(#[from] crate::add::Error),
    #[error(transparent)]
    Trees(#[from] WriteTreeError),
    #[error(transparent)]
    Record(#[from] crate::add::RecordError),
    #[error("cannot examine '{path}': {}", sys::reason(.source))]
    Examine { path: bstr::BString, source: std::io::Error },
}
