//! Errors of opening a repository and of reading its contents.
//!
//! A variant holds the attempted operation, the path or name, and the source. `Display` is Git's
//! wording, without `fatal: `.

mod config;
mod convert;
mod discovery;
mod objects;
mod refs;
mod revision;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::BString;
use sys::{Refused, UserPath};

pub use config::ConfigError;
pub use convert::ConvertError;
pub use discovery::{DiscoveryError, Foreign, FormatError};
pub use objects::ObjectError;
pub use refs::RefError;
pub use revision::{RevisionError, UpstreamError};

/// A failure to open a repository, or to read its contents.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file or directory failed.
    #[error("{}", .attempt.failed(.path, .source))]
    Io {
        /// The attempted operation.
        attempt: Attempt,
        /// The file or directory, as messages name it.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A path that the user wrote is empty or too long.
    #[error("{}", .origin.refused(*.source))]
    Path {
        /// The place where the path is written.
        origin: PathOrigin,
        /// The reason why the path is refused.
        source: Refused,
    },
    /// No usable repository was found.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The repository has a format that Git or sapwood refuses.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A setting is malformed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting for object checks (fsck) is invalid.
    #[error(transparent)]
    Fsck(#[from] ::objects::fsck::Invalid),
    /// A ref cannot be read.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// An object cannot be read, or is not of the required type.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A revision names no object.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// A branch has no upstream, or no ref that it is pushed to.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// A file's content cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// `x@{upstream}` or `x@{push}` cannot be resolved. Git does not try to read the name in
    /// another way.
    #[error(transparent)]
    Mark(Box<Error>),
    /// An error before which Git prints warnings.
    #[error("{error}")]
    Warned {
        /// The warnings, without `warning: `.
        warnings: Vec<BString>,
        /// The error.
        error: Box<Error>,
    },
    /// An error of a caller that reads repository files itself.
    #[error("{0}")]
    Caller(String),
}

/// The operation that failed with a system error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Change to a directory.
    ChangeDirectory,
    /// Change to the directory of `core.worktree`.
    EnterWorktree,
    /// Open a configuration file, an attribute file or the worktree.
    Access,
    /// Read a file or list a directory.
    Read,
    /// Read the file `commondir`.
    ReadCommonDir,
    /// List a directory of loose refs, or follow a link in it.
    ReadLooseRefs,
    /// Read the file `packed-refs`.
    ReadPackedRefs,
    /// Stat the file `packed-refs`.
    StatPackedRefs,
    /// Read the file `shallow`.
    ReadShallow,
    /// Stat a file or directory.
    Stat,
    /// Stat `.git`.
    StatDotGit,
    /// Open a `.git` file.
    OpenGitfile,
    /// Resolve the symbolic links in a path.
    Resolve,
}

impl Attempt {
    fn failed(self, path: &Path, source: &io::Error) -> String {
        let (path, reason) = (path.display(), sys::reason(source));
        match self {
            Attempt::ChangeDirectory => format!("cannot change to '{path}': {reason}"),
            Attempt::EnterWorktree => format!("cannot chdir to '{path}': {reason}"),
            Attempt::Access => format!("unable to access '{path}': {reason}"),
            Attempt::Read | Attempt::ReadLooseRefs | Attempt::ReadShallow => {
                format!("unable to read '{path}': {reason}")
            }
            Attempt::ReadCommonDir => format!("failed to read {path}: {reason}"),
            Attempt::ReadPackedRefs => format!("couldn't read {path}: {reason}"),
            Attempt::StatPackedRefs => format!("couldn't stat {path}: {reason}"),
            Attempt::Stat => format!("failed to stat '{path}': {reason}"),
            Attempt::StatDotGit => format!("error reading '{path}': {reason}"),
            Attempt::OpenGitfile => format!("error opening '{path}': {reason}"),
            Attempt::Resolve => format!("Invalid path '{path}': {reason}"),
        }
    }

    /// Returns a function that converts a system error to an error of this attempt on `path`.
    pub(crate) fn on(self, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { attempt: self, path: path.to_owned(), source: Arc::new(source) }
    }
}

/// The place where a path is written.
#[derive(Clone, Debug)]
pub enum PathOrigin {
    /// An environment variable or an `include.path` names this configuration file.
    ConfigFile(UserPath),
    /// The environment variable of this name.
    Variable(&'static str),
    /// The content of this file `commondir`.
    CommonDir(PathBuf),
    /// `GIT_WORK_TREE` or `core.worktree` has this value.
    WorkTree(UserPath),
    /// `GIT_INDEX_FILE` has this value.
    IndexFile(UserPath),
}

impl PathOrigin {
    fn refused(&self, refused: Refused) -> String {
        match self {
            PathOrigin::ConfigFile(path) => format!("unable to access '{path}': {refused}"),
            PathOrigin::Variable(name) => format!("unable to use '{name}': {refused}"),
            PathOrigin::CommonDir(file) => {
                format!("unable to use the path in {}: {refused}", file.display())
            }
            PathOrigin::WorkTree(path) => match refused {
                Refused::Empty => refused.to_string(),
                Refused::TooLong => format!("Invalid path '{path}': {refused}"),
            },
            PathOrigin::IndexFile(path) => format!("unable to use index file '{path}': {refused}"),
        }
    }
}

impl Error {
    /// Makes an error for a caller that reads repository files itself.
    pub fn new(message: impl Into<String>) -> Error {
        Error::Caller(message.into())
    }

    /// Returns true if the requested object or ref may exist, but an I/O error or damaged data
    /// prevents reading it.
    pub fn is_unreadable(&self) -> bool {
        match self {
            Error::Io { attempt, .. } => matches!(
                attempt,
                Attempt::ReadLooseRefs
                    | Attempt::ReadPackedRefs
                    | Attempt::StatPackedRefs
                    | Attempt::ReadShallow
            ),
            Error::Ref(error) => error.is_unreadable(),
            Error::Object(error) => error.is_unreadable(),
            Error::Mark(error) | Error::Warned { error, .. } => error.is_unreadable(),
            _ => false,
        }
    }

    /// Returns true if Git exits with this error and does not try to read the name in another way:
    /// `x@{upstream}` where `x` has no upstream.
    pub fn is_final(&self) -> bool {
        match self {
            Error::Mark(_) | Error::Format(FormatError::Grafts(_)) => true,
            Error::Warned { error, .. } => error.is_final(),
            _ => false,
        }
    }

    /// Replaces the name of a setting by the spelling that Git's message has.
    #[must_use]
    pub fn with_name(self, name: &str) -> Error {
        match self {
            Error::Config(ConfigError::Number { value, file, reason, .. }) => {
                ConfigError::Number { key: name.into(), value, file, reason }.into()
            }
            other => other,
        }
    }

    /// Returns true if no repository was found, and Git prints no warning about it.
    pub fn is_outside(&self) -> bool {
        use DiscoveryError::{MountPoint, NotFound};
        matches!(self, Error::Discovery(NotFound | MountPoint(_)))
    }

    /// Returns the `.git` file that does not begin with `gitdir: `, if discovery ended there.
    pub fn malformed_gitfile(&self) -> Option<&Path> {
        match self {
            Error::Discovery(DiscoveryError::GitfileFormat(path)) => Some(path),
            Error::Warned { error, .. } => error.malformed_gitfile(),
            _ => None,
        }
    }

    /// The warnings that Git prints before the error.
    pub fn warnings(&self) -> &[BString] {
        match self {
            Error::Warned { warnings, .. } => warnings,
            _ => &[],
        }
    }

    pub(crate) fn after_warnings(self, warnings: Vec<BString>) -> Error {
        if warnings.is_empty() { self } else { Error::Warned { warnings, error: Box::new(self) } }
    }
}
