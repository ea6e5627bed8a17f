//! Deflates objects for loose files and for packs.

use std::sync::{Mutex, PoisonError};

use format::{Kind, ObjectId, pack};
use zlib_rs::{Deflate, DeflateFlush, Status, compress_bound, crc32::crc32};

use super::PIECE;
use crate::Error;

const WINDOW_BITS: u8 = 15;

/// Makes entries of packs. Workers share its deflate streams: creating one costs as much as
/// deflating some kilobytes.
pub struct Deflaters {
    level: i32,
    idle: Mutex<Vec<Deflate>>,
}

impl Deflaters {
    /// `level` is zlib's.
    pub fn new(level: i32) -> Deflaters {
        Deflaters { level, idle: Mutex::default() }
    }

    /// Returns the entry of an object in a pack, header included, and its CRC-32.
    pub fn entry_of(&self, kind: Kind, content: &[u8]) -> (Vec<u8>, u32) {
        let mut entry = Vec::new();
        pack::encode_entry(kind, content.len() as u64, &mut entry);
        self.deflate(&mut entry, content);
        let sum = crc32(0, &entry);
        (entry, sum)
    }

    /// Returns the entry of a delta against the object `base`, which may be in another pack.
    pub fn delta_of(&self, base: &ObjectId, delta: &[u8]) -> Vec<u8> {
        let mut entry = Vec::new();
        pack::encode_ref_delta(base, delta.len() as u64, &mut entry);
        self.deflate(&mut entry, delta);
        entry
    }

    fn deflate(&self, entry: &mut Vec<u8>, content: &[u8]) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let used = idle().pop();
        let mut stream = match used {
            Some(mut stream) => {
                stream.reset();
                stream
            }
            None => Deflate::new(self.level, true, WINDOW_BITS),
        };
        append_deflated(entry, content, &mut stream);
        idle().push(stream);
    }
}

/// Returns the content of a loose object's file. `object` includes the header.
pub(super) fn deflate(object: &[u8], level: i32) -> Vec<u8> {
    let mut deflated = Vec::new();
    append_deflated(&mut deflated, object, &mut Deflate::new(level, true, WINDOW_BITS));
    deflated
}

fn append_deflated(out: &mut Vec<u8>, data: &[u8], stream: &mut Deflate) {
    // One call takes less than 4 GiB of input, and with `Finish` would end the stream there.
    const MOST: usize = 1 << 30;
    append_in_calls(out, data, stream, MOST);
}

/// Deflates `data` in calls with at most `most` bytes each.
fn append_in_calls(out: &mut Vec<u8>, data: &[u8], stream: &mut Deflate, most: usize) {
    let start = out.len();
    out.resize(start + compress_bound(data.len()), 0);
    let done = |stream: &Deflate| {
        let number = |total: u64| usize::try_from(total).expect("no longer than its room");
        (number(stream.total_in()), number(stream.total_out()))
    };
    loop {
        let before = done(stream);
        let rest = &data[before.0..];
        let now = &rest[..rest.len().min(most)];
        let flush = if now.len() == rest.len() { DeflateFlush::Finish } else { DeflateFlush::NoFlush };
        let status = stream.compress(now, &mut out[start + before.1..], flush);
        if status == Ok(Status::StreamEnd) {
            break;
        }
        let goes_on = status == Ok(Status::Ok) && done(stream) != before;
        assert!(goes_on, "there is room for whatever it may become");
    }
    out.truncate(start + done(stream).1);
}

/// Deflates data that arrive in pieces.
pub(super) struct Deflater {
    stream: Deflate,
    room: Vec<u8>,
}

impl Deflater {
    pub(super) fn new(level: i32) -> Deflater {
        Deflater { stream: Deflate::new(level, true, WINDOW_BITS), room: vec![0; PIECE] }
    }

    /// Deflates all of `input` and writes the output produced so far; with `Finish`, all remaining
    /// output.
    pub(super) fn push(
        &mut self,
        mut input: &[u8],
        flush: DeflateFlush,
        write: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
        failed: impl Fn(&'static str) -> Error,
    ) -> Result<(), Error> {
        loop {
            let (before_in, before_out) = (self.stream.total_in(), self.stream.total_out());
            let status = self.stream.compress(input, &mut self.room, flush);
            let (took, made) = (self.stream.total_in() - before_in, self.stream.total_out() - before_out);
            input = &input[usize::try_from(took).expect("no more than there is")..];
            let made = &self.room[..usize::try_from(made).expect("no more than there is room for")];
            write(made)?;
            let rests = flush == DeflateFlush::NoFlush && input.is_empty() && made.len() < PIECE;
            match status {
                Ok(Status::StreamEnd) => return Ok(()),
                _ if rests => return Ok(()),
                // Without progress the loop would not end.
                Err(error) if took == 0 && made.is_empty() => return Err(failed(error.as_str())),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use zlib_rs::{Inflate, InflateFlush};

    use super::*;
    use crate::objects::DEFAULT_LEVEL;

    #[test]
    fn a_deflater_without_progress_is_an_error() {
        let mut deflater = Deflater::new(DEFAULT_LEVEL);
        let failed =
            |reason| Error::Io { what: "deflate", path: "x".into(), source: io::Error::other(reason) };
        let mut push = |input: &[u8], flush| deflater.push(input, flush, &mut |_| Ok(()), failed);
        push(b"all", DeflateFlush::NoFlush).expect("a beginning");
        push(b"", DeflateFlush::Finish).expect("an end");
        push(b"more", DeflateFlush::NoFlush).expect_err("nothing can follow");
    }

    #[test]
    fn many_calls_make_one_stream() {
        let data: Vec<u8> =
            (0..50_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
        for level in [0, 1, 6, 9] {
            for len in [0, 1, 4096, data.len()] {
                let mut made = b"before".to_vec();
                let mut stream = Deflate::new(level, true, WINDOW_BITS);
                append_in_calls(&mut made, &data[..len], &mut stream, 4096);
                let mut back = vec![0; len + 1];
                let mut inflate = Inflate::new(true, WINDOW_BITS);
                let status = inflate.decompress(&made[6..], &mut back, InflateFlush::Finish);
                assert_eq!(status, Ok(Status::StreamEnd), "level {level}, {len} bytes");
                assert_eq!(inflate.total_in(), made.len() as u64 - 6);
                assert!(back[..len] == data[..len], "level {level}, {len} bytes");
            }
        }
    }
}
