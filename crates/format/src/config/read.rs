//! The grammar of configuration files: bytes to (name, value) pairs, in order.
//!
//! The parser returns all pairs of a file, or the first malformed line. Source: git-config(1),
//! "CONFIGURATION FILE".

use bstr::{BString, ByteSlice as _};

/// A line `name = value`.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// `section.subsection.name`. Section and name are in lower case, the subsection is as written.
    pub key: BString,
    /// `None` for a name without `=`, which is a boolean "true".
    pub value: Option<BString>,
    /// The number of the line on which the pair ends.
    pub line: usize,
}

/// The number of a malformed line.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine(pub usize);

/// Parses a whole file.
pub fn parse(bytes: &[u8]) -> Result<Vec<Pair>, BadLine> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut pairs = Vec::new();
    Parser { bytes, at: 0, line: 1, eof: false }.run(&mut |pair| pairs.push(pair))?;
    Ok(pairs)
}

/// Parses a file up to its first malformed line, and passes each pair to `take`. Returns true if no
/// line is malformed. Each key repeats the name of its section, so the keys of a hostile file may
/// need many times the memory of the file.
pub fn parse_leading(bytes: &[u8], take: &mut dyn FnMut(Pair)) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Parser { bytes, at: 0, line: 1, eof: false }.run(take).is_ok()
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The line number of the character that the next call of `next` returns.
    line: usize,
    eof: bool,
}

/// Git's values are C strings.
fn up_to_nul(mut value: BString) -> BString {
    let end = value.find_byte(0).unwrap_or(value.len());
    value.truncate(end);
    value
}

/// A malformed line. The parser holds its number.
struct Bad;

impl Parser<'_> {
    fn run(&mut self, take: &mut dyn FnMut(Pair)) -> Result<(), BadLine> {
        let mut section = BString::default();
        loop {
            let line = self.line;
            match self.next() {
                b'\n' if self.eof => return Ok(()),
                c if is_space(c) => {}
                b'#' | b';' => while self.next() != b'\n' {},
                b'[' => {
                    section = self.section().map_err(|Bad| BadLine(self.bad_line(line)))?;
                    if section.is_empty() {
                        return Err(BadLine(line));
                    }
                    section.push(b'.');
                }
                c if c.is_ascii_alphabetic() => {
                    let mut key = section.clone();
                    key.push(c.to_ascii_lowercase());
                    let value = self.variable(&mut key).map_err(|Bad| BadLine(self.bad_line(line)))?;
                    take(Pair { key, value: value.map(up_to_nul), line: self.line - 1 });
                }
                _ => return Err(BadLine(line)),
            }
            if self.eof {
                return Ok(());
            }
        }
    }

    /// Returns the line of an error: the line on which the parser noticed it, not the one after its
    /// line end.
    fn bad_line(&self, start: usize) -> usize {
        let consumed_line_end = self.eof || self.bytes[..self.at].last() == Some(&b'\n');
        if consumed_line_end { (self.line - 1).max(start) } else { self.line }
    }

    /// Returns the next character. `\r\n` counts as one, and the end of the file as a line end.
    fn next(&mut self) -> u8 {
        let Some(&c) = self.bytes.get(self.at) else {
            if !self.eof {
                self.line += 1;
            }
            self.eof = true;
            return b'\n';
        };
        self.at += 1;
        let c = match c {
            b'\r' if self.bytes.get(self.at) == Some(&b'\n') => {
                self.at += 1;
                b'\n'
            }
            c => c,
        };
        if c == b'\n' {
            self.line += 1;
        }
        c
    }

    /// Parses the text after `[`: `name]`, `name.old-style]` or `name "subsection"]`.
    fn section(&mut self) -> Result<BString, Bad> {
        let mut name = BString::default();
        loop {
            match self.next() {
                _ if self.eof => return Err(Bad),
                b']' => return Ok(name),
                b'\n' => return Err(Bad),
                c if is_space(c) => break,
                c if is_key(c) || c == b'.' => name.push(c.to_ascii_lowercase()),
                _ => return Err(Bad),
            }
        }
        loop {
            match self.next() {
                b'\n' => return Err(Bad),
                b'"' => break,
                c if is_space(c) => {}
                _ => return Err(Bad),
            }
        }
        name.push(b'.');
        loop {
            match self.next() {
                b'\n' => return Err(Bad),
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return Err(Bad),
                    c => name.push(c),
                },
                c => name.push(c),
            }
        }
        if self.next() == b']' { Ok(name) } else { Err(Bad) }
    }

    /// Parses the rest of a name after its first letter, and the value.
    fn variable(&mut self, key: &mut BString) -> Result<Option<BString>, Bad> {
        let mut c = self.next();
        while !self.eof && is_key(c) {
            key.push(c.to_ascii_lowercase());
            c = self.next();
        }
        while c == b' ' || c == b'\t' {
            c = self.next();
        }
        match c {
            b'\n' => Ok(None),
            b'=' => self.value().map(Some),
            _ => Err(Bad),
        }
    }

    fn value(&mut self) -> Result<BString, Bad> {
        let mut value = BString::default();
        let mut quoted = false;
        // Length of the value without trailing blanks. Blanks count only if something follows them.
        let mut trimmed = None;
        loop {
            let c = self.next();
            match c {
                b'\n' if quoted => return Err(Bad),
                b'\n' => {
                    if let Some(len) = trimmed {
                        value.truncate(len);
                    }
                    return Ok(value);
                }
                c if is_space(c) && !quoted => {
                    trimmed.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(c);
                    }
                    continue;
                }
                b'#' | b';' if !quoted => {
                    while self.next() != b'\n' {}
                    if let Some(len) = trimmed {
                        value.truncate(len);
                    }
                    return Ok(value);
                }
                _ => trimmed = None,
            }
            match c {
                b'\\' => match self.next() {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    c @ (b'\\' | b'"') => value.push(c),
                    _ => return Err(Bad),
                },
                b'"' => quoted = !quoted,
                c => value.push(c),
            }
        }
    }
}

/// Returns true for the blanks of Git's `isspace`, which has no vertical tab and no form feed.
fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, Option<String>)> {
        parse(text.as_bytes())
            .expect("in the grammar")
            .into_iter()
            .map(|pair| (pair.key.to_string(), pair.value.map(|value| value.to_string())))
            .collect()
    }

    #[test]
    fn parses_sections_names_and_values() {
        let some = |value: &str| Some(value.to_owned());
        assert_eq!(
            pairs(
                "\u{feff}[Core]\r\n\tBare = false ; no\n[remote \"O\\\"rigin\"] url=a b \n flag\n[a.B]c=\"x ;\" y #z"
            ),
            [
                ("core.bare".into(), some("false")),
                ("remote.O\"rigin.url".into(), some("a b")),
                ("remote.O\"rigin.flag".into(), None),
                ("a.b.c".into(), some("x ; y")),
            ]
        );
    }

    #[test]
    fn parses_continuations_and_escapes() {
        assert_eq!(pairs("[a]b = x\\\n y\\t\\\\\n")[0].1.as_deref(), Some("x y\t\\"));
        assert_eq!(pairs("[a]b =")[0].1.as_deref(), Some(""));
        assert_eq!(pairs("[a]b = x\0y\nc = \"\0\"\n")[0].1.as_deref(), Some("x"));
    }

    #[test]
    fn numbers_bad_lines() {
        for (text, line) in [
            ("[a]\nb = \"x\n", 2),
            ("[a]\n\n%", 3),
            ("[a", 1),
            ("[a]\nb = \\x\nc=1\n", 2),
            ("[a \"x\n\"]\n", 1),
            ("[]\n", 1),
            ("[a]\nb c\nd=1", 2),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(BadLine(line)), "{text:?}");
        }
    }
}
