//! Files that are made of chunks: a header, a table of contents, the chunks, and a checksum.
//! Multi-pack-indexes and commit-graphs share this form.
//!
//! Source: gitformat-chunk(5). The messages are those of Git.

use std::ops::Range;

use crate::HashKind;

/// The identifier of a chunk.
pub type Id = [u8; 4];

/// The length of an entry of the table of contents: an identifier and an offset.
const ENTRY_LEN: usize = 12;

/// The reason why a table of contents cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// An identifier of zero ends the table.
    #[error("terminating chunk id appears earlier than expected")]
    Early,
    #[error("chunk id {id:x} not {alignment}-byte aligned")]
    Unaligned { id: u32, alignment: u64 },
    #[error("improper chunk offset(s) {0:x} and {1:x}")]
    Offsets(u64, u64),
    #[error("duplicate chunk ID {0:x} found")]
    Duplicate(u32),
    #[error("final chunk has non-zero id {0:x}")]
    Final(u32),
}

/// The table of contents of a file.
#[derive(Clone, Debug)]
pub struct Chunks(Vec<(Id, Range<usize>)>);

impl Chunks {
    /// Parses a table of `count` chunks that begins at `start`. `data` is the whole file with its
    /// checksum. Each chunk begins at a multiple of `alignment`.
    pub fn parse(
        data: &[u8],
        start: usize,
        count: usize,
        alignment: u64,
        hash: HashKind,
    ) -> Result<Chunks, Error> {
        // A table that is longer than its file counts as padded with zeros.
        let byte = |at: usize| u64::from(data.get(at).copied().unwrap_or(0));
        let number = |at: usize, len: usize| (at..at + len).fold(0, |number, at| number << 8 | byte(at));
        let end = (data.len() - hash.len()) as u64;
        let mut chunks: Vec<(Id, Range<usize>)> = Vec::with_capacity(count);
        for at in (0..count).map(|n| start + n * ENTRY_LEN) {
            let id = number(at, 4) as u32;
            let (first, next) = (number(at + 4, 8), number(at + ENTRY_LEN + 4, 8));
            if id == 0 {
                return Err(Error::Early);
            }
            if first % alignment != 0 {
                return Err(Error::Unaligned { id, alignment });
            }
            if next < first || next > end {
                return Err(Error::Offsets(first, next));
            }
            let name = id.to_be_bytes();
            if chunks.iter().any(|(other, _)| *other == name) {
                return Err(Error::Duplicate(id));
            }
            chunks.push((name, first as usize..next as usize));
        }
        match number(start + count * ENTRY_LEN, 4) as u32 {
            0 => Ok(Chunks(chunks)),
            id => Err(Error::Final(id)),
        }
    }

    /// Returns the byte range of a chunk.
    pub fn find(&self, id: &Id) -> Option<Range<usize>> {
        self.0.iter().find(|(found, _)| found == id).map(|(_, range)| range.clone())
    }
}

/// Appends the table of contents for chunks of these lengths to a header.
pub fn write_table(header: &mut Vec<u8>, chunks: &[(Id, u64)]) {
    let mut at = (header.len() + (chunks.len() + 1) * ENTRY_LEN) as u64;
    for (id, len) in chunks {
        header.extend(id);
        header.extend(at.to_be_bytes());
        at += len;
    }
    header.extend([0; 4]);
    header.extend(at.to_be_bytes());
}

/// Returns true if the last bytes of a file are the checksum of the others.
pub fn has_valid_checksum(data: &[u8], hash: HashKind) -> bool {
    let Some(end) = data.len().checked_sub(hash.len()) else { return false };
    let mut hasher = crate::hash::Hasher::checksum(hash);
    hasher.update(&data[..end]);
    hasher.finish().is_ok_and(|checksum| *checksum.as_bytes() == data[end..])
}

/// The number of a hash in the header of these files.
pub(crate) fn hash_version(hash: HashKind) -> u8 {
    match hash {
        HashKind::Sha1 => 1,
        HashKind::Sha256 => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut file = b"HEAD".to_vec();
        write_table(&mut file, &[(*b"AAAA", 4), (*b"BBBB", 8)]);
        file.extend(b"aaaabbbbbbbb");
        file.extend([0xcc; 20]);
        file
    }

    #[test]
    fn reads_what_it_wrote_and_names_damage() {
        let parse = |data: &[u8]| Chunks::parse(data, 4, 2, 4, HashKind::Sha1);
        let data = sample();
        let chunks = parse(&data).expect("a good one");
        assert_eq!(&data[chunks.find(b"BBBB").expect("there")], b"bbbbbbbb");
        assert_eq!(chunks.find(b"CCCC"), None);
        let changed = |at: usize, bytes: &[u8]| {
            let mut data = sample();
            data[at..at + bytes.len()].copy_from_slice(bytes);
            parse(&data).map(|_| ()).expect_err("damaged")
        };
        assert_eq!(changed(4, &[0; 4]), Error::Early);
        assert_eq!(changed(15, &[41]), Error::Unaligned { id: 0x4141_4141, alignment: 4 });
        assert_eq!(changed(27, &[0]), Error::Offsets(40, 0));
        assert_eq!(changed(16, b"AAAA"), Error::Duplicate(0x4141_4141));
        assert_eq!(changed(28, b"\0\0\0\x07"), Error::Final(7));
        assert_eq!(Chunks::parse(&data, 4, 255, 4, HashKind::Sha1).map(|_| ()), Err(Error::Early));
    }

    #[test]
    fn checks_checksums() {
        let mut data = sample();
        assert!(!has_valid_checksum(&data, HashKind::Sha1));
        let end = data.len() - 20;
        let mut hasher = crate::hash::Hasher::checksum(HashKind::Sha1);
        hasher.update(&data[..end]);
        data[end..].copy_from_slice(hasher.finish().expect("a checksum").as_bytes());
        assert!(has_valid_checksum(&data, HashKind::Sha1));
        assert!(!has_valid_checksum(b"short", HashKind::Sha1));
    }
}
