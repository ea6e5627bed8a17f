//! Values of settings: booleans, and integers with a unit.

use bstr::{BStr, ByteSlice};

/// Parses a boolean as Git does: words in any case, no value at all, or any integer.
pub fn parse_bool(value: Option<&BStr>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    let is = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
    if is("true") || is("yes") || is("on") {
        Some(true)
    } else if value.is_empty() || is("false") || is("no") || is("off") {
        Some(false)
    } else {
        parse_int(value).ok().map(|int| int != 0)
    }
}

/// Git's reasons why a value is not a number.
const INVALID: &str = "invalid unit";
const RANGE: &str = "out of range";

/// Parses an integer of 32 bits, as Git does for all settings that are not sizes. Otherwise it is
/// like [`parse_size`]. The error is Git's reason.
pub fn parse_int(value: &BStr) -> Result<i32, &'static str> {
    parse_size(value).and_then(|value| i32::try_from(value).map_err(|_| RANGE))
}

/// Parses a size that is not negative. The error is Git's reason.
pub fn parse_unsigned(value: &BStr) -> Result<u64, &'static str> {
    if value.contains(&b'-') {
        Err(INVALID)
    } else {
        parse_size(value).and_then(|size| u64::try_from(size).map_err(|_| RANGE))
    }
}

/// Parses an integer as C's `strtoimax` does with base 0, followed by an optional unit of k, m or
/// g. The error is Git's reason.
pub fn parse_size(value: &BStr) -> Result<i64, &'static str> {
    let text = value.trim_start_with(|c| c.is_ascii_whitespace() || c == '\x0b');
    let (negative, text) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, text) = match text {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, &text[2..]),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let digits = text.iter().take_while(|&&c| (c as char).is_digit(radix)).count();
    if digits == 0 {
        return Err(INVALID);
    }
    let mut magnitude: i128 = 0;
    for &c in &text[..digits] {
        let digit = (c as char).to_digit(radix).expect("counted as a digit");
        magnitude = magnitude * i128::from(radix) + i128::from(digit);
        if magnitude > i128::from(u64::MAX) {
            return Err(RANGE);
        }
    }
    let factor: i128 = match &text[digits..] {
        b"" => 1,
        unit if unit.eq_ignore_ascii_case(b"k") => 1 << 10,
        unit if unit.eq_ignore_ascii_case(b"m") => 1 << 20,
        unit if unit.eq_ignore_ascii_case(b"g") => 1 << 30,
        _ => return Err(INVALID),
    };
    let value = magnitude * factor * if negative { -1 } else { 1 };
    i64::try_from(value).map_err(|_| RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_integers_with_units() {
        for (text, value) in [
            ("0", 0),
            ("10k", 10240),
            ("-1", -1),
            ("0x10", 16),
            ("010", 8),
            ("1G", 1 << 30),
            (" 7", 7),
            ("+3M", 3 << 20),
        ] {
            assert_eq!(parse_int(text.into()), Ok(value), "{text}");
        }
        for text in ["", "k", "1kb", "abc", "1.5", "-"] {
            assert_eq!(parse_int(text.into()), Err("invalid unit"), "{text}");
        }
        for text in ["2147483648", "-2147483649", "2g", "9223372036854775808"] {
            assert_eq!(parse_int(text.into()), Err("out of range"), "{text}");
        }
        assert_eq!(parse_int("-2g".into()), Ok(i32::MIN));
        assert_eq!(parse_size("2g".into()), Ok(1 << 31));
        assert_eq!(parse_size("9223372036854775808".into()), Err("out of range"));
        assert_eq!(parse_size("9007199254740992k".into()), Err("out of range"));
    }

    #[test]
    fn parses_booleans() {
        for (text, value) in [
            ("YES", Some(true)),
            ("off", Some(false)),
            ("", Some(false)),
            ("2k", Some(true)),
            ("maybe", None),
        ] {
            assert_eq!(parse_bool(Some(text.into())), value, "{text}");
        }
        assert_eq!(parse_bool(None), Some(true));
    }
}
