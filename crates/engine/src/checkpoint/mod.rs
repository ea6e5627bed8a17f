//! Checkpoints: the state of a worktree and its index as objects, and the way back to one.
//!
//! - [`snapshot()`] stores the present state: tracked and untracked files, and the index.
//! - [`State`] is what it stored; [`write()`] and [`read`] are the tree of one entry.
//! - [`plan()`] plans the files of another state, as a plan of [`crate::checkout`].
//! - [`settle`] gives the index the content that it had in that state, after the files.
//!
//! The caller publishes the objects before it plans, and records the present state before it
//! carries a plan out. Design: docs/design/checkpoint.md.

mod content;
mod find;
mod snapshot;
mod state;
mod travel;

use bstr::BString;
use format::{Mode, ObjectId};

use crate::{add, look::LookError};

pub use snapshot::{LeftOut, Reason, Scope, Snapshot, snapshot};
pub use state::{State, read, write};
pub use travel::{Planned, Route, plan, settle, untracked_since};

/// Why a state cannot be stored, or cannot be restored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Objects(#[from] repo::objects::Error),
    #[error(transparent)]
    File(#[from] add::Error),
    #[error(transparent)]
    Trees(#[from] add::WriteTreeError),
    #[error(transparent)]
    Record(#[from] add::RecordError),
    #[error("interrupted")]
    Interrupted,
    /// An object is not the tree of an entry.
    #[error("{0} is not a checkpoint")]
    NoEntry(ObjectId),
    /// An object is not a list of entries that will be added.
    #[error("{0} is not a list of paths to be added")]
    NoList(ObjectId),
    #[error("the checkpoint has the invalid path '{0}'")]
    InvalidPath(BString),
    /// The file differs from its index entry, and the examination did not report that.
    #[error("'{0}' was changed while it was examined; try again")]
    Changed(BString),
    /// A path that the plan would change cannot be examined or read, so no entry holds it.
    #[error("'{path}' cannot be read, so no checkpoint holds it: {reason}")]
    Unreadable { path: BString, reason: String },
    /// Without a readable file of rules, ignored files would count as untracked ones.
    #[error("cannot read the ignore rules in '{path}': {reason}")]
    UnreadableRules { path: BString, reason: String },
    /// The change of a file is hidden from Git, so no entry holds it.
    #[error("'{0}' is marked assume-unchanged and differs from the index, so no checkpoint holds it")]
    AssumedUnchanged(BString),
    /// A file would take the place of the directory that stays.
    #[error("'{0}' is in the way: it is the current directory, or has it inside")]
    CurrentDirectory(BString),
    /// An object that the restored files or the index need is missing.
    #[error("the object {oid} of '{path}' is missing")]
    Missing { path: BString, oid: ObjectId },
    /// Something that no entry holds is in the place of a file.
    #[error("'{0}' is in the way: it is ignored, a repository or no file, so no checkpoint holds it")]
    InTheWay(BString),
}

impl Error {
    /// Returns true if an object of the state to restore is missing or damaged.
    pub fn is_about_objects(&self) -> bool {
        matches!(
            self,
            Error::Look(LookError::Object(_) | LookError::NoTree(_) | LookError::MalformedTree(_))
                | Error::Objects(_)
                | Error::NoEntry(_)
                | Error::NoList(_)
                | Error::Missing { .. }
        )
    }
}

/// The mode and the object of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    mode: Mode,
    oid: ObjectId,
}
