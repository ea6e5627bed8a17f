//! Moves a workspace to another base: the worktree is switched, and the upper layer keeps only the
//! remaining differences.
//!
//! Order:
//!
//! 1. [`View::read`] reads the upper layer. The caller then plans the switch, by the rules of `git
//!    switch`.
//! 2. [`Layout::of`] computes the new upper layer from the plan, without accessing the disk.
//! 3. [`Staged::prepare`] creates the new upper layer in `upper.new`, with everything that is not
//!    in the old one, and stages the new index. Until here, killing the process changes nothing.
//! 4. The caller unmounts. [`Staged::is_current`] checks if the upper layer has changed since step
//!    1.
//! 5. [`Staged::commit`] writes the journal. From here on, the rebase can only be completed.
//! 6. [`carry_out`] moves files from the old upper layer to the new one, which then replaces it, as
//!    a new newer layer does. The record gets the new base, and the index is installed.
//! 7. The caller moves HEAD. [`conclude`] removes the journal and the old upper layer.
//!
//! After the process was killed, [`Journal::read`] finds the journal. Steps 6 and 7 are idempotent:
//! each checks what is already done.

mod journal;
mod layout;
mod stage;
mod walk;

use std::{
    io,
    path::{Path, PathBuf},
};

pub use journal::{Head, Journal, carry_out, conclude, forget};
pub use layout::{Inputs, Layout};
pub use stage::{Staged, View};
pub use walk::{Below, Node, Stamp, Upper, XattrNamespace};

/// A failure of a rebase.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the journal '{}' is damaged", .path.display())]
    Damaged { path: PathBuf },
    #[error(transparent)]
    Index(#[from] store::index::LoadError),
    #[error(transparent)]
    NewIndex(#[from] store::index::CommitError),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Record(#[from] super::record::Error),
    #[error(transparent)]
    Base(#[from] super::base::Error),
    #[error(transparent)]
    Newer(#[from] super::newer::Error),
}

impl Error {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }
}
