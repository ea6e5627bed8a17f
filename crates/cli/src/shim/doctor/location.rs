//! The repository that contains the current directory.

use std::path::PathBuf;

use bstr::ByteSlice as _;
use repo::Repository;

use crate::term::failure::Failure;

/// The repository that contains the current directory.
pub(super) enum Location {
    Repository {
        git_dir: PathBuf,
        work_tree: Option<PathBuf>,
    },
    /// The current directory is in no repository.
    None,
    /// The repository cannot be opened; the text is the reason.
    Broken(String),
}

impl Location {
    pub(super) fn of(opened: &Result<Repository, Failure>) -> Location {
        match opened {
            Ok(repo) => Location::Repository {
                git_dir: repo.git_dir().to_owned(),
                work_tree: repo.work_tree().map(ToOwned::to_owned),
            },
            Err(failure) => {
                let message = failure_message(failure);
                if message.starts_with("not a git repository (or any") {
                    Location::None
                } else {
                    Location::Broken(message)
                }
            }
        }
    }
}

/// Returns the message of a failure to open a repository.
pub(super) fn failure_message(failure: &Failure) -> String {
    match failure {
        Failure::Fatal(message) | Failure::Error(message, _) => message.to_str_lossy().into_owned(),
        Failure::Advised(failure, _) | Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => {
            failure_message(failure)
        }
        _ => "it cannot be opened".to_owned(),
    }
}
