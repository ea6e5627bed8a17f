//! `working-tree-encoding`: files in the worktree in an encoding other than UTF-8.
//!
//! `sys::iconv` converts, as the C library does for Git. Content that cannot be converted is left
//! unchanged, and Git's message is queued.

use bstr::{BStr, BString, ByteSlice as _};
use sys::iconv;

use crate::ConvertError;

const UTF16_LE: &[u8] = b"\xff\xfe";
const UTF16_BE: &[u8] = b"\xfe\xff";
const UTF32_LE: &[u8] = b"\xff\xfe\0\0";
const UTF32_BE: &[u8] = b"\0\0\xfe\xff";

/// Converts from UTF-8. Returns false if the bytes need no change.
pub(super) fn to_worktree(
    path: &BStr,
    name: &BStr,
    bytes: &[u8],
    out: &mut Vec<u8>,
    messages: &mut Vec<String>,
) -> bool {
    if bytes.is_empty() {
        return false;
    }
    // The BOM variants are written as the plain encoding after a byte order mark.
    let (to, mark): (&BStr, &[u8]) = if same_utf(name, "UTF-16LE-BOM") {
        ("UTF-16LE".into(), UTF16_LE)
    } else if same_utf(name, "UTF-16BE-BOM") {
        ("UTF-16BE".into(), UTF16_BE)
    } else {
        (name, b"")
    };
    out.extend_from_slice(mark);
    let converted = convert(to, "UTF-8".into(), bytes, out);
    if !converted {
        messages.push(format!("error: failed to encode '{path}' from UTF-8 to {name}"));
    }
    converted
}

/// Converts to UTF-8. After an error the content is left unchanged; the error `None` means that the
/// content is empty. Git's advice is appended to `messages`.
pub(super) fn to_git(
    path: &BStr,
    name: &BStr,
    bytes: &[u8],
    out: &mut Vec<u8>,
    messages: &mut Vec<String>,
) -> Result<(), Option<ConvertError>> {
    if bytes.is_empty() {
        return Err(None);
    }
    let marked = |marks: [&[u8]; 2]| marks.iter().any(|mark| bytes.starts_with(mark));
    let is = |encoding: &str| same_utf(name, encoding);
    let prohibited = ((is("UTF-16BE") || is("UTF-16LE")) && marked([UTF16_BE, UTF16_LE]))
        || ((is("UTF-32BE") || is("UTF-32LE")) && marked([UTF32_BE, UTF32_LE]));
    let missing =
        (is("UTF-16") && !marked([UTF16_BE, UTF16_LE])) || (is("UTF-32") && !marked([UTF32_BE, UTF32_LE]));
    if prohibited || missing {
        let family = name.get(3..).unwrap_or_default();
        let family = family.strip_prefix(b"-").unwrap_or(family).as_bstr();
        messages.push(if prohibited {
            format!(
                "hint: The file '{path}' contains a byte order mark (BOM). Please use UTF-{} as \
                 working-tree-encoding.",
                family[..family.len().saturating_sub(2)].as_bstr()
            )
        } else {
            format!(
                "hint: The file '{path}' is missing a byte order mark (BOM). Please use UTF-{family}BE or \
                 UTF-{family}LE (depending on the byte order) as working-tree-encoding."
            )
        });
        return Err(Some(ConvertError::ByteOrderMark {
            path: path.to_owned(),
            encoding: name.to_owned(),
            is_prohibited: prohibited,
        }));
    }
    let from = if same_utf(name, "UTF-16LE-BOM") { "UTF-16".into() } else { name };
    if convert("UTF-8".into(), from, bytes, out) {
        Ok(())
    } else {
        Err(Some(ConvertError::Encoding { path: path.to_owned(), encoding: name.to_owned() }))
    }
}

/// Returns true if `text`, the UTF-8 form of `bytes`, converts back to the same bytes.
pub(super) fn round_trips(name: &BStr, bytes: &[u8], text: &[u8]) -> bool {
    let mut back = Vec::new();
    bytes.is_empty() || convert(name, "UTF-8".into(), text, &mut back) && back == bytes
}

/// Converts text to another encoding. Returns it unchanged if the encodings are the same or the
/// conversion fails.
pub(crate) fn recode(from: &BStr, to: &BStr, text: BString) -> BString {
    if from.eq_ignore_ascii_case(to) || is_utf8(from) && is_utf8(to) {
        return text;
    }
    let mut recoded = Vec::new();
    if convert(to, from, &text, &mut recoded) { recoded.into() } else { text }
}

fn convert(to: &BStr, from: &BStr, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    match iconv::convert(to, from, bytes, out) {
        Err(iconv::Error::Unknown) => iconv::convert(fallback(to), fallback(from), bytes, out).is_ok(),
        result => result.is_ok(),
    }
}

/// Replaces spellings that some C libraries do not know.
fn fallback(name: &BStr) -> &[u8] {
    if is_utf8(name) {
        b"UTF-8"
    } else if name.eq_ignore_ascii_case(b"latin-1") {
        b"ISO-8859-1"
    } else {
        name
    }
}

/// Returns true if no conversion is needed.
pub(crate) fn is_utf8(name: &BStr) -> bool {
    same_utf(name, "UTF-8")
}

/// Returns true if both names spell one UTF encoding, such as `utf16le` and `UTF-16LE`.
fn same_utf(name: &BStr, other: &str) -> bool {
    let tail = |name: &[u8]| {
        let (family, rest) = name.split_at_checked(3)?;
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        family.eq_ignore_ascii_case(b"utf").then(|| rest.to_ascii_lowercase())
    };
    tail(name).is_some_and(|rest| Some(rest) == tail(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_other_spellings_of_encodings() {
        assert!(is_utf8("utf8".into()) && is_utf8("UTF-8".into()) && !is_utf8("utf-16".into()));
        assert!(same_utf("UTF16LE-bom".into(), "UTF-16LE-BOM"));
        assert!(!same_utf("latin-1".into(), "latin-1"));
    }
}
