//! The magic at the front of a pathspec, in its long form (`:(top,icase)`) and its short form
//! (`:/`). Source: gitglossary(7), "pathspec".
//!
//! Words are read from left to right; the first unknown word is an error, with Git's message.

use bstr::{BStr, ByteSlice as _};

use super::{
    Error,
    attr::{self, Requirement},
    fail,
};

/// Punctuation that ends the short form. All other punctuation is magic, known or unknown.
const ORDINARY: &[u8] = b"*?[\\]$()+.{|}";

/// The magic of a pathspec.
#[derive(Default)]
pub(super) struct Magic {
    pub(super) top: bool,
    pub(super) literal: bool,
    pub(super) glob: bool,
    pub(super) icase: bool,
    pub(super) exclude: bool,
    pub(super) attr: Option<Vec<Requirement>>,
    pub(super) prefix: Option<usize>,
}

impl Magic {
    /// Parses the words in parentheses, after the opening parenthesis.
    fn take_words<'a>(&mut self, mut words: &'a BStr, spec: &BStr) -> Result<&'a BStr, Error> {
        loop {
            let (word, rest) = words.split_at(attr::word_length(words));
            match word {
                b"" => {}
                b"top" => self.top = true,
                b"literal" => self.literal = true,
                b"glob" => self.glob = true,
                b"icase" => self.icase = true,
                b"exclude" => self.exclude = true,
                _ if word.starts_with(b"prefix:") => {
                    let length = prefix_length(&word[b"prefix:".len()..])
                        .ok_or_else(|| fail(&[b"invalid parameter for pathspec magic 'prefix'"]))?;
                    self.prefix = usize::try_from(length).ok();
                }
                _ => match word.strip_prefix(b"attr:") {
                    Some(_) if self.attr.is_some() => {
                        return Err(fail(&[b"Only one 'attr:' specification is allowed."]));
                    }
                    Some(requirements) => self.attr = Some(attr::parse(requirements)?),
                    None => return Err(fail(&[b"Invalid pathspec magic '", word, b"' in '", spec, b"'"])),
                },
            }
            match rest.split_first() {
                Some((b',', rest)) => words = rest.as_bstr(),
                Some((_, rest)) => return Ok(rest.as_bstr()),
                None => return Err(fail(&[b"Missing ')' at the end of pathspec magic in '", spec, b"'"])),
            }
        }
    }

    /// Parses and removes the magic at the front of `spec`.
    pub(super) fn take_from<'a>(&mut self, spec: &'a BStr) -> Result<&'a BStr, Error> {
        let Some(after) = spec.strip_prefix(b":") else { return Ok(spec) };
        if let Some(words) = after.strip_prefix(b"(") {
            return self.take_words(words.as_bstr(), spec);
        }
        let mut rest = after;
        while let Some((&sign, behind)) = rest.split_first() {
            match sign {
                b'/' => self.top = true,
                b'!' | b'^' => self.exclude = true,
                b':' => {
                    rest = behind;
                    break;
                }
                _ if sign.is_ascii_punctuation() && !ORDINARY.contains(&sign) => {
                    let sign = [sign];
                    return Err(fail(&[b"Unimplemented pathspec magic '", &sign, b"' in '", spec, b"'"]));
                }
                _ => break,
            }
            rest = behind;
        }
        Ok(rest.as_bstr())
    }
}

/// Parses the number after `prefix:` like C's `strtol` into an `int`: negative and empty numbers
/// are accepted too.
fn prefix_length(number: &[u8]) -> Option<i32> {
    let text = number.trim_start_with(|letter| letter.is_ascii_whitespace() || letter == '\x0b');
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    if number.is_empty() {
        return Some(0);
    }
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let largest = if is_negative { i64::MIN } else { i64::MAX };
    let digits = std::str::from_utf8(digits).ok()?;
    let length = digits.parse().map_or(largest, |length: i64| if is_negative { -length } else { length });
    Some(length as i32)
}
