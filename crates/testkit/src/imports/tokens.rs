//! Splits Rust source into the few kinds of tokens that are needed to find imports.

/// A token. Literals other than strings are identifiers or punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Ident(String),
    /// A string literal's text, escapes as written.
    Text(String),
    /// `::`
    PathSep,
    Punct(char),
}

/// Returns the tokens of `text`, each with its line. Comments, lifetimes and character literals are
/// left out.
pub(super) fn tokens(text: &str) -> Vec<(Token, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let is_word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    while at < chars.len() {
        let (start, first_line) = (at, line);
        let rest = &chars[at..];
        match rest {
            ['/', '/', ..] => at += rest.iter().take_while(|&&c| c != '\n').count(),
            ['/', '*', ..] => at += block_comment(rest),
            ['\'', '\\', ..] => at += 3 + rest[3..].iter().take_while(|&&c| c != '\'').count() + 1,
            ['\'', _, '\'', ..] => at += 3,
            ['\'', ..] => {
                at += 1;
                while is_word(at) {
                    at += 1;
                }
            }
            ['"', ..] => {
                let length = string(rest);
                found.push((Token::Text(rest[1..length - 1].iter().collect()), line));
                at += length;
            }
            [':', ':', ..] => {
                found.push((Token::PathSep, line));
                at += 2;
            }
            [c, ..] if c.is_alphanumeric() || *c == '_' => {
                while is_word(at) {
                    at += 1;
                }
                let word: String = chars[start..at].iter().collect();
                let is_raw_prefix = matches!(word.as_str(), "r" | "br" | "cr");
                let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
                if is_raw_prefix && chars.get(at + hashes) == Some(&'"') {
                    at += raw_string(&chars[at..], hashes);
                } else if is_raw_prefix && hashes == 1 && is_word(at + 1) {
                    at += 1;
                } else {
                    found.push((Token::Ident(word), line));
                }
            }
            [c, ..] => {
                if !c.is_whitespace() {
                    found.push((Token::Punct(*c), line));
                }
                at += 1;
            }
            [] => {}
        }
        at = at.min(chars.len());
        line = first_line + chars[start..at].iter().filter(|&&c| c == '\n').count();
    }
    found
}

/// Returns the length of the block comment at the start of `chars`. Block comments nest.
fn block_comment(chars: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < chars.len() {
        match chars[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of the string literal at the start of `chars`, both quotes included.
fn string(chars: &[char]) -> usize {
    let mut at = 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len()).max(2)
}

/// Returns the length of a raw string literal, counted from its hashes.
fn raw_string(chars: &[char], hashes: usize) -> usize {
    let is_end = |at: usize| {
        chars[at] == '"' && chars[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes
    };
    let body = hashes + 1;
    let end = (body..chars.len()).find(|&at| is_end(at)).unwrap_or(chars.len());
    end + 1 + hashes
}
