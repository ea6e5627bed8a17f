//! Texts made of values. The wording is Git's, which scripts and users know.

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

/// Returns `text` as a JSON string.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
