//! The errors of the operations on bases.

use std::{io, path::PathBuf};

use bstr::BString;

use super::Error;

/// Why a base was not sent, brought, examined or removed.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// No remote is named.
    #[error("name a remote: s3://, oci://, https:// or file:// (or set sapwood.baseRemote)")]
    NoRemote,
    /// `sapwood.baseRetry` is not a length of time.
    #[error("bad value of sapwood.baseRetry '{0}': write 30s or 5m")]
    Patience(BString),
    /// The settings of a connection cannot be read.
    #[error(transparent)]
    Connection(repo::wire::Error),
    /// An address is in the place of a commit.
    #[error("name one remote, and so not '{0}'")]
    SecondRemote(BString),
    /// A name is not that of a commit.
    #[error("'{0}' is not a commit")]
    NotACommit(BString),
    /// Without a repository, a commit is named by its id.
    #[error("'{0}' is no commit id of 40 or 64 digits")]
    NotAnId(BString),
    /// HEAD has no commit.
    #[error("HEAD has no commit: name one, or a --branch")]
    NoHead,
    /// The remote has no base of the branch.
    #[error("{remote} has no base of branch '{branch}'")]
    NoBaseOfBranch {
        /// The remote.
        remote: String,
        /// The branch.
        branch: BString,
    },
    /// The level of compression is not valid.
    #[error("bad level of compression '{0}': it is a number from 1 to 19")]
    Level(BString),
    /// The remote cannot be reached, or refuses.
    #[error(transparent)]
    Store(base_store::Error),
    /// The transfer failed.
    #[error(transparent)]
    Transfer(engine::base_transfer::Error),
    /// The manifest cannot be signed.
    #[error("the signature of the manifest could not be made")]
    NotSigned(#[source] Error),
    /// Bundles belong to a branch. The base was pushed.
    #[error("the base was pushed, but bundles belong to a branch: name it with --branch")]
    BundlesWithoutBranch,
    /// A part of the history is missing here.
    #[error("bundles need the whole history: this repository is shallow or partial")]
    BundlesOfPart,
    /// There is no Git that makes bundles.
    #[error("bundles need a git, and there is none (set SAPWOOD_GIT)")]
    NoGit,
    /// Git failed.
    #[error("git {command} failed: {said}")]
    Git {
        /// Its command.
        command: String,
        /// Its message.
        said: BString,
    },
    /// A copy has come, and something still needs the shared directory.
    #[error("the contents were copied, but {by} still needs '{}': remove it, and run the command again", .dir.display())]
    StillNeeded {
        /// The workspace or base.
        by: String,
        /// The shared directory.
        dir: PathBuf,
    },
    /// A file or directory cannot be used.
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io {
        /// The action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An empty repository cannot be created.
    #[error(transparent)]
    Create(engine::clone::SkeletonError),
    /// The repository was not made by a mirror, which overwrites branches.
    #[error("'{0}' was not made by 'base mirror', which overwrites branches: name another --dir")]
    NotAMirror(BString),
    /// The repository mirrors another one.
    #[error("'{dir}' mirrors '{ours}', not '{theirs}'")]
    OtherMirror {
        /// The repository.
        dir: BString,
        /// Its URL.
        ours: BString,
        /// The URL of the request.
        theirs: BString,
    },
    /// There is no mirror, and no URL to make it from.
    #[error("'{0}' is missing: name the URL to mirror")]
    NoMirror(BString),
    /// HEAD of the mirror names no branch.
    #[error("HEAD names no branch: use --branch")]
    NoBranch,
    /// The directory is not the top of a worktree.
    #[error("'{}' is not the top of a worktree", .0.display())]
    NotATop(PathBuf),
    /// A checkout is to become a base, and several commits or a part of it are named.
    #[error("a checkout becomes one whole base: name at most one commit, and no directories")]
    PartOfCheckout,
    /// A checkout is to become a base, and differs from its commit.
    #[error("'{dir}' is not a clean checkout; 'sapwood -C {dir} status' names what differs", dir = .0.display())]
    NotClean(PathBuf),
}

impl From<BaseError> for Error {
    fn from(error: BaseError) -> Error {
        Error::Bases(Box::new(error))
    }
}

impl From<engine::base_transfer::Error> for Error {
    fn from(error: engine::base_transfer::Error) -> Error {
        match error {
            engine::base_transfer::Error::Interrupted => Error::Interrupted,
            error => BaseError::Transfer(error).into(),
        }
    }
}

impl From<base_store::Error> for Error {
    fn from(error: base_store::Error) -> Error {
        match error {
            base_store::Error::Interrupted => Error::Interrupted,
            error => BaseError::Store(error).into(),
        }
    }
}
