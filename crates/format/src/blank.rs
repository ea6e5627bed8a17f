//! White space as Git's `isspace` knows it: blank, tab, LF and CR. Vertical tab, form feed and the
//! white space of Unicode are ordinary characters, which names and messages of users may end in.

/// Returns true for white space.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns `text` without the white space at its end.
pub fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

/// Returns `text` without the white space at its beginning and end.
pub fn trim(text: &[u8]) -> &[u8] {
    let text = trim_end(text);
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertical_tab_and_form_feed_stay() {
        for (text, trimmed) in [
            (&b""[..], &b""[..]),
            (b" \r\n", b""),
            (b"a", b"a"),
            (b"\t a b\r\n", b"a b"),
            (b" \x0ba\x0c ", b"\x0ba\x0c"),
            ("\u{a0}a\u{85} ".as_bytes(), "\u{a0}a\u{85}".as_bytes()),
        ] {
            assert_eq!(trim(text), trimmed, "{text:?}");
        }
        assert_eq!(trim_end(b" a "), b" a");
    }
}
