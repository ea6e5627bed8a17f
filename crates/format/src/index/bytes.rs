//! Parsing of numbers and slices from hostile bytes, and Git's two compact number encodings.

use bstr::{BStr, ByteSlice};

use super::Stat;
use crate::{HashKind, ObjectId};

/// Size in bytes of a stand-alone [`Stat`] (UNTR).
pub(super) const STAT_SIZE: usize = 36;

/// The remaining bytes. Every method returns `None` if there are too few.
#[derive(Clone, Copy, Debug)]
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

    /// Returns the bytes before the next NUL, and consumes the NUL too.
    pub(super) fn string(&mut self) -> Option<&'a BStr> {
        let nul = self.0.find_byte(0)?;
        let text = self.0[..nul].as_bstr();
        self.0 = &self.0[nul + 1..];
        Some(text)
    }

    /// Reads Git's offset encoding, as in packs: seven bits a byte, most significant first. Each
    /// continuation adds one.
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

/// Appends a number for [`Reader::varint`].
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

/// Appends stat fields for [`Reader::stat`].
pub(super) fn write_stat(out: &mut Vec<u8>, stat: &Stat) {
    let Stat { ctime, mtime, dev, ino, uid, gid, size } = *stat;
    for field in [ctime.0, ctime.1, mtime.0, mtime.1, dev, ino, uid, gid, size] {
        out.extend_from_slice(&field.to_be_bytes());
    }
}

/// The distance of the prefetch in bytes: the processor's own prefetching stops at the end of a
/// page.
const AHEAD: usize = 4096;

/// Prefetches the part of a large file that is read next. A cache miss takes as long as reading
/// several entries, and the position of an entry is known only after the previous entry was read.
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
    fn refuses_a_varint_over_64_bits() {
        assert_eq!(Reader(&[255; 11]).varint(), None);
        // The smallest value of two bytes is 128, because the continuation adds one.
        assert_eq!(Reader(&[0x80, 0]).varint(), Some(128));
    }
}
