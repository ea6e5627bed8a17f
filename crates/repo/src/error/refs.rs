//! Errors of refs.

use std::{io, path::PathBuf, sync::Arc};

use bstr::BString;
use format::packed_refs::Malformed;

/// A ref cannot be read, or has no usable value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RefError {
    /// HEAD does not exist.
    #[error("unable to read HEAD")]
    NoHead,
    /// A loose ref cannot be read because of a system error.
    #[error("unable to resolve reference '{name}': {}", sys::reason(.source))]
    Loose {
        /// The full name.
        name: BString,
        /// The file of the ref.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A loose ref is neither an object name nor a symbolic ref.
    #[error("unable to resolve reference '{0}': reference broken")]
    Broken(BString),
    /// A loose ref has a name that leads out of `refs/`.
    #[error("loose refname is dangerous: {0}")]
    Dangerous(BString),
    /// A line of `packed-refs` is malformed.
    #[error("{}", .problem.message(.file))]
    Packed {
        /// The file, as messages name it.
        file: PathBuf,
        /// The problem.
        problem: Malformed,
    },
    /// A ref has no object name.
    #[error("bad object {0}")]
    NoObject(BString),
    /// Two refs replace the same object.
    #[error("duplicate replace ref: {0}")]
    DuplicateReplacement(BString),
}

impl RefError {
    pub(super) fn is_unreadable(&self) -> bool {
        match self {
            RefError::Loose { .. }
            | RefError::Broken(_)
            | RefError::Dangerous(_)
            | RefError::Packed { .. } => true,
            RefError::NoHead | RefError::NoObject(_) | RefError::DuplicateReplacement(_) => false,
        }
    }
}
