//! Texts made of values. The wording is Git's, which scripts and users know.

pub(crate) mod bytes;
pub(crate) mod clock;
pub(crate) mod columns;
pub(crate) mod sideband;

pub(crate) use format::{quote, quote_into, split::split_once, unquote};
pub(crate) use sapwood::{color, date, relative};
pub(crate) use sys::{os_str, reason as os_error};

/// Returns `text` as a JSON string.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
