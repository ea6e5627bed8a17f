//! Another base for a workspace: the worktree is switched, and the upper layer keeps only what
//! still differs.
//!
//! Order:
//!
//! 1. [`View::read`]: the upper layer is read; then the caller plans the switch, by the rules of
//!    `git switch`;
//! 2. [`Layout::of`]: the new upper layer follows from the plan, without looking at the disk;
//! 3. [`Staged::prepare`]: the new upper layer is begun aside (`upper.new`), with everything that
//!    is not in the old one; the new index is written aside. Until here a kill changes nothing.
//! 4. The caller unmounts. [`Staged::is_current`] finds out if the upper layer changed since step
//!    1.
//! 5. [`Staged::commit`] writes the journal. From here on, the rebase only goes forward.
//! 6. [`carry_out`]: files move from the old upper layer to the new one, which then takes its
//!    place; the record names the new base; the index is installed.
//! 7. The caller moves HEAD. [`conclude`] removes the journal and the old upper layer.
//!
//! After a kill [`Journal::read`] finds the journal. Steps 6 and 7 may be repeated as often as
//! needed: each looks at what is there.

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
pub use walk::{Below, Marks, Node, Stamp, Upper};

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
}

impl Error {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }
}
