//! Names on standard input. Each is processed before the next is read, so that another program can
//! send one at a time.

use std::io::BufRead as _;

use bstr::{BString, ByteSlice as _};

use crate::{
    session::{input::Input, invocation::Invocation},
    term::{console::Listing, failure::Failure, text::unquote},
};

/// The names that were not read yet.
pub(crate) struct Names {
    input: Input,
    /// Names end in NUL and are not quoted.
    nul: bool,
}

impl Names {
    /// `nul` is true for `-z`.
    pub(crate) fn new(run: &Invocation, nul: bool) -> Result<Names, Failure> {
        Ok(Names { input: Input::new(run)?, nul })
    }

    /// Returns the next name. Before it waits, it writes `results`, which errors call `what`.
    pub(crate) fn next(&mut self, results: &mut Listing, what: &str) -> Result<Option<BString>, Failure> {
        let end = if self.nul { b'\0' } else { b'\n' };
        let mut line = BString::default();
        loop {
            let here = self.input.buffer();
            if let Some(at) = here.find_byte(end) {
                line.extend_from_slice(&here[..at]);
                self.input.consume(at + 1);
                break;
            }
            line.extend_from_slice(here);
            let taken = here.len();
            self.input.consume(taken);
            results.write(what)?;
            if self.input.more()?.is_empty() {
                if line.is_empty() {
                    return Ok(None);
                }
                break;
            }
        }
        if self.nul {
            return Ok(Some(line));
        }
        // In Git the line is a C string.
        let length = line.find_byte(0).unwrap_or(line.len());
        line.truncate(length);
        match line.first() {
            Some(b'"') => {
                let unquoted = unquote(&line).map(|(plain, _)| plain);
                unquoted.map(Some).ok_or_else(|| Failure::fatal("line is badly quoted"))
            }
            _ => Ok(Some(line)),
        }
    }
}
