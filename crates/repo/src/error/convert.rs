//! Errors of filters and encodings.

use std::sync::Arc;

use bstr::BString;

/// The content of a file cannot be converted between worktree and repository.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConvertError {
    /// A `.gitattributes` file of the index cannot be read.
    #[error(transparent)]
    Attributes(Arc<objects::Error>),
    /// A required filter failed in a checkout.
    #[error("{path}: smudge filter {driver} failed")]
    Smudge {
        /// The file.
        path: BString,
        /// The name of the filter.
        driver: BString,
    },
    /// A required filter failed in an addition.
    #[error("{path}: clean filter '{driver}' failed")]
    Clean {
        /// The file.
        path: BString,
        /// The name of the filter.
        driver: BString,
    },
    /// A long-running filter announces a capability that Git does not know.
    #[error("subprocess '{command}' requested unsupported capability '{capability}'")]
    Capability {
        /// The command of the filter.
        command: BString,
        /// The capability.
        capability: BString,
    },
    /// A long-running filter wrote something that is no packet, or ended while it owed files. Git
    /// exits, whether the filter is required or not.
    #[error("{0}")]
    Protocol(String),
    /// `working-tree-encoding` is set, but has no value.
    #[error("true/false are no valid working-tree-encodings")]
    EncodingWithoutName,
    /// A byte order mark is present or missing in violation of the rules of the encoding.
    #[error("BOM is {} in '{path}' if encoded as {encoding}", if *.is_prohibited { "prohibited" } else { "required" })]
    ByteOrderMark {
        /// The file.
        path: BString,
        /// The name of the encoding.
        encoding: BString,
        /// True if the mark is present and prohibited.
        is_prohibited: bool,
    },
    /// The content is not valid in the encoding.
    #[error("failed to encode '{path}' from {encoding} to UTF-8")]
    Encoding {
        /// The file.
        path: BString,
        /// The name of the encoding.
        encoding: BString,
    },
    /// Encoding the content again does not give the same bytes.
    #[error("encoding '{path}' from {encoding} to UTF-8 and back is not the same")]
    RoundTrip {
        /// The file.
        path: BString,
        /// The name of the encoding.
        encoding: BString,
    },
    /// `core.safecrlf` forbids a change of line ends that a checkout does not undo.
    #[error("{from} would be replaced by {to} in {path}")]
    LineEnds {
        /// The file.
        path: BString,
        /// The line ends in the file.
        from: &'static str,
        /// The line ends after the checkout.
        to: &'static str,
    },
}
