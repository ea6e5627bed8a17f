//! A matcher built from the definition alone: it follows every possible match of a pattern at once.
//! The fuzz target uses it too.

use std::collections::BTreeSet;

enum Token {
    Byte {
        byte: u8,
        folds: bool,
    },
    Any,
    /// The members, and those that also match a letter of the other case.
    Class {
        members: BTreeSet<u8>,
        either_case: BTreeSet<u8>,
        negated: bool,
    },
    Star {
        crosses: bool,
    },
    /// `**/`: any number of directories, or none.
    Directories,
    Never,
}

/// Returns true if `pattern` matches all of `text`.
pub(crate) fn matches(pattern: &[u8], text: &[u8], pathname: bool, icase: bool) -> bool {
    let fold = |byte: u8| if icase { byte.to_ascii_lowercase() } else { byte };
    // The positions in the text where a match of the tokens so far may end.
    let mut places = BTreeSet::from([0]);
    for token in tokens(pattern, pathname) {
        let mut next = BTreeSet::new();
        for place in places {
            let rest = &text[place..];
            let slashes = (place..text.len()).filter(|&at| text[at] == b'/');
            match &token {
                Token::Never => {}
                Token::Directories => {
                    next.insert(place);
                    next.extend(slashes.map(|slash| slash + 1));
                }
                Token::Star { crosses: true } => next.extend(place..=text.len()),
                Token::Star { crosses: false } => {
                    let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
                    next.extend(place..=place + end);
                }
                one => {
                    let is_match = rest.first().is_some_and(|&byte| match one {
                        Token::Byte { byte: wanted, folds: true } => fold(*wanted) == fold(byte),
                        Token::Byte { byte: wanted, folds: false } => *wanted == fold(byte),
                        _ if pathname && byte == b'/' => false,
                        Token::Class { members, either_case, negated } => {
                            let byte = fold(byte);
                            let is_other = icase && either_case.contains(&byte.to_ascii_uppercase());
                            (members.contains(&byte) || is_other) != *negated
                        }
                        _ => true,
                    });
                    next.extend(is_match.then_some(place + 1));
                }
            }
        }
        places = next;
    }
    places.contains(&text.len())
}

fn tokens(pattern: &[u8], pathname: bool) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        tokens.push(match byte {
            b'?' => Token::Any,
            b'\\' => {
                at += 1;
                pattern.get(at - 1).map_or(Token::Never, |&byte| Token::Byte { byte, folds: false })
            }
            b'[' => match class(pattern, at) {
                Some((token, end)) => {
                    at = end;
                    token
                }
                None => Token::Never,
            },
            b'*' => {
                let start = at - 1;
                while pattern.get(at) == Some(&b'*') {
                    at += 1;
                }
                let rest = &pattern[at..];
                let is_bounded = (start == 0 || pattern[start - 1] == b'/')
                    && (rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"\\/"));
                let is_double = at - start > 1 && is_bounded;
                if pathname && is_double && rest.starts_with(b"/") {
                    at += 1;
                    Token::Directories
                } else {
                    Token::Star { crosses: !pathname || is_double }
                }
            }
            _ => Token::Byte { byte, folds: true },
        });
        if matches!(tokens.last(), Some(Token::Never)) {
            break;
        }
    }
    tokens
}

/// Parses a class whose members begin at `at`. Returns it and its end.
fn class(pattern: &[u8], mut at: usize) -> Option<(Token, usize)> {
    let (mut members, mut either_case) = (BTreeSet::new(), BTreeSet::new());
    let negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(negated);
    let start = at;
    let mut low: Option<u8> = None;
    loop {
        let byte = *pattern.get(at)?;
        if byte == b']' && at > start {
            return Some((Token::Class { members, either_case, negated }, at + 1));
        }
        let is_range = byte == b'-' && low.is_some() && pattern.get(at + 1).is_some_and(|&high| high != b']');
        if is_range {
            at += 1 + usize::from(pattern[at + 1] == b'\\');
            let range = low?..=*pattern.get(at)?;
            members.extend(range.clone());
            either_case.extend(range.filter(u8::is_ascii_uppercase));
            low = None;
            at += 1;
            continue;
        }
        if byte == b'[' && pattern.get(at + 1) == Some(&b':') {
            let end = at + 2 + pattern[at + 2..].iter().position(|&byte| byte == b']')?;
            if end > at + 2 && pattern[end - 1] == b':' {
                let name = &pattern[at + 2..end - 1];
                members.extend(named(name)?);
                either_case.extend((name == b"upper").then_some(b'A'..=b'Z').into_iter().flatten());
                low = None;
                at = end + 1;
                continue;
            }
        }
        at += usize::from(byte == b'\\');
        let member = *pattern.get(at)?;
        members.insert(member);
        low = Some(member);
        at += 1;
    }
}

fn named(name: &[u8]) -> Option<Vec<u8>> {
    let (digits, upper, lower) = (b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z');
    let letters = || upper.clone().chain(lower.clone());
    let graphic = b'!'..=b'~';
    Some(match name {
        b"alnum" => digits.chain(letters()).collect(),
        b"alpha" => letters().collect(),
        b"blank" => b" \t".to_vec(),
        b"cntrl" => (0..=31).chain([127]).collect(),
        b"digit" => digits.collect(),
        b"graph" => graphic.collect(),
        b"lower" => lower.collect(),
        b"print" => graphic.chain([b' ']).collect(),
        b"punct" => graphic.filter(|byte| !byte.is_ascii_alphanumeric()).collect(),
        b"space" => b" \t\n\r".to_vec(),
        b"upper" => upper.collect(),
        b"xdigit" => digits.chain(b'a'..=b'f').chain(b'A'..=b'F').collect(),
        _ => return None,
    })
}
