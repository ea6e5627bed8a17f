//! Texts made of values: the words are Git's, as scripts and people know them.

pub(crate) mod sideband;
pub(crate) mod tracking;

use std::{fmt::Write as _, io};

/// What the C library says of an error, without Rust's `(os error n)`.
pub(crate) fn os_error(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// A JSON string.
pub(crate) fn json(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Writing to a string does not fail.
            letter if letter.is_control() => drop(write!(quoted, "\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
