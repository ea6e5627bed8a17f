//! Wildcards: `*`, `?`, `[...]`, `\` and, between slashes, `**`. Source: gitignore(5), gitglossary(7) "pathspec".
//!
//! This is the only matcher. Ignore rules, attributes, sparse patterns, pathspecs, orders of a diff and
//! conditions of the configuration all use it; [`crate::pattern`] adds what lines of ignore and attribute
//! files mean. A match takes no memory, and its time is bounded by a polynomial: after a mismatch only the
//! last `*` and the last `**` are tried again. `docs/design/patterns.md` shows that this finds every match.

use bstr::ByteSlice as _;

/// How wildcards match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// `*`, `?` and brackets do not match a slash; `**` between slashes matches any number of directories.
    pub pathname: bool,
    /// ASCII letters match in either case.
    pub icase: bool,
}

/// Returns true if `byte` has a meaning of its own in a pattern.
pub fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// The length of the part of `pattern` before its first special byte.
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
    /// The last star that crosses slashes.
    across: Option<Star>,
}

/// A star that may match more than it does.
struct Star {
    /// Where the pattern goes on behind it.
    behind: usize,
    /// Where the text may go on behind it: from here...
    from: usize,
    /// ...up to here.
    limit: usize,
}

enum Step {
    Go,
    Mismatch,
    /// No further try can change the answer.
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
        // A star that matched more would leave even less text.
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
                // Every match would have to pass this class.
                None => return Step::End(false),
            },
            // Git does not fold the case of an escaped letter.
            b'\\' => {
                let escaped = self.pattern.get(self.place).copied();
                self.place += 1;
                escaped == Some(byte)
            }
            _ => self.fold(wanted) == byte,
        };
        if is_match { Step::Go } else { Step::Mismatch }
    }

    /// Takes a run of stars, and lets it match as little as it can.
    fn star(&mut self) -> Step {
        let start = self.place;
        let rest = self.pattern[start..].trim_start_with(|letter| letter == '*');
        let behind = self.pattern.len() - rest.len();
        let begins_component = start == 0 || self.pattern[start - 1] == b'/';
        let ends_component = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
        let is_double = behind - start > 1 && begins_component && ends_component;
        let crosses = !self.mode.pathname || is_double;
        let limit = match crosses {
            true => self.text.len(),
            false => self.text[self.at..].find_byte(b'/').map_or(self.text.len(), |slash| self.at + slash),
        };
        if rest.is_empty() {
            // Before a slash no other star of the component can help.
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
            // `**/` matches no directory at all before it matches some.
            self.place = behind + 1;
            return Step::Go;
        }
        Step::Mismatch
    }

    /// Goes on where the last star matches more.
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
        let skipped = match is_special(next) {
            true => (!candidates.is_empty()).then_some(0),
            false => {
                let next = self.fold(next);
                candidates.iter().position(|&byte| self.fold(byte) == next)
            }
        };
        let Some(skipped) = skipped else { return false };
        (self.place, self.at) = (behind, from + skipped);
        let star = Some(Star { behind, from: self.at + 1, limit });
        match crosses {
            true => self.across = star,
            false => self.within = star,
        }
        true
    }

    fn fold(&self, byte: u8) -> u8 {
        if self.mode.icase { byte.to_ascii_lowercase() } else { byte }
    }
}

/// A bracket expression after its `[`: whether `byte` is a member, and the length of the expression. `None` if the
/// expression does not end, or names a class that does not exist.
///
/// Git folds the case of `byte` alone: with `icase`, `[A]` has no members, but `[A-A]` and `[[:upper:]]` have.
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

/// The members of a bracket expression, one after the other.
struct Members<'a> {
    rest: &'a [u8],
    byte: u8,
    icase: bool,
    /// True if `byte` was among the members so far.
    found: bool,
}

impl Members<'_> {
    fn take(&mut self) -> Option<u8> {
        let (&next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(next)
    }

    /// A byte that stands for itself. It stands for itself also where it begins a range that has no other members.
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

    /// A class like `[:alpha:]`, or an ordinary bracket, which is returned as it may begin a range.
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

/// `None` if no class has this name.
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
        // Git counts neither vertical tab nor form feed.
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase() || icase && byte.is_ascii_lowercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
