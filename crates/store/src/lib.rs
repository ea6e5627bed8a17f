//! Durable writing: every file inside the Git directory is written through this crate, by one path:
//! lock, write, (sync), rename.

use bstr::BString;
use format::{HashKind, ObjectId, index::Index};
use std::{
    io,
    path::{Path, PathBuf},
};

/// `core.fsync`, `core.fsyncMethod`: which components are synced and how. Parsed by `repo`'s caller
/// from the configuration values, defaults as Git's (`committed,loose-object`... see git-config).
#[derive(Clone, Debug)]
pub struct Fsync {/* components, method */}

/// A `<path>.lock` created with O_EXCL; dropped without `commit`, it is removed again.
pub struct Lock {/* path, file */}

/// Errors name the file. `Locked` carries the lock's path and Git's advice.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("Unable to create '{}': File exists.", .path.display())]
    Locked { path: PathBuf },
    #[error("could not {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
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

#[allow(unused_variables)]
/// Refs, files backend: loose refs, packed-refs, HEAD, reflogs. Worktree-specific refs (HEAD,
/// ORIG_HEAD, …) live in the git dir, the rest in the common dir.
pub mod refs {
    use super::*;
    /// Where and how refs are written.
    #[derive(Clone, Debug)]
    #[allow(missing_docs)]
    pub struct Options {
        pub git_dir: PathBuf,
        pub common_dir: PathBuf,
        pub hash: HashKind,
        /// `<name> <<email>> <seconds> <zone>` for reflogs.
        pub committer: BString,
        /// `core.logAllRefUpdates`
        pub log: LogPolicy,
        pub fsync: Fsync,
    }
    /// `core.logAllRefUpdates` resolved against `core.bare`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum LogPolicy {
        Never,
        Standard,
        Always,
    }
    /// One change. All changes of a transaction are locked and checked before the first is made.
    #[derive(Clone, Debug)]
    #[allow(missing_docs)]
    pub enum Change {
        /// Point `name` (not dereferenced) at `new`; if HEAD is symbolic to `name`, HEAD's reflog gets the line too.
        Update {
            name: BString,
            new: ObjectId,
            expected: Expected,
            message: BString,
        },
        /// Make `name` symbolic to `target`, reflog line from its old to its new value.
        Symbolic {
            name: BString,
            target: BString,
            message: Option<BString>,
            old: Option<ObjectId>,
            new: Option<ObjectId>,
        },
        Delete {
            name: BString,
            expected: Expected,
        },
    }
    /// The value a ref must have before the change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum Expected {
        Any,
        Missing,
        Is(ObjectId),
    }
    /// Applies all changes, or none.
    pub fn apply(options: &Options, changes: Vec<Change>) -> Result<(), Error> {
        todo!()
    }
}

#[allow(unused_variables)]
/// Writes `content` to `path` through its lock (config files, packed-refs, ORIG_HEAD and the like).
pub fn replace(path: &Path, content: &[u8], fsync: &Fsync) -> Result<(), Error> {
    todo!()
}
