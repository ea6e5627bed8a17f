//! Packs: the file's header, the header of each entry, and deltas.
//!
//! Source: gitformat-pack(5). Other code inflates the data.

use crate::loose::Kind;
use crate::{HashKind, ObjectId};

mod delta;

pub use delta::encode_delta;

/// The length of a pack's header in bytes: signature, version, number of objects.
pub const HEADER_LEN: usize = 12;

/// Returns true if a file in a directory of packs belongs to a pack of an unfinished repack.
///
/// Git builds packs as `.tmp-<pid>-pack-<name>` and removes them if the repack fails. Readers must
/// not depend on them: their objects have another copy until the packs are renamed.
pub fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(b".")
}

/// The reason why the bytes of a pack or an entry are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file does not begin with `PACK`, or is too short.
    #[error("not a packfile")]
    Signature,
    /// A version other than 2 and 3.
    #[error("packfile is version {0} and not supported")]
    Version(u32),
    /// The entry's header is truncated, or its size exceeds 64 bits.
    #[error("bad object header")]
    EntryHeader,
    /// The reserved type 0 or 5.
    #[error("unknown object type {0}")]
    EntryType(u8),
    /// The distance to a delta's base is zero, too large or truncated.
    #[error("failed to validate delta base reference")]
    BaseDistance,
}

/// Parses the header of a pack and returns the number of objects.
pub fn parse_header(data: &[u8]) -> Result<u32, Error> {
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"));
    if data.len() < HEADER_LEN || data[..4] != *b"PACK" {
        return Err(Error::Signature);
    }
    match word(4) {
        2 | 3 => Ok(word(8)),
        version => Err(Error::Version(version)),
    }
}

/// The storage form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// In full.
    Whole(Kind),
    /// As a delta against the entry that begins this many bytes earlier in the pack. Never 0.
    OfsDelta(u64),
    /// As a delta against the object whose raw name ends the header.
    RefDelta,
}

/// The header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The storage form of the object.
    pub stored: Stored,
    /// The inflated size of the data after the header, in bytes: the object or the delta.
    pub size: u64,
    /// The length of the header, including the reference to the base.
    pub len: usize,
}

/// Parses the header of the entry at the start of `data`.
#[inline]
pub fn parse_entry(data: &[u8], hash: HashKind) -> Result<Entry, Error> {
    let (&first, rest) = data.split_first().ok_or(Error::EntryHeader)?;
    let mut size = u64::from(first & 15);
    let (mut shift, mut byte, mut len) = (4, first, 1);
    let mut rest = rest.iter();
    while byte & 0x80 != 0 {
        byte = *rest.next().ok_or(Error::EntryHeader)?;
        if shift > 57 {
            return Err(Error::EntryHeader);
        }
        size |= u64::from(byte & 0x7f) << shift;
        (shift, len) = (shift + 7, len + 1);
    }
    let stored = match (first >> 4) & 7 {
        1 => Stored::Whole(Kind::Commit),
        2 => Stored::Whole(Kind::Tree),
        3 => Stored::Whole(Kind::Blob),
        4 => Stored::Whole(Kind::Tag),
        6 => {
            // Each continuation byte adds one, so that no distance has two encodings.
            byte = *rest.next().ok_or(Error::BaseDistance)?;
            let mut distance = u64::from(byte & 0x7f);
            len += 1;
            while byte & 0x80 != 0 {
                byte = *rest.next().ok_or(Error::BaseDistance)?;
                if distance >= u64::MAX >> 8 {
                    return Err(Error::BaseDistance);
                }
                distance = ((distance + 1) << 7) | u64::from(byte & 0x7f);
                len += 1;
            }
            if distance == 0 {
                return Err(Error::BaseDistance);
            }
            Stored::OfsDelta(distance)
        }
        7 => {
            len += hash.len();
            if len > data.len() {
                return Err(Error::EntryHeader);
            }
            Stored::RefDelta
        }
        other => return Err(Error::EntryType(other)),
    };
    Ok(Entry { stored, size, len })
}

/// Returns the header of a pack with this number of objects.
pub fn encode_header(count: u32) -> [u8; HEADER_LEN] {
    let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
    header[8..].copy_from_slice(&count.to_be_bytes());
    header
}

/// Appends the header of an entry that holds an object of `size` bytes in full.
pub fn encode_entry(kind: Kind, size: u64, out: &mut Vec<u8>) {
    let number = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    encode_type(number, size, out);
}

/// Appends the header of an entry that holds a delta of `size` bytes against the object `base`.
pub fn encode_ref_delta(base: &ObjectId, size: u64, out: &mut Vec<u8>) {
    encode_type(7, size, out);
    out.extend_from_slice(base.as_bytes());
}

fn encode_type(number: u8, size: u64, out: &mut Vec<u8>) {
    let (mut byte, mut rest) = (number << 4 | (size & 15) as u8, size >> 4);
    while rest > 0 {
        out.push(byte | 0x80);
        (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
    }
    out.push(byte);
}

/// The delta does not produce the stated result from this base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delta replay has gone wild")]
pub struct BadDelta;

/// The header of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaHeader {
    /// The size that the base must have.
    pub base_size: u64,
    /// The size of the result.
    pub result_size: u64,
    /// The length of the header. The instructions follow.
    pub len: usize,
}

/// The maximum length of a delta's header.
pub const MAX_DELTA_HEADER_LEN: usize = 20;

/// Parses the header of a delta. Its first [`MAX_DELTA_HEADER_LEN`] bytes are enough.
pub fn parse_delta_header(delta: &[u8]) -> Result<DeltaHeader, BadDelta> {
    let mut len = 0;
    let mut varint = || {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = *delta.get(len).ok_or(BadDelta)?;
            if shift > 57 {
                return Err(BadDelta);
            }
            value |= u64::from(byte & 0x7f) << shift;
            (shift, len) = (shift + 7, len + 1);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    };
    let (base_size, result_size) = (varint()?, varint()?);
    Ok(DeltaHeader { base_size, result_size, len })
}

/// One instruction of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction<'a> {
    Copy { offset: usize, len: usize },
    Insert(&'a [u8]),
}

/// Removes the next instruction from `rest`, which is not empty.
#[inline(always)]
fn next_instruction<'a>(rest: &mut &'a [u8]) -> Result<Instruction<'a>, BadDelta> {
    let (&command, mut after) = rest.split_first().ok_or(BadDelta)?;
    if command & 0x80 == 0 {
        if command == 0 || usize::from(command) > after.len() {
            return Err(BadDelta);
        }
        let (inserted, after) = after.split_at(usize::from(command));
        *rest = after;
        return Ok(Instruction::Insert(inserted));
    }
    let (mut offset, mut len) = (0u32, 0u32);
    if let Some((window, _)) = after.split_first_chunk::<8>() {
        // All operands are within the window, so no byte needs a bounds check.
        let mut at = 0;
        for bit in 0..4 {
            if command & (1 << bit) != 0 {
                offset |= u32::from(window[at]) << (8 * bit);
                at += 1;
            }
        }
        for bit in 0..3 {
            if command & (0x10 << bit) != 0 {
                len |= u32::from(window[at]) << (8 * bit);
                at += 1;
            }
        }
        after = &after[at..];
    } else {
        let mut operand = |wanted: bool, shift: u32| -> Result<u32, BadDelta> {
            if !wanted {
                return Ok(0);
            }
            let (&byte, left) = after.split_first().ok_or(BadDelta)?;
            after = left;
            Ok(u32::from(byte) << shift)
        };
        for bit in 0..4 {
            offset |= operand(command & (1 << bit) != 0, 8 * bit)?;
        }
        for bit in 0..3 {
            len |= operand(command & (0x10 << bit) != 0, 8 * bit)?;
        }
    }
    *rest = after;
    let len = if len == 0 { 0x10000 } else { len as usize };
    Ok(Instruction::Copy { offset: offset as usize, len })
}

/// Returns the size that the instructions after a delta's header produce. Callers compare it with
/// the stated size before they allocate memory.
pub fn delta_output_size(mut instructions: &[u8]) -> Result<u64, BadDelta> {
    let mut size = 0u64;
    while !instructions.is_empty() {
        size += match next_instruction(&mut instructions)? {
            Instruction::Copy { len, .. } => len as u64,
            Instruction::Insert(bytes) => bytes.len() as u64,
        };
    }
    Ok(size)
}

/// Executes the instructions after a delta's header. `out` must have exactly the size of the
/// result. The delta is bad if it does not fill all of `out`.
pub fn apply_delta(base: &[u8], mut instructions: &[u8], mut out: &mut [u8]) -> Result<(), BadDelta> {
    while !instructions.is_empty() {
        let bytes = match next_instruction(&mut instructions)? {
            Instruction::Copy { offset, len } => base.get(offset..offset + len).ok_or(BadDelta)?,
            Instruction::Insert(bytes) => bytes,
        };
        let (now, later) = out.split_at_mut_checked(bytes.len()).ok_or(BadDelta)?;
        now.copy_from_slice(bytes);
        out = later;
    }
    if out.is_empty() { Ok(()) } else { Err(BadDelta) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_headers_it_writes() {
        assert_eq!(parse_header(&encode_header(7)), Ok(7));
        let base = ObjectId::null(HashKind::Sha1);
        for size in [0, 15, 16, 2047, 2048, 1 << 32, (1 << 60) - 1] {
            let mut out = Vec::new();
            encode_ref_delta(&base, size, &mut out);
            let expected = Entry { stored: Stored::RefDelta, size, len: out.len() };
            assert_eq!(parse_entry(&out, HashKind::Sha1), Ok(expected));
            assert_eq!(out[out.len() - 20..], *base.as_bytes());
        }
        for kind in [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag] {
            for size in [0, 15, 16, 2047, 2048, 1 << 32, (1 << 60) - 1] {
                let mut out = Vec::new();
                encode_entry(kind, size, &mut out);
                let expected = Entry { stored: Stored::Whole(kind), size, len: out.len() };
                assert_eq!(parse_entry(&out, HashKind::Sha1), Ok(expected));
            }
        }
    }

    #[test]
    fn pack_headers() {
        assert_eq!(parse_header(b"PACK\0\0\0\x02\0\0\x01\0"), Ok(256));
        assert_eq!(parse_header(b"PACK\0\0\0\x04\0\0\x01\0"), Err(Error::Version(4)));
        assert_eq!(parse_header(b"PICK\0\0\0\x02\0\0\x01\0"), Err(Error::Signature));
        assert_eq!(parse_header(b"PACK"), Err(Error::Signature));
    }

    #[test]
    fn entry_headers() {
        let entry = |data: &[u8]| parse_entry(data, HashKind::Sha1);
        assert_eq!(entry(&[0x35]), Ok(Entry { stored: Stored::Whole(Kind::Blob), size: 5, len: 1 }));
        assert_eq!(
            entry(&[0x9f, 0xff, 0x01]),
            Ok(Entry { stored: Stored::Whole(Kind::Commit), size: 15 + (127 << 4) + (1 << 11), len: 3 })
        );
        assert_eq!(entry(&[0x65, 0x80, 0x00]), Ok(Entry { stored: Stored::OfsDelta(128), size: 5, len: 3 }));
        let mut ref_delta = vec![0x75];
        ref_delta.extend([7; 20]);
        assert_eq!(entry(&ref_delta), Ok(Entry { stored: Stored::RefDelta, size: 5, len: 21 }));
        assert_eq!(entry(&ref_delta[..20]), Err(Error::EntryHeader));
        assert_eq!(entry(&[]), Err(Error::EntryHeader));
        assert_eq!(entry(&[0xb5]), Err(Error::EntryHeader));
        assert_eq!(entry(&[0xff; 30]), Err(Error::EntryHeader));
        assert_eq!(entry(&[0x05]), Err(Error::EntryType(0)));
        assert_eq!(entry(&[0x55]), Err(Error::EntryType(5)));
        assert_eq!(entry(&[0x65]), Err(Error::BaseDistance));
        assert_eq!(entry(&[0x65, 0x00]), Err(Error::BaseDistance));
        let mut far = vec![0x65];
        far.extend([0xff; 12]);
        assert_eq!(entry(&far), Err(Error::BaseDistance));
    }

    #[test]
    fn deltas_by_hand() {
        let base = b"The quick brown fox";
        let delta = [19, 12, 0x91, 4, 6, 2, b'e', b'l', 0x91, 15, 4];
        let header = parse_delta_header(&delta).expect("a good header");
        assert_eq!(header, DeltaHeader { base_size: 19, result_size: 12, len: 2 });
        assert_eq!(delta_output_size(&delta[2..]), Ok(12));
        let mut out = [0; 12];
        assert_eq!(apply_delta(base, &delta[2..], &mut out), Ok(()));
        assert_eq!(&out, b"quick el fox");
        assert_eq!(apply_delta(base, &delta[2..], &mut [0; 11]), Err(BadDelta));
        assert_eq!(apply_delta(base, &delta[2..], &mut [0; 13]), Err(BadDelta));
        assert_eq!(apply_delta(&base[..18], &delta[2..], &mut out), Err(BadDelta));
        assert_eq!(apply_delta(base, &[0], &mut [0; 1]), Err(BadDelta));
        assert_eq!(apply_delta(base, &[3, b'a'], &mut [0; 3]), Err(BadDelta));
        assert_eq!(apply_delta(base, &[0x91, 0], &mut [0; 3]), Err(BadDelta));
    }

    #[test]
    fn a_copy_length_of_zero_means_64_kib() {
        let base = vec![b'x'; 0x10001];
        let mut out = vec![0; 0x10000];
        assert_eq!(apply_delta(&base, &[0x81, 1], &mut out), Ok(()));
        assert!(out.iter().all(|&byte| byte == b'x'));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Copy(usize, usize),
        Insert(Vec<u8>),
    }

    proptest! {
        // Encodes instructions as the format defines and compares the result with their meaning.
        // Operands near the end of the data take another code path.
        #[test]
        fn applies_delta_instructions_as_the_format_defines(
            base in prop::collection::vec(any::<u8>(), 1..70_000),
            steps in prop::collection::vec(
                prop_oneof![
                    (any::<prop::sample::Index>(), any::<prop::sample::Index>())
                        .prop_map(|(offset, len)| Step::Copy(offset.index(70_000), len.index(70_000))),
                    prop::collection::vec(any::<u8>(), 1..128).prop_map(Step::Insert),
                ],
                0..20,
            ),
        ) {
            let (mut delta, mut expected) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Insert(bytes) => {
                        delta.push(bytes.len() as u8);
                        delta.extend_from_slice(&bytes);
                        expected.extend_from_slice(&bytes);
                    }
                    Step::Copy(offset, len) => {
                        let offset = offset % base.len();
                        let len = (len % (base.len() - offset)).max(1);
                        let (mut command, mut operands) = (0x80, Vec::new());
                        for bit in 0..4 {
                            let byte = (offset >> (8 * bit)) as u8;
                            if byte != 0 {
                                command |= 1 << bit;
                                operands.push(byte);
                            }
                        }
                        for bit in 0..3 {
                            let byte = (len >> (8 * bit)) as u8;
                            if byte != 0 && len != 0x10000 {
                                command |= 0x10 << bit;
                                operands.push(byte);
                            }
                        }
                        delta.push(command);
                        delta.extend(operands);
                        expected.extend_from_slice(&base[offset..offset + len]);
                    }
                }
            }
            prop_assert_eq!(delta_output_size(&delta), Ok(expected.len() as u64));
            let mut out = vec![0; expected.len()];
            prop_assert_eq!(apply_delta(&base, &delta, &mut out), Ok(()));
            prop_assert!(out == expected);
        }

        #[test]
        fn survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse_header(&bytes), parse_delta_header(&bytes), delta_output_size(&bytes));
            let _ = apply_delta(&bytes, &bytes, &mut [0; 300]);
            if let Ok(entry) = parse_entry(&bytes, HashKind::Sha256) {
                prop_assert!(entry.len <= bytes.len());
            }
        }
    }
}
