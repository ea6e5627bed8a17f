//! Stash: the local changes as commits, and their return.
//!
//! Order of a push: `changes` finds every path in which HEAD, the index and the worktree differ,
//! by one look at each; [`snapshot()`] stores the trees; the caller makes them durable and records
//! the stash; then [`reset()`] plans the way back to HEAD, as a plan of [`crate::checkout`].
//!
//! Order of an apply: [`merge()`] plans a merge that no content decides; `untracked` plans the
//! files that were not tracked; [`sync()`] makes the files durable before their stash is dropped.
//!
//! A merge of contents, and rare states that have rules of their own in Git, are
//! [`Error::Unserved`], before anything in the worktree is changed.

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

/// Why the engine did not make a stash, or did not bring it back.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The real Git serves these.
    #[error("{0} are not supported")]
    Unserved(&'static str),
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
