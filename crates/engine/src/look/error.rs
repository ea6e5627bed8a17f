use std::{io, sync::Arc};

use bstr::{BStr, BString};
use format::ObjectId;

use super::{ignore, sparse};

/// The reason why a path or an object could not be read or compared. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// An object cannot be read.
    #[error(transparent)]
    Object(#[from] repo::objects::Error),
    /// An object is missing, or is not a tree, where a tree is expected.
    #[error("unable to read tree ({0})")]
    NoTree(ObjectId),
    /// A tree object cannot be parsed, or its entries are out of order.
    #[error("malformed tree object {0}")]
    MalformedTree(ObjectId),
    /// Configuration, attributes or filters could not be read.
    #[error(transparent)]
    Repo(#[from] repo::Error),
    /// The attributes or filters that convert file contents cannot be loaded. All workers share
    /// the error.
    #[error("{0}")]
    Converter(#[source] Arc<repo::Error>),
    /// A path of the worktree cannot be examined.
    #[error("cannot stat '{path}': {}", sys::reason(.source))]
    #[allow(missing_docs)]
    Examine { path: BString, source: io::Error },
    /// An ignore file cannot be read.
    #[error(transparent)]
    Ignores(#[from] ignore::Unreadable),
    /// The status of a submodule cannot be determined.
    #[error("'git status --porcelain=2' failed in submodule {path}: {source}")]
    #[allow(missing_docs)]
    Submodule { path: BString, source: Box<LookError> },
    /// The path of a submodule is a symbolic link.
    #[error("expected submodule path '{path}' not to be a symbolic link")]
    #[allow(missing_docs)]
    LinkedSubmodule { path: BString },
    /// The patterns of a sparse worktree cannot be read.
    #[error(transparent)]
    Sparse(#[from] sparse::LoadError),
    /// Trees are nested deeper than `core.maxTreeDepth`.
    #[error("exceeded maximum allowed tree depth")]
    TooDeep,
    /// The trees have more paths than the memory can hold.
    #[error("out of memory: the trees have too many paths")]
    TooManyPaths,
    /// A signal arrived.
    #[error("{}", sys::interrupt::STOPPED)]
    Stopped,
    /// A tree contains a path that is invalid in an index.
    #[error("invalid path '{0}'")]
    InvalidPath(BString),
    /// There is no worktree to examine.
    #[error("this operation must be run in a work tree")]
    NoWorktree,
    /// The index of a submodule cannot be read.
    #[error(transparent)]
    Index(#[from] store::index::LoadError),
    /// The caller refuses to change a submodule. Contains the message, in Git's words.
    #[error("{0}")]
    SubmoduleRefused(BString),
    /// A feature of Git that sapwood does not support yet.
    #[error("{0} are not supported yet")]
    Unsupported(&'static str),
}

impl LookError {
    /// Returns the error for a file that cannot be examined, or whose reading a signal stopped.
    pub(crate) fn examine(path: &BStr, source: io::Error) -> LookError {
        if sys::interrupt::is_stop(&source) {
            return LookError::Stopped;
        }
        LookError::Examine { path: path.to_owned(), source }
    }
}

/// Copies an I/O error, which is not `Clone`, for the report of another path.
pub(crate) fn copy_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
