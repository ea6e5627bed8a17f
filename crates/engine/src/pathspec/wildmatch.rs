//! Shell-like matching, of pathspecs, ignore rules and branches' patterns alike. Source: gitglossary(7), "glob"; gitignore(5).
//!
//! Pure, byte by byte; no input, however odd, panics.

use bstr::ByteSlice as _;

/// Shell-like matching: `*` and `?` cross slashes unless `pathname`; then `**/`, `/**` and `/**/`
/// stand for any number of directories.
pub fn wildmatch(pattern: &[u8], text: &[u8], pathname: bool, icase: bool) -> bool {
    let fold = |byte: u8| if icase { byte.to_ascii_lowercase() } else { byte };
    let (mut pattern, mut text, whole) = (pattern, text, pattern);
    while let Some((&wanted, behind)) = pattern.split_first() {
        if wanted == b'*' {
            let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
            let rest = &pattern[stars..];
            let before = whole.len() - pattern.len();
            let alone = before == 0 || whole[before - 1] == b'/';
            let crosses = !pathname || (stars > 1 && alone && (rest.is_empty() || rest[0] == b'/'));
            if crosses
                && pathname
                && rest.first() == Some(&b'/')
                && wildmatch_from(whole, &rest[1..], text, pathname, icase)
            {
                return true;
            }
            let reach = if crosses { text.len() } else { text.find_byte(b'/').unwrap_or(text.len()) };
            // What has no wildcards is the end of the text, or it is not there.
            if rest.find_byteset(b"*?[\\").is_none() {
                let skip = text.len().checked_sub(rest.len()).filter(|&skip| skip <= reach);
                return skip.is_some_and(|skip| match icase {
                    true => text[skip..].eq_ignore_ascii_case(rest),
                    false => text[skip..] == *rest,
                });
            }
            return (0..=reach).any(|skip| wildmatch_from(whole, rest, &text[skip..], pathname, icase));
        }
        let Some((&have, after)) = text.split_first() else { return false };
        match wanted {
            b'?' if !(pathname && have == b'/') => pattern = behind,
            b'?' => return false,
            b'[' => match class(behind, have, icase) {
                Some((true, behind)) if !(pathname && have == b'/') => pattern = behind,
                _ => return false,
            },
            b'\\' => {
                // At the end it is nothing's.
                if behind.is_empty() || fold(behind[0]) != fold(have) {
                    return false;
                }
                pattern = &behind[1..];
            }
            _ if fold(wanted) == fold(have) => pattern = behind,
            _ => return false,
        }
        text = after;
    }
    text.is_empty()
}

/// Goes on in the middle of `whole`, so that what precedes a `**` is known.
fn wildmatch_from(whole: &[u8], rest: &[u8], text: &[u8], pathname: bool, icase: bool) -> bool {
    debug_assert!(whole.ends_with(rest));
    if rest.starts_with(b"**") && whole.len() > rest.len() && whole[whole.len() - rest.len() - 1] != b'/' {
        return wildmatch(&rest[1..], text, pathname, icase);
    }
    wildmatch(rest, text, pathname, icase)
}

/// A bracket expression after its `[`: whether `have` is in it, and what follows it; `None` if it
/// never ends.
fn class(pattern: &[u8], have: u8, icase: bool) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match pattern.first()? {
        b'!' | b'^' => (true, &pattern[1..]),
        _ => (false, pattern),
    };
    let variants = match icase {
        true => [have.to_ascii_lowercase(), have.to_ascii_uppercase()],
        false => [have, have],
    };
    let mut hit = false;
    let mut first = true;
    loop {
        let (&byte, behind) = rest.split_first()?;
        if byte == b']' && !first {
            return Some((hit != negated, behind));
        }
        first = false;
        if byte == b'[' && behind.first() == Some(&b':') {
            let end = 1 + behind[1..].find_byte(b']')?;
            // Without a colon before that it is a bracket like any other letter.
            rest = match behind[1..end].strip_suffix(b":") {
                Some(name) => {
                    let mut found = false;
                    for &byte in &variants {
                        found |= named_class(name, byte)?;
                    }
                    hit |= found;
                    &behind[end + 1..]
                }
                None => {
                    hit |= have == b'[';
                    behind
                }
            };
            continue;
        }
        let (low, behind) = escaped(byte, behind)?;
        rest = behind;
        let mut high = low;
        if rest.first() == Some(&b'-') && rest.get(1).is_some_and(|&byte| byte != b']') {
            (high, rest) = escaped(rest[1], &rest[2..])?;
        }
        hit |= variants.iter().any(|byte| (low..=high).contains(byte));
    }
}

fn escaped(byte: u8, rest: &[u8]) -> Option<(u8, &[u8])> {
    match byte {
        b'\\' => rest.split_first().map(|(&byte, rest)| (byte, rest)),
        _ => Some((byte, rest)),
    }
}

/// `None` if there is no class of this name.
fn named_class(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_before_what_has_no_wildcards() {
        for (pattern, text, anywhere, within) in [
            ("*.c", "a.c", true, true),
            ("*.c", "d/a.c", true, false),
            ("*.c", ".c", true, true),
            ("*.c", "c", false, false),
            ("*.c", "a.c.d", false, false),
            ("*", "", true, true),
            ("d/*", "d/e/a", true, false),
            ("d/*", "d/", true, true),
            ("d/**", "d/e/a", true, true),
            ("**/a", "a", false, true),
            ("**/a", "d/e/a", true, true),
            ("**/a", "d/ea", false, false),
            ("d/**/a", "d/a", false, true),
            ("d**/a", "d/e/a", true, false),
            ("d/*/a", "d/e/a", true, true),
            ("d/*/a", "d/e/f/a", true, false),
            ("*a*a", "baba", true, true),
            ("*a*a", "bab", false, false),
        ] {
            let (upper, text) = (text.to_uppercase(), text.as_bytes());
            let matches = |pathname, icase, text| wildmatch(pattern.as_bytes(), text, pathname, icase);
            assert_eq!(
                (matches(false, false, text), matches(true, false, text)),
                (anywhere, within),
                "{pattern}"
            );
            assert_eq!(matches(false, true, upper.as_bytes()), anywhere, "{pattern}");
        }
    }

    #[test]
    fn brackets() {
        for (pattern, text, expected) in [
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[[:digit:]]", "7", true),
            ("[[:digit:]]", "x", false),
            ("[\\]]", "]", true),
            ("[[:]ab]", "[ab]", true),
            ("[[:digit]ab]", "[ab]", true),
            ("[[:digit:][:spaci:]]", "1", false),
            ("[a", "a", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
        ] {
            assert_eq!(
                wildmatch(pattern.as_bytes(), text.as_bytes(), false, false),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
