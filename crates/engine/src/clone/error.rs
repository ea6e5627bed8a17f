//! The errors of a clone.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::BString;
use sys::{Refused, UserPath};

use super::{
    AlternatesError, ObjectsError, RefsError, ResumeError, SelectionError, SkeletonError, SourceError,
};

/// The reason why there is no clone. Messages are Git's, where Git has them. No file of the clone
/// is left behind.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("No directory name could be guessed.\nPlease specify a directory on the command line")]
    NoName,
    #[error("destination path '{0}' already exists and is not an empty directory.")]
    DestinationExists(BString),
    #[error("repository path '{0}' already exists and is not an empty directory.")]
    RepositoryExists(BString),
    #[error("working tree '{0}' already exists.")]
    WorkTreeExists(UserPath),
    #[error("{}", refusal_message(.path, *.refused))]
    Refused { path: BString, refused: Refused },
    #[error("could not create leading directories of '{}'", .path.display())]
    LeadingDirectories { path: PathBuf, source: io::Error },
    #[error("could not create work tree dir '{path}'")]
    CreateWorkTree { path: BString, source: io::Error },
    #[error(transparent)]
    Connected(#[from] crate::fetch::connected::Error),
    #[error("'{0}' is not a valid remote name")]
    RemoteName(BString),
    #[error("transport: invalid depth option '{0}'")]
    DepthOption(BString),
    #[error("clone --recursive is not compatible with both --reference and --reference-if-able")]
    BothReferences,
    /// `git sparse-checkout` has printed the reason.
    #[error("failed to initialize sparse-checkout")]
    Sparse,
    #[error("unknown hash algorithm '{0}'")]
    Hash(BString),
    #[error("unknown ref storage format{0}")]
    RefFormat(String),
    #[error("ref format 'reftable' is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    Reftable,
    #[error("depth {0} is not a positive number")]
    Depth(BString),
    #[error("the option '--also-filter-submodules' requires '--{0}'")]
    Requires(&'static str),
    #[error("options '--revision' and '--{0}' cannot be used together")]
    Revision(&'static str),
    /// [`super::Seed`] knows the reason.
    #[error("the base did not come")]
    Seed,
    #[error("cannot repack to clean up")]
    Repack,
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Resume(#[from] ResumeError),
    #[error(transparent)]
    Alternates(#[from] AlternatesError),
    #[error(transparent)]
    Skeleton(#[from] SkeletonError),
    #[error(transparent)]
    Config(#[from] store::config::Error),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error(transparent)]
    Refs(#[from] RefsError),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Shared(#[from] store::BadSharedRepository),
    #[error("interrupted")]
    Interrupted,
}

/// Returns a conversion of a failed call `what` on `path`.
pub(super) fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

fn refusal_message(path: &BString, refused: Refused) -> String {
    match refused {
        Refused::Empty => refused.to_string(),
        Refused::TooLong => format!("Invalid path '{path}': {refused}"),
    }
}

impl Error {
    /// Returns the warnings that Git prints before this error.
    pub fn warnings(&self) -> &[BString] {
        match self {
            Error::Repo(error) | Error::Objects(ObjectsError::Repo(error)) => error.warnings(),
            _ => &[],
        }
    }

    /// Returns true if a transfer may have broken off: by the network, the server, a signal, or a
    /// full disk.
    pub(super) fn is_interrupted_transfer(&self) -> bool {
        match self {
            Error::Interrupted | Error::Connected(crate::fetch::connected::Error::Interrupted) => true,
            Error::Objects(error) => error.is_interrupted_transfer(),
            _ => false,
        }
    }

    /// Returns true if Git refuses with the same message before it changes anything.
    pub fn is_early_refusal(&self) -> bool {
        matches!(
            self,
            Error::Source(SourceError::Missing(_) | SourceError::Refused(_))
                | Error::Refused { .. }
                | Error::Depth(_)
                | Error::DestinationExists(_)
                | Error::RepositoryExists(_)
                | Error::WorkTreeExists(_)
        )
    }
}
