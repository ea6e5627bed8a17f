//! The reason to leave an invocation to the real Git.

use bstr::ByteSlice as _;

use crate::term::failure::Failure;

/// Why an invocation is left to the real Git.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    /// sapwood has no such command.
    #[error("command '{0}'")]
    Command(String),
    /// An option, before or after the command's name, that is not native.
    #[error("option '{0}'")]
    Option(String),
    /// Another property of the command line.
    #[error("{0}")]
    CommandLine(String),
    /// A setting, by name.
    #[error("{0} is set")]
    Setting(String),
    /// A variable that replaces a setting.
    #[error("{0} is set")]
    Variable(&'static str),
    /// The state of the repository.
    #[error("{0}")]
    Repository(String),
    /// `SAPWOOD_SHIM=off`
    #[error("SAPWOOD_SHIM=off")]
    Off,
}

impl Reason {
    pub(crate) fn command_line(what: impl Into<String>) -> Reason {
        Reason::CommandLine(what.into())
    }

    pub(crate) fn repository(what: impl Into<String>) -> Reason {
        Reason::Repository(what.into())
    }

    /// Returns the first line of a failure, without its reference to documentation.
    pub(crate) fn refused(failure: &Failure) -> Reason {
        match failure {
            Failure::Fatal(message) | Failure::Error(message, _) => {
                let message = message.to_str_lossy();
                let line = message.lines().next().unwrap_or_default();
                Reason::repository(line.split(" (see ").next().unwrap_or_default())
            }
            Failure::Hinted(failure, _) | Failure::Preceded(_, failure) => Reason::refused(failure),
            _ => Reason::repository("the repository cannot be opened"),
        }
    }
}
