//! Durable writing. Every file inside the Git directory is written through this crate, in the same
//! steps: lock, write, sync (by policy), rename. `docs/design/durability.md` lists the data that
//! survive each failure.

use std::{
    io,
    path::{Path, PathBuf},
};

pub mod claims;
pub mod commit_graph;
pub mod config;
pub mod fold;
mod fsync;
mod hash_writer;
pub mod index;
mod lock;
pub mod midx;
pub mod objects;
pub mod pack;
pub mod refs;
mod shared;
pub mod side_by_side;
mod temp_file;
pub mod together;

pub use fsync::{Components, Configured as ConfiguredFsync, Fsync, Method, OBJECT_FILES_ARE_DEPRECATED};
pub use hash_writer::{Checkpoint, HashWriter, Hashing, Truncate};
pub use lock::{Holder, Lock, LockOptions, Wait};
pub use shared::{BadSharedRepository, SharedRepository};

/// The reason why a file could not be locked or replaced. The message is Git's where Git has one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// Another process holds the lock, or left it behind.
    #[error("Unable to create '{}': File exists.\n\n{holder}", .path.display())]
    Locked { path: PathBuf, holder: Holder },
    #[error("Unable to create '{}': {}", .path.display(), sys::reason(.source))]
    CannotLock { path: PathBuf, source: io::Error },
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("insufficient permission for adding an object to repository database {}", .objects.display())]
    NoPermission { objects: PathBuf },
    #[error("unable to create temporary file: {}", sys::reason(.source))]
    NoTemporaryFile { source: io::Error },
    /// An error of a loose object. `what` is Git's wording.
    #[error("{what}: {}", sys::reason(.source))]
    NotWritten { what: &'static str, source: io::Error },
    #[error("fsync error on '{}': {}", .path.display(), sys::reason(.source))]
    NotSynced { path: PathBuf, source: io::Error },
    #[error("unable to write file {}: {}", .path.display(), sys::reason(.source))]
    NotRenamed { path: PathBuf, source: io::Error },
    /// An object could not be stored, so none is published.
    #[error("unable to publish objects: some were not stored")]
    Incomplete,
    /// A device, FIFO or socket, which would be replaced by a file.
    #[error("'{}' is not a regular file, and is not replaced", .path.display())]
    NotAFile { path: PathBuf },
    /// A file with this name and other content exists. It is never overwritten.
    #[error("files '{}' and '{}' differ in contents", .new.display(), .old.display())]
    Differs { new: PathBuf, old: PathBuf },
}

impl Error {
    /// Returns a line of advice for the user.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::Locked { path, .. } => Some(format!(
                "if no other process uses the repository, remove the lock file: rm -f '{}'",
                path.display().to_string().replace('\'', r"'\''")
            )),
            _ => None,
        }
    }
}

/// Returns an error if a mapped file could not be read and no reader has reported it yet. Data that
/// may depend on such a file must not be published.
pub(crate) fn check_mapped_files() -> Result<(), Error> {
    match sys::unreported_unreadable_map() {
        None => Ok(()),
        Some((path, source)) => Err(Error::Io { what: "read", path, source }),
    }
}

/// Makes changes that do not count for [`sys::changes`]: those of locks and temporary files, which
/// are undone when their owner is dropped, and of empty directories, which Git does not notice.
#[expect(clippy::disallowed_methods, reason = "a command that is dropped leaves nothing of this behind")]
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    sys::changes::aside(work)
}

/// Replaces the file at `path` by `content` under its lock. Syncs it if `component` is hardened.
/// Pass [`Components::empty`] for config files and other files without a component.
pub fn replace(
    path: &Path,
    content: &[u8],
    options: &LockOptions,
    fsync: &Fsync,
    component: Components,
) -> Result<(), Error> {
    let mut lock = Lock::take(path, options)?;
    lock.write(content)?;
    lock.commit_synced(fsync, component)
}
