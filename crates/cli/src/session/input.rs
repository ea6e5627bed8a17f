//! Standard input with a buffer, and with waits that a signal interrupts ([`Stdin`]).
//!
//! No other code may read standard input while an [`Input`] exists, because it reads ahead.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use bstr::ByteSlice as _;
use sapwood::FileType;

use crate::{
    session::invocation::Invocation,
    term::{
        failure::Failure,
        files,
        stdin::{self, Stdin},
    },
};

pub(crate) use crate::term::stdin::{file_size, is_file, was_consumed};

/// Notes that a file which the user named is about to be read. Another program can read a regular
/// file again, but not a pipe.
pub(crate) fn note_read(path: &Path) {
    let stat = files::stat_followed(path).ok().flatten();
    if stat.is_some_and(|stat| stat.file_type != FileType::File) {
        stdin::note_consumed();
    }
}

/// The size of a read, in bytes.
const SIZE: usize = 256 << 10;

/// Standard input.
///
/// Its [`Read`] and [`BufRead`] fail when a signal arrives. Callers then call
/// [`Interrupt::check`](crate::term::interrupt::Interrupt::check) before they report the error.
pub(crate) struct Input {
    buffered: BufReader<Stdin>,
}

impl Input {
    /// Returns standard input for `run`.
    pub(crate) fn new(run: &Invocation) -> Result<Input, Failure> {
        let stdin = Stdin::new(run.interrupt);
        let stdin = stdin.map_err(|error| Failure::fatal(format!("cannot handle signals: {error}")))?;
        Ok(Input { buffered: BufReader::with_capacity(SIZE, stdin) })
    }

    /// Clears `line` and reads into it up to `end`, which is left out. Returns false at the end of
    /// the input. As in Git, a read error counts as the end.
    pub(crate) fn line(&mut self, end: u8, line: &mut Vec<u8>) -> Result<bool, Failure> {
        Ok(self.raw_line(end, line)? && {
            if line.last() == Some(&end) {
                line.pop();
            }
            true
        })
    }

    /// Like [`Input::line`], but keeps `end`, which the last line may lack.
    pub(crate) fn raw_line(&mut self, end: u8, line: &mut Vec<u8>) -> Result<bool, Failure> {
        line.clear();
        let read = self.buffered.read_until(end, line);
        self.buffered.get_ref().interrupt.check()?;
        Ok(read.is_ok() && !line.is_empty())
    }

    /// Reads the rest of the input. The inner result is the system's.
    pub(crate) fn all(&mut self) -> Result<io::Result<Vec<u8>>, Failure> {
        let mut content = Vec::new();
        let read = self.buffered.read_to_end(&mut content);
        self.buffered.get_ref().interrupt.check()?;
        Ok(read.map(|_| content))
    }

    /// Returns true if the buffer holds a complete line, so that reading it needs no wait.
    pub(crate) fn is_at_hand(&self, end: u8) -> bool {
        self.buffered.buffer().find_byte(end).is_some()
    }

    /// Fills the buffer if it is empty, and returns it. It is empty at the end of the input. As in
    /// Git, a read error counts as the end.
    pub(crate) fn more(&mut self) -> Result<&[u8], Failure> {
        let interrupt = self.buffered.get_ref().interrupt;
        match self.buffered.fill_buf() {
            Ok(more) => Ok(more),
            Err(_) => interrupt.check().map(|()| &[][..]),
        }
    }

    /// Returns the bytes that were read and not yet consumed.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.buffered.buffer()
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.buffered.read(buffer)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.buffered.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.buffered.consume(amount);
    }
}
