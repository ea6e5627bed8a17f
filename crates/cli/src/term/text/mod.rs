//! Texts made of values: the words are Git's, as scripts and people know them.

pub(crate) mod bytes;
pub(crate) mod color;
pub(crate) mod columns;
pub(crate) mod date;
pub(crate) mod relative;
pub(crate) mod sideband;

use std::io;

/// Returns the C library's message for an error, without Rust's `(os error n)`.
pub(crate) fn os_error(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// A JSON string.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
