//! Paths in lists: quoted in C's way where they hold what could be misread (`core.quotePath`).

use bstr::{BStr, BString};

/// The path as it is, or in double quotes with escapes. With `high`, bytes above 127 are escaped too.
pub(crate) fn path(path: &BStr, high: bool) -> BString {
    let special =
        |byte: u8| byte < b' ' || byte == 0x7f || byte == b'"' || byte == b'\\' || (high && byte > 0x7f);
    if !path.iter().any(|&byte| special(byte)) {
        return path.to_owned();
    }
    let mut quoted = BString::from("\"");
    for &byte in path.iter() {
        match byte {
            0x07 => quoted.extend_from_slice(b"\\a"),
            0x08 => quoted.extend_from_slice(b"\\b"),
            b'\t' => quoted.extend_from_slice(b"\\t"),
            b'\n' => quoted.extend_from_slice(b"\\n"),
            0x0b => quoted.extend_from_slice(b"\\v"),
            0x0c => quoted.extend_from_slice(b"\\f"),
            b'\r' => quoted.extend_from_slice(b"\\r"),
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', byte]),
            _ if special(byte) => quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_misread_is_quoted() {
        assert_eq!(path("a b/c'd".into(), true), "a b/c'd");
        assert_eq!(path("a\tb\"c\\".into(), true), r#""a\tb\"c\\""#);
        assert_eq!(path("\u{e9}".into(), true), r#""\303\251""#);
        assert_eq!(path("\u{e9}".into(), false), "\u{e9}");
        assert_eq!(path("\u{1}".into(), false), r#""\001""#);
    }
}
