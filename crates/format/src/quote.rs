//! Paths in double quotes with C escapes, as in listings, attribute files and alternates.
//!
//! Source: git-config(1) `core.quotePath`, gitattributes(5).

use bstr::{BStr, BString};

/// Returns the path, quoted if it contains special bytes. With `high`, bytes above 127 are special
/// too (`core.quotePath`).
pub fn quote(path: &BStr, high: bool) -> BString {
    let mut quoted = Vec::with_capacity(path.len());
    quote_into(&mut quoted, path, high);
    quoted.into()
}

/// Like [`quote`], but appends to `out`.
pub fn quote_into(out: &mut Vec<u8>, path: &BStr, high: bool) {
    let special =
        |byte: u8| byte < b' ' || byte == 0x7f || byte == b'"' || byte == b'\\' || (high && byte > 0x7f);
    if !path.iter().any(|&byte| special(byte)) {
        out.extend_from_slice(path);
        return;
    }
    out.push(b'"');
    for &byte in path.iter() {
        match byte {
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ if special(byte) => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Parses the quoted string at the start of a text. Returns its value and the rest of the text.
/// Returns `None` if the text does not begin with a quote, the quote is not closed, or an escape is
/// not C's (an octal escape has three digits).
pub fn unquote(text: &[u8]) -> Option<(BString, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut plain = BString::default();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((plain, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                plain.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'\\' | b'"' => escape,
                    b'0'..=b'3' => {
                        let [second @ b'0'..=b'7', third @ b'0'..=b'7', after @ ..] = rest else {
                            return None;
                        };
                        rest = after;
                        (escape - b'0') << 6 | (second - b'0') << 3 | (third - b'0')
                    }
                    _ => return None,
                });
            }
            byte => plain.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_only_special_bytes() {
        assert_eq!(quote("a b/c'd".into(), true), "a b/c'd");
        assert_eq!(quote("a\tb\"c\\".into(), true), r#""a\tb\"c\\""#);
        assert_eq!(quote("\u{e9}".into(), true), r#""\303\251""#);
        assert_eq!(quote("\u{e9}".into(), false), "\u{e9}");
        assert_eq!(quote("\u{1}".into(), false), r#""\001""#);
    }

    #[test]
    fn unquotes_well_formed_text() {
        let read =
            |text: &'static str| unquote(text.as_bytes()).map(|(plain, rest)| (plain.to_string(), rest));
        assert_eq!(read(r#""" rest"#), Some((String::new(), b" rest".as_slice())));
        assert_eq!(read(r#""\a\b\t\n\v\f\r\\\""x"#).expect("well-formed").0, "\x07\x08\t\n\x0b\x0c\r\\\"");
        assert_eq!(read(r#""\303\266é""#).expect("well-formed").0, "öé");
        for text in ["", "plain", "\"", "\"open", r#""\""#, r#""\x41""#, r#""\400""#, r#""\18""#, r#""\12""#]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn unquote_reverts_quote(path: Vec<u8>, high: bool) {
            let quoted = quote(path.as_slice().into(), high);
            match unquote(&[quoted.as_slice(), b"rest"].concat()) {
                Some((plain, rest)) => prop_assert!(plain == path && rest == b"rest"),
                None => prop_assert!(quoted == path),
            }
        }

        #[test]
        fn unquote_stays_within_the_text(text: Vec<u8>) {
            if let Some((plain, rest)) = unquote(&[b"\"".as_slice(), &text].concat()) {
                prop_assert!(plain.len() + rest.len() < text.len());
            }
        }
    }
}
