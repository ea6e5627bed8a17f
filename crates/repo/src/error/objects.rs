//! Errors of reading commits, trees and tags.

use std::{path::PathBuf, sync::Arc};

use bstr::BString;
use format::{ObjectId, hash::Prefix};

use objects::PackError;

/// An object cannot be read, or is not of the required type.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object database cannot read the object.
    #[error(transparent)]
    Read(Arc<objects::Error>),
    /// The object is not a commit.
    #[error("object {0} is not a commit")]
    NotACommit(ObjectId),
    /// The object is not a tree and does not lead to one.
    #[error("object {0} is not a tree")]
    NotATree(ObjectId),
    /// The commit is malformed.
    #[error("bad commit object {0}")]
    BadCommit(ObjectId),
    /// The tag is malformed.
    #[error("bad tag object {0}")]
    BadTag(ObjectId),
    /// The tree is malformed.
    #[error("malformed tree object {0}")]
    BadTree(ObjectId),
    /// A line of the file `shallow` is not an object name.
    #[error("bad shallow line: {0}")]
    BadShallowLine(BString),
    /// The objects of a pack cannot be counted.
    #[error("unable to count objects in {pack}: {}", .source.reason())]
    Count {
        /// The pack or its index.
        pack: PathBuf,
        /// The problem of the pack.
        source: PackError,
    },
    /// The objects of a pack whose names begin with a prefix cannot be listed.
    #[error("unable to look up '{prefix}' in {pack}: {}", .source.reason())]
    Lookup {
        /// The prefix.
        prefix: Prefix,
        /// The pack or its index.
        pack: PathBuf,
        /// The problem of the pack.
        source: PackError,
    },
}

impl ObjectError {
    pub(super) fn is_unreadable(&self) -> bool {
        match self {
            ObjectError::Read(error) => error.is_unreadable(),
            ObjectError::BadTree(_)
            | ObjectError::BadShallowLine(_)
            | ObjectError::Count { .. }
            | ObjectError::Lookup { .. } => true,
            ObjectError::NotACommit(_)
            | ObjectError::NotATree(_)
            | ObjectError::BadCommit(_)
            | ObjectError::BadTag(_) => false,
        }
    }
}

impl From<objects::Error> for ObjectError {
    fn from(error: objects::Error) -> ObjectError {
        ObjectError::Read(Arc::new(error))
    }
}
