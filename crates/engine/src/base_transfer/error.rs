use std::{io, path::PathBuf};

use bstr::BString;
use format::{ObjectId, base_files};

use crate::{fetch, look::LookError, pack_indexing::incoming, workspace::base};

/// Why a base was not pushed, pulled or pruned. `remote` is the address, or that of a file there.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Remote(base_store::Error),
    #[error("{remote} has no base of commit {commit}; push it, or name another commit")]
    NoBase { remote: String, commit: ObjectId },
    #[error("the base of commit {commit} was pruned from {remote} while it was read")]
    Pruned { remote: String, commit: ObjectId },
    /// A manifest names a file that is not there.
    #[error(
        "{remote} lacks the file {path}, which the base of commit {commit} needs; push the base again to \
         mend it"
    )]
    Lacks { remote: String, path: String, commit: ObjectId },
    #[error("{remote}: the record '{name}' is damaged: {source}")]
    Record { remote: String, name: String, source: base_files::Malformed },
    #[error("{remote}: the record '{name}' is damaged: {reason}")]
    WrongRecord { remote: String, name: String, reason: String },
    #[error("{remote}: the record '{name}' is refused: {reason}")]
    Untrusted { remote: String, name: String, reason: String },
    /// Nothing of the file was used.
    #[error("{remote}: the file {path} is damaged: {reason}; remove it there and push the base again")]
    Damaged { remote: String, path: String, reason: String },
    #[error("{remote}: the base of commit {commit} lacks the object {oid}; push the base again to mend it")]
    Incomplete { remote: String, commit: ObjectId, oid: ObjectId },
    #[error(
        "{remote}: the base of commit {commit} lacks the content of '{path}' ({oid}), and the repository \
         has no promisor remote to ask for it"
    )]
    NoContent { remote: String, commit: ObjectId, path: BString, oid: ObjectId },
    #[error("{remote} keeps bases of a repository with other hashes ({theirs}, not {ours})")]
    Hash { remote: String, ours: &'static str, theirs: &'static str },
    #[error("the object {oid} is no {expected}")]
    Kind { oid: ObjectId, expected: &'static str },
    #[error("the content of '{path}' in the repository does not have its name {oid}; 'git fsck' says more")]
    WrongName { path: BString, oid: ObjectId },
    #[error("cannot read the object {oid}: {source}")]
    Object { oid: ObjectId, source: Box<repo::objects::Error> },
    #[error("cannot read the trees of {commit}: {source}")]
    Trees { commit: ObjectId, source: Box<LookError> },
    #[error(transparent)]
    Repository(#[from] repo::Error),
    #[error(transparent)]
    Frame(#[from] base_files::frame::Error),
    #[error("the contents do not form a table: {0}")]
    Table(#[from] base_files::table::Error),
    #[error("the signature of the manifest could not be made: {0}")]
    Sign(String),
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot add the contents from {remote}: {source}")]
    Contents { remote: String, source: Box<base::Error> },
    #[error(transparent)]
    Base(Box<base::Error>),
    #[error("cannot take the pack {path} from {remote}: {source}")]
    Pack { remote: String, path: String, source: Box<incoming::Error> },
    #[error(transparent)]
    Connected(fetch::connected::Error),
    #[error(transparent)]
    Shallow(#[from] fetch::shallow::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Name(#[from] base_files::BadId),
}

impl Error {
    /// Returns true if the base at the remote is at fault, and not the way there or this host.
    pub fn is_flaw(&self) -> bool {
        match self {
            Error::Remote(error) => matches!(error, base_store::Error::Wrong { .. }),
            Error::NoBase { .. }
            | Error::Pruned { .. }
            | Error::Lacks { .. }
            | Error::Record { .. }
            | Error::WrongRecord { .. }
            | Error::Untrusted { .. }
            | Error::Damaged { .. }
            | Error::Incomplete { .. }
            | Error::NoContent { .. }
            | Error::Pack { .. } => true,
            _ => false,
        }
    }
}

impl From<base_store::Error> for Error {
    fn from(error: base_store::Error) -> Error {
        match error {
            base_store::Error::Interrupted => Error::Interrupted,
            error => Error::Remote(error),
        }
    }
}

impl From<base::Error> for Error {
    fn from(error: base::Error) -> Error {
        match error {
            base::Error::Interrupted => Error::Interrupted,
            error => Error::Base(Box::new(error)),
        }
    }
}
