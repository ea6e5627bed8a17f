//! Wildcards: `*`, `?`, `[...]`, `\` and, between slashes, `**`. Source: gitignore(5),
//! gitglossary(7) "pathspec".
//!
//! This is the only matcher. Ignore rules, attributes, sparse patterns, pathspecs, diff orders and
//! conditions of the configuration all use it. [`crate::pattern`] adds the rules for lines of
//! ignore and attribute files. A match allocates no memory. Its time is polynomial: after a
//! mismatch it retries only the last `*` and the last `**`. `docs/design/patterns.md` shows that
//! this finds every match.

use bstr::ByteSlice as _;

/// Options of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// `*`, `?` and brackets do not match a slash, and `**` between slashes matches any number of
    /// directories.
    pub pathname: bool,
    /// ASCII letters match in either case.
    pub icase: bool,
}

/// Returns true if `byte` is a special character in a pattern.
pub fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Returns the length of the part of `pattern` before its first special byte.
pub fn literal_length(pattern: &[u8]) -> usize {
    pattern.iter().position(|&byte| is_special(byte)).unwrap_or(pattern.len())
}

/// Returns true if `pattern` matches all of `text`.
pub fn wildmatch(pattern: &[u8], text: &[u8], mode: Mode) -> bool {
    let mut matcher = Matcher { pattern, text, mode, place: 0, at: 0, within: None, across: None };
    loop {
        match matcher.step() {
            Step::Go => {}
            Step::Mismatch => {
                if !matcher.retry() {
                    return false;
                }
            }
            Step::End(is_match) => return is_match,
        }
    }
}

struct Matcher<'a> {
    pattern: &'a [u8],
    text: &'a [u8],
    mode: Mode,
    /// The next byte of the pattern.
    place: usize,
    /// The next byte of the text.
    at: usize,
    /// The last star that stops at slashes.
    within: Option<Star>,
    /// The last star that may cross slashes.
    across: Option<Star>,
}

/// A star that can be extended to match more text.
struct Star {
    /// The position in the pattern after the star.
    behind: usize,
    /// The first position in the text where the rest of the pattern may match.
    from: usize,
    /// The last position in the text where the rest of the pattern may match.
    limit: usize,
}

enum Step {
    Go,
    Mismatch,
    /// The final result: no retry can change it.
    End(bool),
}

impl Matcher<'_> {
    fn step(&mut self) -> Step {
        let Some(&wanted) = self.pattern.get(self.place) else {
            return if self.at == self.text.len() { Step::End(true) } else { Step::Mismatch };
        };
        if wanted == b'*' {
            return self.star();
        }
        // If the star matched more, even less text would be left.
        let Some(&byte) = self.text.get(self.at) else { return Step::End(false) };
        let byte = self.fold(byte);
        self.place += 1;
        self.at += 1;
        let is_slash = self.mode.pathname && byte == b'/';
        let is_match = match wanted {
            b'?' => !is_slash,
            b'[' => match class(&self.pattern[self.place..], byte, self.mode.icase) {
                Some((is_member, length)) => {
                    self.place += length;
                    is_member && !is_slash
                }
                // The class is malformed, and every match would have to pass it.
                None => return Step::End(false),
            },
            // Git does not ignore the case of an escaped letter.
            b'\\' => {
                let escaped = self.pattern.get(self.place).copied();
                self.place += 1;
                escaped == Some(byte)
            }
            _ => self.fold(wanted) == byte,
        };
        if is_match { Step::Go } else { Step::Mismatch }
    }

    /// Handles a run of stars, which first matches as little as possible.
    fn star(&mut self) -> Step {
        let start = self.place;
        let rest = self.pattern[start..].trim_start_with(|letter| letter == '*');
        let behind = self.pattern.len() - rest.len();
        let begins_component = start == 0 || self.pattern[start - 1] == b'/';
        let ends_component = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
        let is_double = behind - start > 1 && begins_component && ends_component;
        let crosses = !self.mode.pathname || is_double;
        let limit = if crosses {
            self.text.len()
        } else {
            self.text[self.at..].find_byte(b'/').map_or(self.text.len(), |slash| self.at + slash)
        };
        if rest.is_empty() {
            // Only a slash can follow, so no other star of the component can help.
            self.within = None;
            return if limit == self.text.len() { Step::End(true) } else { Step::Mismatch };
        }
        let star = Star { behind, from: self.at, limit };
        if !crosses {
            self.within = Some(star);
            return Step::Mismatch;
        }
        self.across = Some(star);
        self.within = None;
        if self.mode.pathname && rest[0] == b'/' {
            // `**/` first tries to match no directory at all.
            self.place = behind + 1;
            return Step::Go;
        }
        Step::Mismatch
    }

    /// Retries with the last star matching more. Returns false if that is impossible.
    fn retry(&mut self) -> bool {
        if self.retry_from(false) {
            return true;
        }
        self.within = None;
        self.retry_from(true)
    }

    fn retry_from(&mut self, crosses: bool) -> bool {
        let star = if crosses { &self.across } else { &self.within };
        let Some(&Star { behind, from, limit }) = star.as_ref() else { return false };
        let next = self.pattern[behind];
        let candidates = self.text.get(from..self.text.len().min(limit + 1)).unwrap_or_default();
        let skipped = if is_special(next) {
            (!candidates.is_empty()).then_some(0)
        } else {
            let next = self.fold(next);
            candidates.iter().position(|&byte| self.fold(byte) == next)
        };
        let Some(skipped) = skipped else { return false };
        (self.place, self.at) = (behind, from + skipped);
        let star = Some(Star { behind, from: self.at + 1, limit });
        if crosses {
            self.across = star
        } else {
            self.within = star
        }
        true
    }

    fn fold(&self, byte: u8) -> u8 {
        if self.mode.icase { byte.to_ascii_lowercase() } else { byte }
    }
}

/// Parses a bracket expression after its `[`. Returns true if `byte` is a member, and the length of
/// the expression. Returns `None` if the expression does not end, or names an unknown class.
///
/// Git folds only the case of `byte`: with `icase`, `[A]` has no members, but `[A-A]` and
/// `[[:upper:]]` have.
fn class(expression: &[u8], byte: u8, icase: bool) -> Option<(bool, usize)> {
    let is_negated = matches!(expression.first()?, b'!' | b'^');
    let mut members = Members { rest: &expression[usize::from(is_negated)..], byte, icase, found: false };
    let mut low = None;
    let mut is_first = true;
    loop {
        let next = members.take()?;
        if next == b']' && !is_first {
            let length = expression.len() - members.rest.len();
            return Some((members.found != is_negated, length));
        }
        is_first = false;
        low = match (next, low) {
            (b'\\', _) => Some(members.single_escaped()?),
            (b'-', Some(low)) if members.rest.first().is_some_and(|&high| high != b']') => {
                members.range(low)?;
                None
            }
            (b'[', _) if members.rest.starts_with(b":") => members.named()?,
            _ => Some(members.single(next)),
        };
    }
}

/// Checks the members of a bracket expression, one after the other.
struct Members<'a> {
    rest: &'a [u8],
    byte: u8,
    icase: bool,
    /// True if one of the previous members matches `byte`.
    found: bool,
}

impl Members<'_> {
    fn take(&mut self) -> Option<u8> {
        let (&next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(next)
    }

    /// A literal byte, even as the start of a range.
    fn single(&mut self, member: u8) -> u8 {
        self.found |= member == self.byte;
        member
    }

    fn single_escaped(&mut self) -> Option<u8> {
        let member = self.take()?;
        Some(self.single(member))
    }

    /// A range from `low` to the member that follows.
    fn range(&mut self, low: u8) -> Option<()> {
        let high = match self.take()? {
            b'\\' => self.take()?,
            high => high,
        };
        let range = low..=high;
        self.found |= range.contains(&self.byte)
            || self.icase
                && self.byte.is_ascii_lowercase()
                && range.contains(&self.byte.to_ascii_uppercase());
        Some(())
    }

    /// Handles a class like `[:alpha:]`. An ordinary bracket is returned, because it may begin a
    /// range.
    fn named(&mut self) -> Option<Option<u8>> {
        let end = 1 + self.rest[1..].find_byte(b']')?;
        let Some(name) = self.rest[1..end].strip_suffix(b":") else {
            return Some(Some(self.single(b'[')));
        };
        self.found |= is_of_class(name, self.byte, self.icase)?;
        self.rest = &self.rest[end + 1..];
        Some(None)
    }
}

/// Returns `None` if no class has this name.
fn is_of_class(name: &[u8], byte: u8, icase: bool) -> Option<bool> {
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
        // Git includes neither vertical tab nor form feed.
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase() || icase && byte.is_ascii_lowercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
