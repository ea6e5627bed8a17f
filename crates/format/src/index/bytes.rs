//! Taking numbers and pieces off the front of hostile bytes, and Git's two compact encodings of them.

use bstr::{BStr, ByteSlice};

use super::Stat;
use crate::{HashKind, ObjectId};

/// Size of a [`Stat`] where it stands alone (UNTR).
pub(super) const STAT_SIZE: usize = 36;

/// The bytes not read yet. Every method is `None` when there are too few.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (piece, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(piece)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (piece, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*piece)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn oid(&mut self, hash: HashKind) -> Option<ObjectId> {
        ObjectId::from_bytes(hash, self.take(hash.len())?)
    }

    /// The bytes before the next NUL, which is consumed too.
    pub(super) fn string(&mut self) -> Option<&'a BStr> {
        let nul = self.0.find_byte(0)?;
        let text = self.0[..nul].as_bstr();
        self.0 = &self.0[nul + 1..];
        Some(text)
    }

    /// Git's offset encoding, as in packs: seven bits a byte, most significant first, one added for
    /// each byte that goes on.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (at, &byte) in self.0.iter().enumerate() {
            value = value.checked_mul(128)? | u64::from(byte & 127);
            if byte & 128 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
        None
    }

    pub(super) fn stat(&mut self) -> Option<Stat> {
        let mut field = || self.u32();
        Some(Stat {
            ctime: (field()?, field()?),
            mtime: (field()?, field()?),
            dev: field()?,
            ino: field()?,
            uid: field()?,
            gid: field()?,
            size: field()?,
        })
    }
}

/// Appends what [`Reader::varint`] reads.
pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0; 10];
    let mut at = bytes.len() - 1;
    bytes[at] = (value & 127) as u8;
    while value >= 128 {
        value = (value >> 7) - 1;
        at -= 1;
        bytes[at] = 128 | (value & 127) as u8;
    }
    out.extend_from_slice(&bytes[at..]);
}

/// Appends what [`Reader::stat`] reads.
pub(super) fn write_stat(out: &mut Vec<u8>, stat: &Stat) {
    let Stat { ctime, mtime, dev, ino, uid, gid, size } = *stat;
    for field in [ctime.0, ctime.1, mtime.0, mtime.1, dev, ino, uid, gid, size] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

/// So far ahead memory is asked for: a processor that reads ahead by itself ends with the page.
const AHEAD: usize = 4096;

/// Has what is soon read of a large file brought near: memory takes as long to answer as several entries take to be read, and where each begins is known from
/// the one before only.
#[inline]
pub(super) fn prefetch_ahead(data: &[u8], offset: usize) {
    std::hint::black_box(data.get(offset + AHEAD).copied());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value: u64, small in 0u64..70_000) {
            for value in [value, small] {
                let mut out = Vec::new();
                write_varint(&mut out, value);
                let mut reader = Reader(&out);
                prop_assert_eq!(reader.varint(), Some(value));
                prop_assert!(reader.0.is_empty());
                prop_assert_eq!(Reader(&out[..out.len() - 1]).varint(), None);
            }
        }
    }

    #[test]
    fn a_varint_too_large_is_refused() {
        assert_eq!(Reader(&[255; 11]).varint(), None);
        // The first value of two bytes is 128: one is added for the byte that goes on.
        assert_eq!(Reader(&[0x80, 0]).varint(), Some(128));
    }
}
