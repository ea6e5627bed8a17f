use std::{io, path::PathBuf};

use bstr::BString;
use format::ObjectId;

use super::Kind;
use crate::{look::LookError, workspace::backend::Backend};

/// The reason why a base cannot be used, created or removed. Partial results are removed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Configuration, attributes or filters could not be read.
    #[error(transparent)]
    Repository(#[from] repo::Error),
    /// Missing objects of a partial clone cannot be fetched.
    #[error(transparent)]
    Objects(#[from] repo::objects::Error),
    /// A tree of the commit cannot be read.
    #[error(transparent)]
    Tree(#[from] LookError),
    #[error("cannot read the content of '{path}': {source}")]
    Content { path: BString, source: Box<repo::objects::Error> },
    #[error("'{path}' names {oid}, which is no blob")]
    NotABlob { path: BString, oid: ObjectId },
    #[error("cannot convert the content of '{path}': {source}")]
    Convert { path: BString, source: Box<repo::Error> },
    /// The directory is not writable, and does not contain the base.
    #[error(
        "'{}' cannot be written and holds no base of kind {} of tree {tree}; add it where the directory can be \
         written ('sapwood workspace base add --backend {}'), or choose another one with --base-dir",
        .dir.display(), .kind.name(), backend_of(*.kind)
    )]
    ReadOnly { dir: PathBuf, kind: Kind, tree: ObjectId, source: io::Error },
    #[error("'{}' holds no base '{name}'; 'sapwood workspace base list' names them", .dir.display())]
    Missing { dir: PathBuf, name: String },
    #[error("the base '{name}' is in use by '{}'", .by.display())]
    InUse { name: String, by: PathBuf },
    #[error("the base '{name}' lies in '{}', which other base directories use; remove it there", .dir.display())]
    InAlternate { name: String, dir: PathBuf },
    /// A repository that has used bases cannot be found, so the bases that it uses are unknown.
    #[error(
        "'{}', which uses bases or contents of this directory, cannot be found; mount its disk, run this on \
         its host, or remove '{}' if it is gone for good",
        .common.display(), .entry.display()
    )]
    UserAway { common: PathBuf, entry: PathBuf },
    #[error("'{}' is damaged: {what}", .path.display())]
    Damaged { path: PathBuf, what: String },
    /// A step of the checkout failed. `message` is Git's message.
    #[error("{message}")]
    Step { message: String },
    /// The checkout could not be planned.
    #[error("the tree {tree} cannot be checked out: {source}")]
    Plan { tree: ObjectId, source: Box<crate::checkout::PlanError> },
    #[error("the tree does not fit into an image: {0}")]
    Image(String),
    /// The record of a workspace cannot be read.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::record::Error),
    #[error(transparent)]
    Config(#[from] store::config::Error),
    /// Blobs cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("interrupted")]
    Interrupted,
}

/// Returns the name of the backend for which a base of this kind is added.
fn backend_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Image => Backend::Image.name(),
        Kind::Directory => Backend::OverlayUser.name(),
    }
}
