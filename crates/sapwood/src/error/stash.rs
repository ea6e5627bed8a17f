//! The errors of the operation `stash`.

use std::io;

use bstr::{BString, ByteSlice as _};

/// Why a stash entry was not created, found, applied or dropped.
#[derive(Debug, thiserror::Error)]
pub enum StashError {
    /// There are no stash entries.
    #[error("No stash entries found.")]
    NoEntries,
    /// A revision is not an entry of the stash, so it cannot be dropped.
    #[error("'{0}' is not a stash reference")]
    NotAnEntry(BString),
    /// Paths are unmerged.
    #[error("could not write index")]
    Unmerged(Vec<BString>),
    /// The entry cannot be recorded. Nothing else was changed.
    #[error("Cannot save the current status")]
    NotRecorded(#[source] store::refs::Error),
    /// The entry cannot be removed.
    #[error("{revision}: Could not drop stash entry")]
    NotDropped {
        /// The entry.
        revision: BString,
        /// The reason.
        source: store::refs::Error,
    },
    /// The entries cannot be removed.
    #[error(transparent)]
    NotCleared(store::refs::Error),
    /// A file that was restored cannot be made durable, so its entry stays.
    #[error("cannot sync {}: {}", subject(.path), sys::reason(.source))]
    NotDurable {
        /// The file; `None` for the whole worktree.
        path: Option<BString>,
        /// The reason.
        source: io::Error,
    },
    /// The changes cannot be stored or merged.
    #[error(transparent)]
    Engine(#[from] engine::stash::Error),
}

fn subject(path: &Option<BString>) -> BString {
    match path {
        Some(path) => crate::text!("'", path.as_bytes(), "'"),
        None => "the worktree".into(),
    }
}
