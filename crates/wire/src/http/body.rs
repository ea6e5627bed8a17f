//! Bodies of requests, compressed above a threshold.

use zlib_rs::{Deflate, DeflateFlush, Status, crc32::crc32};

/// Git does not compress shorter requests. In bytes.
const WORTHWHILE: usize = 1024;

/// Returns the body compressed with gzip; `None` if it is too short.
pub(super) fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() <= WORTHWHILE {
        return None;
    }
    // A header without name and time, and "unknown" for the system.
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let (mut deflate, mut room) = (Deflate::new(6, false, 15), vec![0; 64 << 10]);
    let mut rest = body;
    loop {
        let (read, written) = (deflate.total_in(), deflate.total_out());
        let status = deflate.compress(rest, &mut room, DeflateFlush::Finish).ok()?;
        rest = &rest[usize::try_from(deflate.total_in() - read).ok()?..];
        packed.extend_from_slice(&room[..usize::try_from(deflate.total_out() - written).ok()?]);
        if status == Status::StreamEnd {
            break;
        }
    }
    packed.extend_from_slice(&crc32(0, body).to_le_bytes());
    // The length modulo 2^32, as the format requires.
    packed.extend_from_slice(&(body.len() as u32).to_le_bytes());
    Some(packed)
}
