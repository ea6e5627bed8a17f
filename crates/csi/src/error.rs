//! The errors of volumes.

use std::{io, path::PathBuf};

/// The reason why a volume was not published, or not removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is wrong, and is wrong each time it is repeated.
    #[error("{0}")]
    Invalid(String),
    /// There is a volume with this id and other attributes.
    #[error("volume '{0}' exists with other attributes")]
    Exists(String),
    /// The volume is published at another directory.
    #[error("volume '{id}' is published at '{}'", target.display())]
    Elsewhere {
        /// Its id.
        id: String,
        /// The directory.
        target: PathBuf,
    },
    /// Another request for this volume runs.
    #[error("another operation on volume '{0}' is running")]
    Pending(String),
    /// There is no volume with this id, or not at this directory.
    #[error("there is no volume '{0}' here")]
    Missing(String),
    /// The repository has no such commit.
    #[error("'{repository}' has no commit '{commit}'")]
    NoCommit {
        /// Its address.
        repository: String,
        /// The commit, branch or tag.
        commit: String,
    },
    /// The server does not answer, or refuses the credentials.
    #[error("cannot read '{repository}': {reason}")]
    Unreadable {
        /// Its address.
        repository: String,
        /// The words of the program that tried.
        reason: String,
    },
    /// Containers use the volume.
    #[error("volume '{0}' is in use")]
    Used(String),
    /// A child process failed.
    #[error("cannot {action}: {reason}")]
    Failed {
        /// Its task.
        action: String,
        /// Its words.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        /// Its task.
        action: &'static str,
        /// To this file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function that adds what was attempted to an error of the system.
    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}
