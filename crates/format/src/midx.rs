//! Multi-pack-indices: map an object name to a pack and an offset, for many packs at once. Also the
//! list that chains incremental ones.
//!
//! Source: gitformat-pack(5), gitformat-chunk(5). Versions 1 and 2 differ only in the order of pack
//! names. [`Midx::parse`] checks what Git checks: signature, version, hash, chunks and their sizes,
//! a fan-out that never decreases, and the ends of names. It does not check the trailing checksum.

use std::ops::{Deref, Range};

use bstr::BString;

use crate::chunks::{self, Chunks, Id};
use crate::fanout::{self, FANOUT_LEN, be32, be64};
use crate::{HashKind, ObjectId, hash::Prefix};

/// The reason why a multi-pack-index cannot be used. The text is Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is shorter than the smallest one.
    #[error("multi-pack-index file is too small")]
    TooSmall,
    /// The file does not begin with `MIDX`.
    #[error("multi-pack-index signature 0x{0:08x} does not match signature 0x{SIGNATURE:08x}")]
    Signature(u32),
    /// A version other than 1 and 2.
    #[error("multi-pack-index version {0} not recognized")]
    Version(u8),
    /// The file is for another hash.
    #[error("multi-pack-index hash version {found} does not match version {wanted}")]
    #[allow(missing_docs)]
    Hash { found: u8, wanted: u8 },
    /// The table of chunks is out of order or points outside the file.
    #[error(transparent)]
    Table(chunks::Error),
    /// A chunk is missing or of the wrong size.
    #[error("multi-pack-index required {name} chunk missing or corrupted")]
    #[allow(missing_docs)]
    Chunk { name: &'static str, why: Option<BadChunk> },
    /// The last pack name is not terminated.
    #[error("multi-pack-index pack-name chunk is too short")]
    Names,
    /// Two names are not in ascending order.
    #[error("multi-pack-index pack names out of order: '{0}' before '{1}'")]
    Order(BString, BString),
}

/// The defect of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadChunk {
    #[error("multi-pack-index OID fanout is of the wrong size")]
    FanoutSize,
    #[error("oid fanout out of order: fanout[{at}] = {one:x} > {two:x} = fanout[{}]", .at + 1)]
    Fanout { at: usize, one: u32, two: u32 },
    #[error("multi-pack-index OID lookup chunk is the wrong size")]
    LookupSize,
    #[error("multi-pack-index object offset chunk is the wrong size")]
    OffsetsSize,
}

impl Error {
    /// Returns true if Git exits with this error. Git prints other errors, and continues without
    /// the file.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Error::TooSmall | Error::Hash { .. } | Error::Table(_))
    }
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

const SIGNATURE: u32 = 0x4d49_4458;
const HEADER_LEN: usize = 12;
const OFFSET_LEN: usize = 8;
/// Chunks begin at multiples of this.
const ALIGNMENT: u64 = 4;

impl<D: Deref<Target = [u8]>> Midx<D> {
    /// Checks the structure of a multi-pack-index and takes its bytes.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, Error> {
        if data.len() < HEADER_LEN + hash.len() {
            return Err(Error::TooSmall);
        }
        if be32(&data, 0) != SIGNATURE {
            return Err(Error::Signature(be32(&data, 0)));
        }
        if !matches!(data[4], 1 | 2) {
            return Err(Error::Version(data[4]));
        }
        let wanted = chunks::hash_version(hash);
        if data[5] != wanted {
            return Err(Error::Hash { found: data[5], wanted });
        }
        let chunks =
            Chunks::parse(&data, HEADER_LEN, usize::from(data[6]), ALIGNMENT, hash).map_err(Error::Table)?;
        let chunk = |id: &Id, name| chunks.find(id).ok_or(Error::Chunk { name, why: None });
        let sized = |id, name, len: u64, why| {
            let range = chunk(id, name)?;
            if range.len() as u64 == len {
                Ok(range.start)
            } else {
                Err(Error::Chunk { name, why: Some(why) })
            }
        };
        let names_chunk = chunk(b"PNAM", "pack-name")?;
        let fanout = sized(b"OIDF", "OID fanout", FANOUT_LEN as u64, BadChunk::FanoutSize)?;
        if let Some((at, one, two)) = fanout::first_decrease(&data[fanout..]) {
            let why = Some(BadChunk::Fanout { at, one, two });
            return Err(Error::Chunk { name: "OID fanout", why });
        }
        let count = be32(&data, fanout + FANOUT_LEN - 4);
        let lookup = u64::from(count) * hash.len() as u64;
        let names = sized(b"OIDL", "OID lookup", lookup, BadChunk::LookupSize)?;
        let places = u64::from(count) * OFFSET_LEN as u64;
        let offsets = sized(b"OOFF", "object offsets", places, BadChunk::OffsetsSize)?;
        let large_offsets = chunks.find(b"LOFF").unwrap_or(0..0);
        let pack_names = pack_names(&data, names_chunk, be32(&data, 8))?;
        Ok(Midx { data, hash, count, pack_names, fanout, names, offsets, large_offsets })
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u8 {
        self.data[4]
    }

    /// Returns the number of objects.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns true if the trailing checksum is that of the content.
    pub fn has_valid_checksum(&self) -> bool {
        chunks::has_valid_checksum(&self.data, self.hash)
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

    /// Returns the positions of the objects whose names begin with `byte`.
    pub fn bucket(&self, byte: u8) -> Range<u32> {
        fanout::bucket(&self.data[self.fanout..], byte)
    }

    /// Returns the name of the `n`th object; `n` is below [`Midx::count`].
    pub fn name(&self, n: u32) -> ObjectId {
        ObjectId::from_bytes(self.hash, self.name_bytes(n)).expect("a slice of the hash's length")
    }

    /// Returns the bytes of [`Midx::name`].
    pub fn name_bytes(&self, n: u32) -> &[u8] {
        let at = self.names + n as usize * self.hash.len();
        &self.data[at..at + self.hash.len()]
    }

    /// Returns pack and offset of the `n`th object; `n` is below [`Midx::count`]. Returns `None` if
    /// the pack or the offset is outside the tables.
    pub fn locate(&self, n: u32) -> Option<(u32, u64)> {
        let pack = self.pack_of(n);
        if pack as usize >= self.pack_names.len() {
            return None;
        }
        Some((pack, self.offset(n)?))
    }

    /// Returns the pack of the `n`th object, which may be outside the table of a damaged file.
    pub fn pack_of(&self, n: u32) -> u32 {
        be32(&self.data, self.offsets + n as usize * OFFSET_LEN)
    }

    /// Returns the offset of the `n`th object in its pack. Returns `None` if it is outside the
    /// table of large offsets.
    pub fn offset(&self, n: u32) -> Option<u64> {
        let offset = be32(&self.data, self.offsets + n as usize * OFFSET_LEN + 4);
        // Without the chunk of large offsets, the highest bit belongs to a 32-bit offset.
        if offset & 0x8000_0000 == 0 || self.large_offsets.is_empty() {
            return Some(u64::from(offset));
        }
        let at = (offset & 0x7fff_ffff) as usize * 8;
        let large = self.data[self.large_offsets.clone()].get(at..at + 8)?;
        Some(be64(large, 0))
    }
}

fn pack_names(data: &[u8], chunk: Range<usize>, count: u32) -> Result<Vec<Range<usize>>, Error> {
    let mut names: Vec<Range<usize>> = Vec::new();
    let mut start = chunk.start;
    for _ in 0..count {
        let len = data[start..chunk.end].iter().position(|&byte| byte == 0);
        let end = start + len.ok_or(Error::Names)?;
        let last = names.last().map(|last| &data[last.clone()]);
        if let (1, Some(last)) = (data[4], last)
            && data[start..end] <= *last
        {
            return Err(Error::Order(last.into(), data[start..end].into()));
        }
        names.push(start..end);
        start = end + 1;
    }
    Ok(names)
}

/// The header and the table of contents of a new multi-pack-index, and the chunks that follow, in
/// order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The bytes before the first chunk.
    pub head: Vec<u8>,
    /// The bytes of the chunk of pack names.
    pub names: Vec<u8>,
}

impl Layout {
    /// Lays out a file of `count` objects in packs with these names. `large` is the number of large
    /// offsets, or 0.
    pub fn new<'a>(
        version: u8,
        hash: HashKind,
        packs: impl ExactSizeIterator<Item = &'a [u8]>,
        count: u64,
        large: u64,
    ) -> Layout {
        let pack_count = packs.len() as u32;
        let mut names: Vec<u8> = packs.flat_map(|name| name.iter().copied().chain([0])).collect();
        names.resize(names.len().next_multiple_of(ALIGNMENT as usize), 0);
        let mut chunks = vec![
            (*b"PNAM", names.len() as u64),
            (*b"OIDF", FANOUT_LEN as u64),
            (*b"OIDL", count * hash.len() as u64),
            (*b"OOFF", count * OFFSET_LEN as u64),
        ];
        if large > 0 {
            chunks.push((*b"LOFF", large * 8));
        }
        let mut head = SIGNATURE.to_be_bytes().to_vec();
        head.extend([version, chunks::hash_version(hash), chunks.len() as u8, 0]);
        head.extend(pack_count.to_be_bytes());
        chunks::write_table(&mut head, &chunks);
        Layout { head, names }
    }
}

/// Parses the `multi-pack-index-chain` file: the layers of an incremental multi-pack-index, the
/// base first, one hexadecimal checksum per line. Stops at the first line that is not a checksum.
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
        let large_count = large.len() / 8;
        let mut chunks: Vec<(&[u8; 4], Vec<u8>)> =
            vec![(b"PNAM", names), (b"OIDF", fanout), (b"OIDL", lookup), (b"OOFF", offsets)];
        if !large.is_empty() {
            chunks.push((b"LOFF", large));
        }
        let (count, large) = (objects.len() as u64, large_count as u64);
        let packs = packs.iter().map(|name| name.as_bytes());
        let mut out = Layout::new(1, HashKind::Sha1, packs, count, large).head;
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
        assert_eq!(changed(0, b'X'), Err(Error::Signature(0x5849_4458)));
        assert_eq!(changed(4, 3), Err(Error::Version(3)));
        assert_eq!(changed(5, 2), Err(Error::Hash { found: 2, wanted: 1 }));
        assert_eq!(changed(6, 4), Err(Error::Table(chunks::Error::Final(0x4c4f_4646))));
        assert_eq!(changed(6, 255), Err(Error::Table(chunks::Error::Early)));
        assert_eq!(changed(11, 200), Err(Error::Order("pack-b.idx".into(), "".into())));
        assert_eq!(changed(HEADER_LEN, b'X'), Err(Error::Chunk { name: "pack-name", why: None }));
        let far = changed(HEADER_LEN + 4, 1).expect_err("a chunk far outside");
        assert!(matches!(far, Error::Table(chunks::Error::Offsets(..))) && !far.is_fatal(), "{far:?}");
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
