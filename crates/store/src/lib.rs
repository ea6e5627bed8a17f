//! Durable writing: every file inside the Git directory is written through this crate, by one path:
//! lock, write, (sync), rename. What survives what is in `docs/design/durability.md`.

use format::{HashKind, index::Index};
use std::{
    io,
    path::{Path, PathBuf},
};

pub mod config;
mod fsync;
mod hash_writer;
mod lock;
pub mod refs;
mod shared;

pub use fsync::{Components, Fsync, Method};
pub use hash_writer::{HashWriter, Hashing};
pub use lock::{Holder, Lock, LockOptions, Wait};
pub use shared::{BadSharedRepository, SharedRepository};

/// Why a file could not be locked or replaced. The message is Git's where Git has one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// Somebody else holds the lock, or left it behind.
    #[error("Unable to create '{}': File exists.\n\n{holder}", .path.display())]
    Locked { path: PathBuf, holder: Holder },
    #[error("Unable to create '{}': {}", .path.display(), sys::reason(.source))]
    CannotLock { path: PathBuf, source: io::Error },
    #[error("could not {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    /// One line on what to do about it, for people.
    pub fn advice(&self) -> Option<String> {
        match self {
            Error::Locked { path, .. } => Some(format!(
                "if no other process uses the repository, remove the lock file: rm '{}'",
                path.display()
            )),
            _ => None,
        }
    }
}

#[allow(unused_variables)]
/// Reading and writing the index file.
pub mod index {
    use super::*;
    /// Reads `<git-dir>/index` (with its shared index, if split). A missing file is an empty index.
    pub fn load(path: &Path, hash: HashKind, options: &ReadOptions) -> Result<Index, LoadError> {
        todo!()
    }
    /// `index.threads` and friends.
    #[derive(Clone, Debug, Default)]
    pub struct ReadOptions {
        /** 0 = all cores */
        pub threads: usize,
        /** verify the trailer */
        pub verify: bool,
    }
    /// `index.version`, `index.skipHash`, `index.threads`, `core.splitIndex`, fsync.
    #[derive(Clone, Debug, Default)]
    pub struct WriteOptions {
        /** see git-config */
        pub version: Option<u32>,
        pub skip_hash: bool,
        pub threads: usize,
    }
    /// Takes `index.lock`. Take it before loading, hold it until commit.
    pub fn lock(path: &Path) -> Result<Lock, Error> {
        todo!()
    }
    /// Smudges racy entries, writes into the lock, renames.
    pub fn commit(lock: Lock, index: &mut Index, options: &WriteOptions, fsync: &Fsync) -> Result<(), Error> {
        todo!()
    }
    /// Why an index could not be read.
    #[derive(Debug, thiserror::Error)]
    #[error("index")]
    pub struct LoadError;
}

/// Writes `content` to `path` through its lock, synced if `component` is hardened. For config files
/// and the like, which belong to no component, pass [`Components::empty`].
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
