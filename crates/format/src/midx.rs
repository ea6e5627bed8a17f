//! Multi-pack-indices: map an object name to a pack and an offset, for many packs at once. Also the
//! list that chains incremental ones.
//!
//! Source: gitformat-pack(5), gitformat-chunk(5). Versions 1 and 2 differ only in the order of pack
//! names. [`Midx::parse`] checks what Git checks: signature, version, hash, chunks and their sizes,
//! a fan-out that never decreases, and the ends of names. It does not check the trailing checksum.

use std::ops::{Deref, Range};

use crate::fanout::{self, FANOUT_LEN, be32, be64};
use crate::{HashKind, ObjectId, hash::Prefix};

/// Why a multi-pack-index cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is shorter than the smallest one.
    #[error("multi-pack-index file is too small")]
    TooSmall,
    /// The file does not begin with `MIDX`.
    #[error("multi-pack-index signature does not match")]
    Signature,
    /// A version other than 1 and 2.
    #[error("multi-pack-index version {0} not recognized")]
    Version(u8),
    /// The file is for another hash.
    #[error("multi-pack-index hash version {0} does not match")]
    Hash(u8),
    /// The table of chunks is out of order or points outside the file.
    #[error("improper chunk offsets")]
    Chunks,
    /// A chunk is missing or of the wrong size.
    #[error("multi-pack-index required {0} chunk missing or corrupted")]
    Chunk(&'static str),
}

/// A multi-pack-index over the bytes of its file, usually mapped.
#[derive(Debug)]
pub struct Midx<D> {
    data: D,
    hash: HashKind,
    count: u32,
    pack_names: Vec<Range<usize>>,
    fanout: usize,
    names: usize,
    offsets: usize,
    large_offsets: Range<usize>,
}

const HEADER_LEN: usize = 12;
const CHUNK_ENTRY_LEN: usize = 12;
const OFFSET_LEN: usize = 8;

impl<D: Deref<Target = [u8]>> Midx<D> {
    /// Checks the structure of a multi-pack-index and takes its bytes.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, Error> {
        if data.len() < HEADER_LEN + hash.len() {
            return Err(Error::TooSmall);
        }
        if data[..4] != *b"MIDX" {
            return Err(Error::Signature);
        }
        if !matches!(data[4], 1 | 2) {
            return Err(Error::Version(data[4]));
        }
        let expected_hash = match hash {
            HashKind::Sha1 => 1,
            HashKind::Sha256 => 2,
        };
        if data[5] != expected_hash {
            return Err(Error::Hash(data[5]));
        }
        let chunks = chunks(&data, usize::from(data[6]), data.len() - hash.len())?;
        let chunk = |id: &[u8; 4], name| {
            let found = chunks.iter().find(|(found, _)| found == id);
            found.map(|(_, range)| range.clone()).ok_or(Error::Chunk(name))
        };
        let sized = |id, name, len: u64| {
            let range = chunk(id, name)?;
            if range.len() as u64 == len { Ok(range.start) } else { Err(Error::Chunk(name)) }
        };
        let fanout = sized(b"OIDF", "OID fanout", FANOUT_LEN as u64)?;
        let count = fanout::count(&data[fanout..]).ok_or(Error::Chunk("OID fanout"))?;
        let names = sized(b"OIDL", "OID lookup", u64::from(count) * hash.len() as u64)?;
        let offsets = sized(b"OOFF", "object offsets", u64::from(count) * OFFSET_LEN as u64)?;
        let large_offsets = chunk(b"LOFF", "large offsets").unwrap_or(0..0);
        let pack_names = pack_names(&data, chunk(b"PNAM", "pack-name")?, be32(&data, 8))?;
        Ok(Midx { data, hash, count, pack_names, fanout, names, offsets, large_offsets })
    }

    /// Returns the number of objects.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the names of the packs' index files. [`Midx::locate`] returns positions in this
    /// order.
    pub fn pack_names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pack_names.iter().map(|range| &self.data[range.clone()])
    }

    /// Returns the position of an object in the order of names.
    pub fn find(&self, oid: &ObjectId) -> Option<u32> {
        if oid.kind() != self.hash {
            return None;
        }
        fanout::find(&self.data[self.fanout..], &self.data[self.names..], self.hash.len(), oid)
    }

    /// Iterates over all objects whose names begin with `prefix`, in order.
    pub fn with_prefix(&self, prefix: Prefix) -> impl Iterator<Item = ObjectId> {
        let (fanout, names) = (&self.data[self.fanout..], &self.data[self.names..]);
        let first = fanout::first_from(fanout, names, self.hash.len(), &prefix.first());
        (first..self.count).map(|n| self.name(n)).take_while(move |name| prefix.matches(name))
    }

    /// Returns the name of the `n`th object; `n` is below [`Midx::count`].
    pub fn name(&self, n: u32) -> ObjectId {
        let at = self.names + n as usize * self.hash.len();
        ObjectId::from_bytes(self.hash, &self.data[at..at + self.hash.len()])
            .expect("a slice of the hash's length")
    }

    /// Returns pack and offset of the `n`th object; `n` is below [`Midx::count`]. Returns `None` if
    /// they are outside the tables.
    pub fn locate(&self, n: u32) -> Option<(u32, u64)> {
        let at = self.offsets + n as usize * OFFSET_LEN;
        let (pack, offset) = (be32(&self.data, at), be32(&self.data, at + 4));
        if pack as usize >= self.pack_names.len() {
            return None;
        }
        // Without the chunk of large offsets, the highest bit belongs to a 32-bit offset.
        if offset & 0x8000_0000 == 0 || self.large_offsets.is_empty() {
            return Some((pack, u64::from(offset)));
        }
        let at = (offset & 0x7fff_ffff) as usize * 8;
        let large = self.data[self.large_offsets.clone()].get(at..at + 8)?;
        Some((pack, be64(large, 0)))
    }
}

/// A chunk's identifier and its byte range.
type Chunk = ([u8; 4], Range<usize>);

/// Reads the table of chunks, all of which end before `end`.
fn chunks(data: &[u8], count: usize, end: usize) -> Result<Vec<Chunk>, Error> {
    let table = HEADER_LEN..HEADER_LEN + (count + 1) * CHUNK_ENTRY_LEN;
    if table.end > end {
        return Err(Error::Chunks);
    }
    let entries: Vec<([u8; 4], u64)> = data[table.clone()]
        .chunks_exact(CHUNK_ENTRY_LEN)
        .map(|entry| (entry[..4].try_into().expect("four bytes"), be64(entry, 4)))
        .collect();
    if entries[count].0 != [0; 4] {
        return Err(Error::Chunks);
    }
    let mut chunks = Vec::with_capacity(count);
    for pair in entries.windows(2) {
        let ((id, start), (_, stop)) = (pair[0], pair[1]);
        if id == [0; 4] || start < table.end as u64 || start > stop || stop > end as u64 {
            return Err(Error::Chunks);
        }
        chunks.push((id, start as usize..stop as usize));
    }
    Ok(chunks)
}

fn pack_names(data: &[u8], chunk: Range<usize>, count: u32) -> Result<Vec<Range<usize>>, Error> {
    let mut names = Vec::new();
    let mut start = chunk.start;
    for _ in 0..count {
        let len = data[start..chunk.end].iter().position(|&byte| byte == 0);
        let end = start + len.ok_or(Error::Chunk("pack-name"))?;
        names.push(start..end);
        start = end + 1;
    }
    Ok(names)
}

/// Parses the `multi-pack-index-chain` file: the layers of an incremental multi-pack-index, the
/// base first, one hexadecimal checksum per line. Stops at the first line that is no checksum.
pub fn parse_chain(list: &[u8], hash: HashKind) -> impl Iterator<Item = ObjectId> {
    list.split(|&byte| byte == b'\n').map_while(move |line| ObjectId::from_hex(hash, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn oid(first: u8, last: u8) -> ObjectId {
        let mut raw = [first; 20];
        raw[19] = last;
        ObjectId::from_bytes(HashKind::Sha1, &raw).expect("20 bytes")
    }

    fn build(packs: &[&str], objects: &[(ObjectId, u32, u64)]) -> Vec<u8> {
        let mut names: Vec<u8> = packs.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        names.resize(names.len().next_multiple_of(4), 0);
        let fanout = (0..=255u8)
            .flat_map(|byte| {
                let upto = objects.iter().filter(|(name, ..)| name.as_bytes()[0] <= byte).count();
                (upto as u32).to_be_bytes()
            })
            .collect();
        let lookup = objects.iter().flat_map(|(name, ..)| name.as_bytes().to_vec()).collect();
        let (mut offsets, mut large) = (Vec::new(), Vec::new());
        for (_, pack, offset) in objects {
            offsets.extend(pack.to_be_bytes());
            if *offset > 0x7fff_ffff {
                offsets.extend((0x8000_0000 | (large.len() / 8) as u32).to_be_bytes());
                large.extend(offset.to_be_bytes());
            } else {
                offsets.extend((*offset as u32).to_be_bytes());
            }
        }
        let mut chunks: Vec<(&[u8; 4], Vec<u8>)> =
            vec![(b"PNAM", names), (b"OIDF", fanout), (b"OIDL", lookup), (b"OOFF", offsets)];
        if !large.is_empty() {
            chunks.push((b"LOFF", large));
        }
        let mut out = b"MIDX\x01\x01".to_vec();
        out.extend([chunks.len() as u8, 0]);
        out.extend((packs.len() as u32).to_be_bytes());
        let mut at = (HEADER_LEN + (chunks.len() + 1) * CHUNK_ENTRY_LEN) as u64;
        for (id, chunk) in &chunks {
            out.extend(**id);
            out.extend(at.to_be_bytes());
            at += chunk.len() as u64;
        }
        out.extend([0; 4]);
        out.extend(at.to_be_bytes());
        chunks.iter().for_each(|(_, chunk)| out.extend(chunk));
        out.extend([0xcc; 20]);
        out
    }

    fn sample() -> Vec<u8> {
        build(
            &["pack-a.idx", "pack-b.idx"],
            &[(oid(0, 1), 1, 12), (oid(0, 2), 0, 1 << 35), (oid(9, 0), 1, 77)],
        )
    }

    #[test]
    fn packs_and_offsets() {
        let midx = Midx::parse(sample(), HashKind::Sha1).expect("a good one");
        assert_eq!(midx.pack_names().collect::<Vec<_>>(), [&b"pack-a.idx"[..], b"pack-b.idx"]);
        let locate = |oid| midx.find(&oid).map(|n| (midx.name(n), midx.locate(n)));
        assert_eq!(midx.count(), 3);
        assert_eq!(locate(oid(0, 1)), Some((oid(0, 1), Some((1, 12)))));
        assert_eq!(locate(oid(0, 2)), Some((oid(0, 2), Some((0, 1 << 35)))));
        assert_eq!(locate(oid(9, 0)), Some((oid(9, 0), Some((1, 77)))));
        assert_eq!(locate(oid(9, 1)), None);
    }

    #[test]
    fn reports_the_kind_of_damage() {
        let parse = |data: Vec<u8>| Midx::parse(data, HashKind::Sha1).map(|_| ());
        let changed = |at: usize, byte: u8| {
            let mut data = sample();
            data[at] = byte;
            parse(data)
        };
        assert_eq!(parse(vec![0; 31]), Err(Error::TooSmall));
        assert_eq!(changed(0, b'X'), Err(Error::Signature));
        assert_eq!(changed(4, 3), Err(Error::Version(3)));
        assert_eq!(changed(5, 2), Err(Error::Hash(2)));
        assert_eq!(changed(6, 3), Err(Error::Chunks), "the last entry has an identifier");
        assert_eq!(changed(6, 255), Err(Error::Chunks));
        assert_eq!(changed(11, 200), Err(Error::Chunk("pack-name")));
        assert_eq!(changed(HEADER_LEN, b'X'), Err(Error::Chunk("pack-name")));
        assert_eq!(changed(HEADER_LEN + 4, 1), Err(Error::Chunks), "a chunk far outside");
    }

    #[test]
    fn parses_chains() {
        let list = format!("{}\n{}\n", oid(1, 1), oid(2, 2));
        assert_eq!(parse_chain(list.as_bytes(), HashKind::Sha1).collect::<Vec<_>>(), [oid(1, 1), oid(2, 2)]);
        assert_eq!(parse_chain(b"nonsense\n", HashKind::Sha1).count(), 0);
    }

    proptest! {
        #[test]
        fn survives_any_damage(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut data = sample();
            for (at, byte) in flips {
                let at = at.index(data.len());
                data[at] = byte;
            }
            data.truncate(cut.map_or(usize::MAX, |cut| cut.index(1200)));
            if let Ok(midx) = Midx::parse(data, HashKind::Sha1) {
                for n in 0..midx.count() {
                    let _ = (midx.locate(n), midx.find(&midx.name(n)));
                }
                prop_assert!(midx.pack_names().len() <= 1200);
            }
        }
    }
}
