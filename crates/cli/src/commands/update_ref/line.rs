//! The arguments of one command of `update-ref --stdin`, parsed like Git.
//!
//! Without `-z` a command is a line of words, which may be quoted as in C. With `-z` each argument
//! ends in NUL.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::refs;

use crate::term::{console::text, failure::Failure, text::unquote};

/// A command, and the position of the parser in it.
pub(super) struct Line<'a> {
    /// The command with its terminator, including all arguments.
    bytes: &'a [u8],
    at: usize,
    nul: bool,
}

/// An optional argument.
pub(super) enum Argument {
    /// The input ends before the argument.
    EndOfInput,
    /// The argument is missing.
    None,
    /// The argument; it may be empty.
    Given(BString),
}

/// Like Git's `isspace`.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn fatal(message: BString) -> Failure {
    Failure::Fatal(message)
}

impl<'a> Line<'a> {
    /// Parses a command from `at` on, after its name and the space.
    pub(super) fn new(bytes: &'a [u8], at: usize, nul: bool) -> Line<'a> {
        Line { bytes, at, nul }
    }

    /// Returns the next byte; NUL at the end, as in C.
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn end(&self) -> u8 {
        if self.nul { 0 } else { b'\n' }
    }

    /// Returns the rest of the text, up to a NUL.
    pub(super) fn rest(&self) -> &'a BStr {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest[..rest.find_byte(0).unwrap_or(rest.len())].as_bstr()
    }

    /// Reads a word, or with `-z` all bytes up to a NUL.
    fn word(&mut self) -> Result<BString, Failure> {
        let rest = self.rest();
        if self.nul {
            self.at += rest.len();
            return Ok(rest.to_owned());
        }
        if rest.starts_with(b"\"") {
            let bad = || fatal(text!("badly quoted argument: ", rest));
            let (word, after) = unquote(rest).ok_or_else(bad)?;
            if after.first().is_some_and(|byte| !is_space(*byte)) {
                return Err(fatal(text!("unexpected character after quoted argument: ", rest)));
            }
            self.at += rest.len() - after.len();
            return Ok(word);
        }
        let word = &rest[..rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len())];
        self.at += word.len();
        Ok(word.into())
    }

    /// Reads the name of a ref; `None` if it is empty.
    pub(super) fn refname(&mut self) -> Result<Option<BString>, Failure> {
        let mut name = self.word()?;
        let length = name.find_byte(0).unwrap_or(name.len());
        name.truncate(length);
        match name.is_empty() {
            true => Ok(None),
            false if !refs::is_valid(name.as_bstr()) => Err(fatal(text!("invalid ref format: ", name))),
            false => Ok(Some(name)),
        }
    }

    /// Skips the separator before another argument. Returns false if there is no argument.
    fn skip(&mut self) -> Result<bool, Failure> {
        match self.byte() {
            0 if self.nul => {}
            _ if self.nul => return Ok(false),
            0 | b'\n' => return Ok(false),
            b' ' => {}
            _ => return Err(fatal(text!("expected SP but got: ", self.rest()))),
        }
        self.at += 1;
        Ok(true)
    }

    /// Reads the name of another ref, if any.
    pub(super) fn next_refname(&mut self) -> Result<Option<BString>, Failure> {
        if self.skip()? { self.refname() } else { Ok(None) }
    }

    /// Reads another argument; `None` if it is missing or empty.
    pub(super) fn next_word(&mut self) -> Result<Option<BString>, Failure> {
        if !self.skip()? {
            return Ok(None);
        }
        Ok(Some(self.word()?).filter(|word| !word.is_empty()))
    }

    /// Reads the argument that names an object.
    pub(super) fn next_object(&mut self, command: &str, name: &BStr) -> Result<Argument, Failure> {
        let wrong = |what: &str, rest: &BStr| {
            fatal(text!(command, " ", name, ": expected ", what, " but got: ", rest))
        };
        if self.at >= self.bytes.len() {
            return Ok(Argument::EndOfInput);
        }
        match self.byte() {
            0 if self.nul => {}
            _ if self.nul => return Err(wrong("NUL", self.rest())),
            0 | b'\n' => return Ok(Argument::None),
            b' ' => {}
            _ => return Err(wrong("SP", self.rest())),
        }
        self.at += 1;
        if self.nul && self.at >= self.bytes.len() {
            return Ok(Argument::EndOfInput);
        }
        Ok(Argument::Given(self.word()?))
    }

    /// Returns an error if text is left. `what` is the command, with the name of its ref.
    pub(super) fn finish(&self, what: impl AsRef<[u8]>) -> Result<(), Failure> {
        if self.byte() == self.end() {
            Ok(())
        } else {
            Err(fatal(text!(what, ": extra input: ", self.rest())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_words_apart() {
        let mut line = Line::new(b"update \"refs/a\\tb\" refs/x \n", 7, false);
        assert_eq!(line.word().expect("a word"), "refs/a\tb");
        assert_eq!(line.next_refname().expect("a name").expect("given"), "refs/x");
        assert_eq!(line.next_word().expect("a word"), None);
        assert!(line.finish("update").is_ok());

        let mut line = Line::new(b"update refs/a\0\0x y\0", 7, true);
        assert_eq!(line.refname().expect("a name").expect("given"), "refs/a");
        assert_eq!(line.next_word().expect("a word"), None);
        assert_eq!(line.next_word().expect("a word").expect("given"), "x y");
        assert!(line.finish("update").is_ok());
    }
}
