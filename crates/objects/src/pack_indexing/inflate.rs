//! Inflates entries of a stream that may not have delivered all their bytes yet.

use format::hash::Hasher;
use sirocco::{
    Format,
    inflate::{Decoder, Error as Inflate},
};

use super::{Error, error::Flaw, input::Input};

/// The zlib statuses that occur in Git's messages.
const STREAM_END: i32 = 1;
const NEEDS_DICTIONARY: i32 = 2;
const DATA_ERROR: i32 = -3;
const BUFFER_ERROR: i32 = -5;

/// The buffer size for inflating an object that is not kept in memory.
const WINDOW: usize = 256 << 10;

/// Inflates entries of one stream.
pub(super) struct Inflater {
    decoder: Box<Decoder>,
    window: Vec<u8>,
}

/// How to handle an object that is not kept in memory and is longer than its header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// Stop at once: Git has a buffer of the stated size.
    Stops,
    /// Inflate to the end and count the bytes: Git notices the difference at the end.
    IsCounted,
}

impl Inflater {
    pub(super) fn new() -> Inflater {
        Inflater { decoder: Box::new(Decoder::new(Format::Zlib)), window: Vec::new() }
    }

    /// Inflates the entry at `offset`, whose compressed bytes come next, into `out`, which it must
    /// fill exactly.
    pub(super) fn whole(&mut self, input: &mut Input<'_>, out: &mut [u8], offset: u64) -> Result<(), Error> {
        input.read_ahead()?;
        let (size, bad) = (out.len(), |status, complaint| flawed(offset, status, complaint));
        match self.decoder.decompress(input.unread(), out, true) {
            Ok(done) if done.done => {
                let (used, len) = (done.consumed, done.output.len());
                input.advance(used)?;
                return if len == size { Ok(()) } else { Err(bad(STREAM_END, None)) };
            }
            Ok(_) | Err(Inflate::BufferFull) => {
                self.decoder.reset();
                return Err(bad(BUFFER_ERROR, None));
            }
            // The stream has more bytes.
            Err(Inflate::Truncated) => self.decoder.reset(),
            Err(error) => {
                self.decoder.reset();
                return Err(failed(offset, error, complaint(input.unread())));
            }
        }
        loop {
            let unread = input.fill(1)?;
            match self.decoder.decompress(unread, out, false) {
                Ok(step) => {
                    let (used, done) = (step.consumed, step.done);
                    input.advance(used)?;
                    if done && self.decoder.total_out() == size as u64 {
                        return Ok(());
                    }
                    if done {
                        return Err(bad(STREAM_END, None));
                    }
                }
                Err(error) => {
                    self.decoder.reset();
                    return Err(failed(offset, error, None));
                }
            }
        }
    }

    /// Inflates an entry of `size` bytes in pieces, and passes them to `take`.
    pub(super) fn pieces(
        &mut self,
        input: &mut Input<'_>,
        size: u64,
        excess: Excess,
        offset: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        self.window.resize(WINDOW, 0);
        self.decoder.reset();
        loop {
            let unread = input.fill(1)?;
            let step = match self.decoder.decompress(unread, &mut self.window, false) {
                Ok(step) => step,
                Err(error) => {
                    self.decoder.reset();
                    return Err(failed(offset, error, None));
                }
            };
            take(step.output);
            let (used, done, full) = (step.consumed, step.done, step.full);
            input.advance(used)?;
            let len = self.decoder.total_out();
            if len > size && excess == Excess::Stops {
                self.decoder.reset();
                return Err(flawed(offset, BUFFER_ERROR, None));
            }
            if done {
                return if len == size { Ok(()) } else { Err(flawed(offset, STREAM_END, None)) };
            }
            if full {
                self.decoder.make_room(&mut self.window);
            }
        }
    }
}

/// Returns a function that passes pieces to a hash.
pub(super) fn into_hash(hasher: &mut Hasher) -> impl FnMut(&[u8]) {
    |piece| hasher.update(piece)
}

fn flawed(offset: u64, status: i32, complaint: Option<&'static str>) -> Error {
    Error::BadObject { offset, flaw: Flaw::Inflate { status, complaint } }
}

fn failed(offset: u64, error: Inflate, complaint: Option<&'static str>) -> Error {
    match error {
        Inflate::PresetDictionary => flawed(offset, NEEDS_DICTIONARY, None),
        Inflate::BufferFull => flawed(offset, BUFFER_ERROR, None),
        Inflate::ChecksumMismatch => flawed(offset, DATA_ERROR, Some("incorrect data check")),
        _ => flawed(offset, DATA_ERROR, complaint),
    }
}

/// Returns zlib's message for damaged data.
fn complaint(data: &[u8]) -> Option<&'static str> {
    let (mut stream, mut room) = (zlib_rs::Inflate::new(true, 15), vec![0; 32 << 10]);
    let mut rest = data;
    loop {
        let before = (stream.total_in(), stream.total_out());
        let status = stream.decompress(rest, &mut room, zlib_rs::InflateFlush::NoFlush);
        rest = &rest[(stream.total_in() - before.0) as usize..];
        match status {
            Err(_) => {
                // zlib-rs lacks one of zlib's messages.
                let message = stream.error_message()?;
                let is_other = message.starts_with("repeated call");
                return Some(if is_other { "invalid distance too far back" } else { message });
            }
            Ok(zlib_rs::Status::StreamEnd) => return None,
            Ok(_) if (stream.total_in(), stream.total_out()) == before => return None,
            Ok(_) => {}
        }
    }
}
