//! Writes pack indices of both versions, and reverse indices, from the objects of a pack.
//!
//! Source: gitformat-pack(5). The bytes go to the caller in pieces. The caller adds the checksum
//! that ends each file.

use crate::HashKind;

/// The objects of a pack, in the order of their names. `n` is below [`Members::count`].
pub trait Members {
    /// Returns the number of objects.
    fn count(&self) -> u32;
    /// Returns the raw name of the `n`th object.
    fn name(&self, n: u32) -> &[u8];
    /// Returns the offset of the `n`th object in the pack.
    fn offset(&self, n: u32) -> u64;
    /// Returns the CRC-32 of the `n`th object's bytes in the pack.
    fn crc32(&self, n: u32) -> u32;
}

/// The variable aspects of the format of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// 1 or 2. With large offsets the index always has version 2.
    pub version: u32,
    /// Offsets above this one are stored with 64 bits. At most 2^31 - 1.
    pub largest_short: u64,
    /// Smaller offsets that are also stored with 64 bits, sorted. They allow an exact copy of an
    /// existing index with such offsets, which is checked by writing it again.
    pub also_long: Vec<u64>,
}

impl Default for Form {
    fn default() -> Form {
        Form { version: 2, largest_short: 0x7fff_ffff, also_long: Vec::new() }
    }
}

impl Form {
    fn is_long(&self, offset: u64) -> bool {
        offset > 0x7fff_ffff
            || offset > self.largest_short
            || (!self.also_long.is_empty() && self.also_long.binary_search(&offset).is_ok())
    }
}

/// The length of a piece of the output, in bytes. It may be exceeded by one value.
const PIECE: usize = 32 << 10;

/// Collects small values, and passes them on in pieces.
struct Pieces<'a, E> {
    bytes: Vec<u8>,
    emit: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<'a, E> Pieces<'a, E> {
    fn new(emit: &'a mut dyn FnMut(&[u8]) -> Result<(), E>) -> Pieces<'a, E> {
        Pieces { bytes: Vec::with_capacity(PIECE + 64), emit }
    }

    fn put(&mut self, value: &[u8]) -> Result<(), E> {
        self.bytes.extend_from_slice(value);
        if self.bytes.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), E> {
        (self.emit)(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Writes an index up to its own checksum.
pub fn write_index<E>(
    members: &dyn Members,
    pack_checksum: &[u8],
    form: &Form,
    emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let count = members.count();
    let last = (0..count).map(|n| members.offset(n)).max().unwrap_or(0);
    let is_second = form.version >= 2 || form.is_long(last);
    let mut out = Pieces::new(emit);
    if is_second {
        out.put(b"\xfftOc\0\0\0\x02")?;
    }
    let mut below = 0;
    for first in 0..=u8::MAX {
        while below < count && members.name(below)[0] <= first {
            below += 1;
        }
        out.put(&below.to_be_bytes())?;
    }
    for n in 0..count {
        if !is_second {
            // No offset needs 64 bits in this version, so it fits.
            out.put(&(members.offset(n) as u32).to_be_bytes())?;
        }
        out.put(members.name(n))?;
    }
    if is_second {
        write_second_part(members, form, &mut out)?;
    }
    out.put(pack_checksum)?;
    out.flush()
}

/// Writes the tables that only version 2 has.
fn write_second_part<E>(members: &dyn Members, form: &Form, out: &mut Pieces<'_, E>) -> Result<(), E> {
    let count = members.count();
    for n in 0..count {
        out.put(&members.crc32(n).to_be_bytes())?;
    }
    let mut long = 0u32;
    for n in 0..count {
        let offset = members.offset(n);
        let short = if form.is_long(offset) {
            long += 1;
            0x8000_0000 | (long - 1)
        } else {
            offset as u32
        };
        out.put(&short.to_be_bytes())?;
    }
    if long > 0 {
        for offset in (0..count).map(|n| members.offset(n)).filter(|&offset| form.is_long(offset)) {
            out.put(&offset.to_be_bytes())?;
        }
    }
    Ok(())
}

/// Writes a reverse index up to its own checksum.
pub fn write_reverse<E>(
    members: &dyn Members,
    pack_checksum: &[u8],
    hash: HashKind,
    emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut order: Vec<u32> = (0..members.count()).collect();
    order.sort_unstable_by_key(|&n| members.offset(n));
    let mut out = Pieces::new(emit);
    crate::rev::encode(&order, hash, pack_checksum, &mut |value| out.put(value))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::{ObjectId, idx::Idx};

    struct Few(Vec<([u8; 20], u64, u32)>);

    impl Members for Few {
        fn count(&self) -> u32 {
            self.0.len() as u32
        }
        fn name(&self, n: u32) -> &[u8] {
            &self.0[n as usize].0
        }
        fn offset(&self, n: u32) -> u64 {
            self.0[n as usize].1
        }
        fn crc32(&self, n: u32) -> u32 {
            self.0[n as usize].2
        }
    }

    fn written(few: &Few, form: &Form) -> Vec<u8> {
        let mut out = Vec::new();
        let mut emit = |piece: &[u8]| -> Result<(), Infallible> {
            out.extend_from_slice(piece);
            Ok(())
        };
        write_index(few, &[7; 20], form, &mut emit).expect("memory takes all");
        out.extend_from_slice(&[0; 20]);
        out
    }

    proptest! {
        #[test]
        fn an_index_gives_back_what_was_written(
            objects in prop::collection::btree_map(prop::array::uniform20(0u8..4), (1u64..1 << 40, any::<u32>()), 0..200),
            version in 1u32..3,
            largest_short in prop_oneof![Just(0x7fff_ffffu64), Just(1u64 << 20)],
        ) {
            let few = Few(objects.into_iter().map(|(name, (offset, crc))| (name, offset, crc)).collect());
            let bytes = written(&few, &Form { version, largest_short, also_long: Vec::new() });
            // In a real pack, every object but the first may have a large offset.
            if few.0.iter().all(|object| object.1 > largest_short) && !few.0.is_empty() {
                return Ok(());
            }
            let idx = Idx::parse(&bytes[..], HashKind::Sha1).expect("well-formed");
            prop_assert_eq!(idx.count() as usize, few.0.len());
            prop_assert_eq!(idx.pack_checksum(), [7; 20]);
            for (name, offset, _) in &few.0 {
                let oid = ObjectId::from_bytes(HashKind::Sha1, name).expect("20 bytes");
                let n = idx.find(&oid).expect("it was written");
                prop_assert_eq!(idx.offset(n), Some(*offset));
            }
        }
    }

    #[test]
    fn a_listed_offset_is_stored_with_64_bits() {
        let few = Few(vec![([1; 20], 12, 0), ([2; 20], 500, 0)]);
        let plain = written(&few, &Form::default());
        let listed = written(&few, &Form { also_long: vec![500], ..Form::default() });
        assert_eq!(listed.len(), plain.len() + 8);
        let idx = Idx::parse(&listed[..], HashKind::Sha1).expect("well-formed");
        assert_eq!(idx.offset(1), Some(500));
    }
}
