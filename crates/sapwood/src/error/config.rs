//! The errors of the operation `config`.

use bstr::BString;

/// Why settings were not found or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A name is not valid.
    #[error("{message}")]
    Key {
        /// Git's message.
        message: BString,
        /// True if the section or the variable is missing.
        is_incomplete: bool,
    },
    /// A regular expression is not valid; the text is Git's.
    #[error("{0}")]
    Pattern(BString),
    /// A value does not have the type.
    #[error("{place}")]
    BadValue {
        /// Git's message about the value.
        message: BString,
        /// Git's message about its place, which follows.
        place: BString,
    },
    /// There is no setting to remove.
    #[error("no setting is selected")]
    Nothing,
    /// Several settings are selected, and the change is one of a single one.
    #[error("{0} has multiple values")]
    Multiple(BString),
    /// The name of a section is not valid.
    #[error("invalid section name: {0}")]
    Section(BString),
    /// The file cannot be locked.
    #[error("could not lock config file {name}: {reason}")]
    Locked {
        /// The file in Git's form.
        name: BString,
        /// The system's reason.
        reason: String,
    },
    /// A device, FIFO or socket would be replaced by a file.
    #[error(transparent)]
    NotAFile(store::Error),
    /// The file was not changed.
    #[error("could not write config file {name}: {reason}")]
    NotWritten {
        /// The file in Git's form.
        name: BString,
        /// The system's reason.
        reason: String,
    },
}
