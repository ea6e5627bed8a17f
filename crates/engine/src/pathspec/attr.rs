//! The words of `attr:` magic: what they have to be, and what Git says of those that are not.
//!
//! Source: gitglossary(7), "attr".

use bstr::ByteSlice as _;

use super::{Error, fail};

/// The length of the first word of long magic: up to a comma or parenthesis that no backslash is before.
pub(super) fn word_length(words: &[u8]) -> usize {
    let mut at = 0;
    while at < words.len() && !matches!(words[at], b',' | b')') {
        at += if words[at] == b'\\' && at + 1 < words.len() { 2 } else { 1 };
    }
    at
}

/// Checks what is behind `attr:`.
pub(super) fn check(requirements: &[u8]) -> Result<(), Error> {
    if requirements.is_empty() {
        return Err(fail(&[b"attr spec must not be empty"]));
    }
    for requirement in requirements.split_str(" ").filter(|requirement| !requirement.is_empty()) {
        let name = match requirement {
            [b'!' | b'-', name @ ..] => name,
            _ => match requirement.split_once_str("=") {
                Some((name, value)) => {
                    check_value(value)?;
                    name
                }
                None => requirement,
            },
        };
        if !repo::attributes::is_name(name) {
            return Err(fail(&[b"invalid attribute name ", name]));
        }
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' => bytes.next().ok_or_else(|| {
                fail(&[b"Escape character '\\' not allowed as last character in attr value"])
            })?,
            byte => byte,
        };
        if !byte.is_ascii_alphanumeric() && !b",-_".contains(byte) {
            return Err(fail(&[b"cannot use '", &[*byte], b"' for value matching"]));
        }
    }
    Ok(())
}
