//! The repository: the only crate that knows gix; and reading objects on our own hot path.
//!
//! Nothing of gix shows in the public interface.

use bstr::{BStr, BString};
use format::{HashKind, Mode, ObjectId, index::Index};
use std::path::{Path, PathBuf};

pub mod fetch;
pub mod objects;
pub mod pack;

/// How to find the repository: `-C`, `--git-dir`, `--work-tree`, `-c`, and the `GIT_*` variables,
/// all passed in as values.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct OpenOptions {
    pub cwd: PathBuf,
    pub git_dir: Option<PathBuf>,
    pub work_tree: Option<PathBuf>,
    /// `-c key=value`, in order.
    pub config: Vec<BString>,
    /// The environment, as a whole; `GIT_*`, `HOME`, `XDG_CONFIG_HOME` are looked up here.
    pub env: std::collections::HashMap<std::ffi::OsString, std::ffi::OsString>,
}

/// An open repository. `Sync`: shared by worker threads.
pub struct Repository {}

/// Why a repository or something in it could not be read. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /** Git's wording, without `fatal: ` */
    pub message: String,
}

/// Where HEAD points.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Head {
    Branch { name: BString, oid: ObjectId },
    Unborn { name: BString },
    Detached { oid: ObjectId },
}

#[allow(unused_variables)]
impl Repository {
    /// Discovers and opens. Refuses unsafe ownership (`safe.directory`), unknown extensions, newer
    /// format versions and reftable by name, in Git's words.
    pub fn open(options: &OpenOptions) -> Result<Repository, Error> {
        todo!()
    }
    pub fn git_dir(&self) -> &Path {
        todo!()
    }
    pub fn common_dir(&self) -> &Path {
        todo!()
    }
    /// `None` for a bare repository.
    pub fn work_tree(&self) -> Option<&Path> {
        todo!()
    }
    /// Path of the cwd below the worktree with a trailing slash, or empty.
    pub fn prefix(&self) -> &BStr {
        todo!()
    }
    pub fn hash(&self) -> HashKind {
        todo!()
    }
    pub fn config_str(&self, key: &str) -> Option<BString> {
        todo!()
    }
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        todo!()
    }
    pub fn config_int(&self, key: &str) -> Result<Option<i64>, Error> {
        todo!()
    }
    pub fn config_all(&self, key: &str) -> Vec<BString> {
        todo!()
    }
    pub fn head(&self) -> Result<Head, Error> {
        todo!()
    }
    /// Value of a full ref name, symbolic refs followed; `None` if missing.
    pub fn find_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        todo!()
    }
    /// All refs below a prefix, sorted.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(BString, ObjectId)>, Error> {
        todo!()
    }
    /// Any revision expression, `-` and `@{-N}` included.
    pub fn rev_parse(&self, spec: &BStr) -> Result<ObjectId, Error> {
        todo!()
    }
    /// The tree of a commit-ish or tree-ish.
    pub fn tree_of(&self, id: ObjectId) -> Result<ObjectId, Error> {
        todo!()
    }
    /// Shortest unique abbreviation (`core.abbrev`).
    pub fn abbreviate(&self, id: ObjectId) -> Result<String, Error> {
        todo!()
    }
    /// First line(s) of the message as Git's `%s`.
    pub fn subject(&self, commit: ObjectId) -> Result<BString, Error> {
        todo!()
    }
    /// Commits in `left...right`: (only left, only right), through the commit-graph if there is one.
    pub fn ahead_behind(&self, left: ObjectId, right: ObjectId) -> Result<(usize, usize), Error> {
        todo!()
    }
    /// `user.*`, `GIT_COMMITTER_*`, as the reflog wants it.
    pub fn committer(&self) -> Result<BString, Error> {
        todo!()
    }
    /// The object database.
    pub fn objects(&self) -> &objects::Objects {
        todo!()
    }
}

#[allow(unused_variables)]
/// In-process conversions and external filters (`gix-filter` behind it).
pub mod convert {
    use super::*;
    /// What a path needs on its way to the worktree.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum Class {
        /// Bytes as they are.
        None,
        /// eol, ident, working-tree-encoding: any thread, in memory.
        InProcess,
        /// A smudge command or a long-running process.
        External,
    }
    /// Shared by all threads. Attributes are read from the index given (Git's checkout direction),
    /// then the worktree. If no attribute file and no configuration can concern conversion, every
    /// path is `Class::None` at no cost.
    pub struct Converter {}
    /// One per thread.
    pub struct Worker {}
    impl Converter {
        pub fn for_checkout(repo: &Repository, index: &Index) -> Result<Converter, Error> {
            todo!()
        }
        pub fn worker(&self) -> Worker {
            todo!()
        }
    }
    impl Worker {
        pub fn class(&mut self, path: &BStr, mode: Mode) -> Result<Class, Error> {
            todo!()
        }
        /// Returns the bytes to write: `blob` itself or `out`.
        pub fn to_worktree<'a>(
            &mut self,
            path: &BStr,
            oid: ObjectId,
            blob: &'a [u8],
            out: &'a mut Vec<u8>,
        ) -> Result<&'a [u8], Error> {
            todo!()
        }
        /// The other direction, for comparing a file with its blob.
        pub fn to_git<'a>(
            &mut self,
            path: &BStr,
            file: &'a [u8],
            out: &'a mut Vec<u8>,
        ) -> Result<&'a [u8], Error> {
            todo!()
        }
    }
}
