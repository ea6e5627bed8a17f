//! Quotes words for a shell.

use bstr::{BStr, BString};

/// Quotes a word even if it needs no quotes.
pub fn quote(text: &BStr) -> BString {
    let mut quoted = BString::from("'");
    for &c in text.iter() {
        match c {
            b'\'' | b'!' => quoted.extend_from_slice(&[b'\'', b'\\', c, b'\'']),
            c => quoted.push(c),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Quotes a word only if it needs quotes.
pub fn quote_pretty(text: &BStr) -> BString {
    let plain = |&c: &u8| c.is_ascii_alphanumeric() || b"+,-./:=@_^".contains(&c);
    if !text.is_empty() && text.iter().all(plain) { text.to_owned() } else { quote(text) }
}
