//! Pack indices (`.idx`), versions 1 and 2: map an object name to the object's offset in the pack.
//! [`crate::idx_writer`] writes them.
//!
//! Source: gitformat-pack(5). [`Idx::parse`] checks what Git checks when it opens an index:
//! signature, version, a fan-out that never decreases, and the file's length. It does not check the
//! checksum, which Git leaves to fsck. Decoding the object detects a wrong offset.

use std::ops::{Deref, Range};

use crate::fanout::{self, FANOUT_LEN, be32, be64};
use crate::{HashKind, ObjectId, hash::Prefix, idx_writer::Form};

/// The reason why an index cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is shorter than the smallest index.
    #[error("index file is too small")]
    TooSmall,
    /// A version other than 1 and 2.
    #[error("index file is version {0} and is not supported")]
    Version(u32),
    /// The fan-out table decreases.
    #[error("non-monotonic index")]
    Fanout,
    /// The length does not match the number of objects.
    #[error("wrong index v{0} file size")]
    Size(u8),
}

impl Error {
    /// Returns Git's message about the index at `path`.
    pub fn about(&self, path: impl std::fmt::Display) -> String {
        match self {
            Error::TooSmall => format!("index file {path} is too small"),
            Error::Version(version) => format!(
                "index file {path} is version {version} and is not supported by this binary (try upgrading \
                 GIT to a newer version)"
            ),
            Error::Fanout => format!("non-monotonic index {path}"),
            Error::Size(_) => format!("{self} in {path}"),
        }
    }
}

/// A pack index over the bytes of its file, usually mapped.
#[derive(Debug)]
pub struct Idx<D> {
    data: D,
    hash: HashKind,
    count: u32,
    version_2: bool,
}

/// The tables of an index for a search by name.
struct Tables<'a> {
    fanout: &'a [u8],
    names: &'a [u8],
    /// The distance between two names in bytes.
    stride: usize,
}

impl<D: Deref<Target = [u8]>> Idx<D> {
    /// Checks the structure of an index and takes its bytes.
    pub fn parse(data: D, hash: HashKind) -> Result<Self, Error> {
        let len = data.len();
        if len < FANOUT_LEN + 2 * hash.len() {
            return Err(Error::TooSmall);
        }
        let version_2 = data[..4] == *b"\xfftOc";
        if version_2 && be32(&data, 4) != 2 {
            return Err(Error::Version(be32(&data, 4)));
        }
        if version_2 && len < 8 + FANOUT_LEN + 2 * hash.len() {
            return Err(Error::TooSmall);
        }
        let count = fanout::count(&data[if version_2 { 8 } else { 0 }..]).ok_or(Error::Fanout)?;
        let (len, n, hash_len) = (len as u64, u64::from(count), hash.len() as u64);
        let fits = if version_2 {
            let least = 8 + FANOUT_LEN as u64 + n * (hash_len + 8) + 2 * hash_len;
            // The first object of a pack has a small offset, so at most `n - 1` offsets are large.
            len >= least && (len - least) <= n.saturating_sub(1) * 8
        } else {
            len == FANOUT_LEN as u64 + n * (hash_len + 4) + 2 * hash_len
        };
        if !fits {
            return Err(Error::Size(if version_2 { 2 } else { 1 }));
        }
        Ok(Idx { data, hash, count, version_2 })
    }

    /// Returns the bytes of the index.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// Returns the form that reproduces this index when it is written again. Returns `None` if an
    /// offset of 64 bits is at the end of the file or after it.
    pub fn form(&self) -> Option<Form> {
        if !self.version_2 {
            return Some(Form { version: 1, ..Form::default() });
        }
        let mut form = Form::default();
        let offsets = 8 + FANOUT_LEN + self.count as usize * (self.hash.len() + 4);
        for n in 0..self.count as usize {
            let offset = be32(&self.data, offsets + n * 4);
            if offset & 0x8000_0000 != 0 {
                let at = offsets + self.count as usize * 4 + (offset & 0x7fff_ffff) as usize * 8;
                if at >= self.data.len() - 8 {
                    return None;
                }
                form.also_long.push(be64(&self.data, at));
            }
        }
        form.also_long.retain(|&offset| offset <= u64::from(u32::MAX));
        form.also_long.sort_unstable();
        Some(form)
    }

    /// Returns the number of objects in the pack.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the trailer of the pack that this index belongs to.
    pub fn pack_checksum(&self) -> &[u8] {
        let end = self.data.len() - self.hash.len();
        &self.data[end - self.hash.len()..end]
    }

    /// Returns the position of an object in the order of names.
    pub fn find(&self, oid: &ObjectId) -> Option<u32> {
        let Tables { fanout, names, stride } = self.tables();
        (oid.kind() == self.hash).then(|| fanout::find(fanout, names, stride, oid))?
    }

    /// Returns the byte range of all names that share their first byte with `oid`. A lookup reads
    /// only this range.
    pub fn bucket_of(&self, oid: &ObjectId) -> Range<usize> {
        let Tables { fanout, stride, .. } = self.tables();
        let first = usize::from(oid.as_bytes()[0]);
        let before = |byte: usize| byte.checked_sub(1).map_or(0, |byte| be32(fanout, byte * 4) as usize);
        let names = FANOUT_LEN + if self.version_2 { 8 } else { 4 };
        names + before(first) * stride..names + before(first + 1) * stride
    }

    /// Iterates over all objects whose names begin with `prefix`, in order.
    pub fn with_prefix(&self, prefix: Prefix) -> impl Iterator<Item = ObjectId> {
        let Tables { fanout, names, stride } = self.tables();
        let first = fanout::first_from(fanout, names, stride, &prefix.first());
        (first..self.count).map(|n| self.name(n)).take_while(move |name| prefix.matches(name))
    }

    /// Returns the tables for a search by name.
    fn tables(&self) -> Tables<'_> {
        if self.version_2 {
            Tables { fanout: &self.data[8..], names: &self.data[8 + FANOUT_LEN..], stride: self.hash.len() }
        } else {
            Tables {
                fanout: &self.data[..],
                names: &self.data[FANOUT_LEN + 4..],
                stride: self.hash.len() + 4,
            }
        }
    }

    /// Returns the positions of the objects whose names begin with `byte`.
    pub fn bucket(&self, byte: u8) -> Range<u32> {
        fanout::bucket(self.tables().fanout, byte)
    }

    /// Returns the name of the `n`th object; `n` is below [`Idx::count`].
    pub fn name(&self, n: u32) -> ObjectId {
        ObjectId::from_bytes(self.hash, self.name_bytes(n)).expect("a slice of the hash's length")
    }

    /// Returns the bytes of [`Idx::name`].
    pub fn name_bytes(&self, n: u32) -> &[u8] {
        let (n, len) = (n as usize, self.hash.len());
        let at = if self.version_2 { 8 + FANOUT_LEN + n * len } else { FANOUT_LEN + n * (len + 4) + 4 };
        &self.data[at..at + len]
    }

    /// Returns the pack offset of the `n`th object; `n` is below [`Idx::count`]. Returns `None` if
    /// the index points outside its own table of large offsets.
    pub fn offset(&self, n: u32) -> Option<u64> {
        let (n, len) = (n as usize, self.hash.len());
        if !self.version_2 {
            return Some(u64::from(be32(&self.data, FANOUT_LEN + n * (len + 4))));
        }
        let offsets = 8 + FANOUT_LEN + self.count as usize * (len + 4);
        let offset = be32(&self.data, offsets + n * 4);
        if offset & 0x8000_0000 == 0 {
            return Some(u64::from(offset));
        }
        let at = offsets + self.count as usize * 4 + (offset & 0x7fff_ffff) as usize * 8;
        (at + 8 <= self.data.len() - 2 * len).then(|| be64(&self.data, at))
    }

    /// Returns the CRC-32 of the `n`th object's entry in the pack; `n` is below [`Idx::count`].
    /// Version 1 has none.
    pub fn crc32(&self, n: u32) -> Option<u32> {
        let at = 8 + FANOUT_LEN + self.count as usize * self.hash.len() + n as usize * 4;
        self.version_2.then(|| be32(&self.data, at))
    }

    /// Returns the name of the object at an offset. Searches all objects, so use it only for
    /// reports and recovery.
    pub fn name_at(&self, offset: u64) -> Option<ObjectId> {
        (0..self.count).find(|&n| self.offset(n) == Some(offset)).map(|n| self.name(n))
    }
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

    /// Builds an index of the given objects, which are sorted by name.
    fn build(version_2: bool, objects: &[(ObjectId, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        if version_2 {
            out.extend_from_slice(b"\xfftOc\0\0\0\x02");
        }
        for byte in 0..=255u8 {
            let upto = objects.iter().filter(|(name, _)| name.as_bytes()[0] <= byte).count();
            out.extend_from_slice(&(upto as u32).to_be_bytes());
        }
        if version_2 {
            let mut large = Vec::new();
            objects.iter().for_each(|(name, _)| out.extend_from_slice(name.as_bytes()));
            out.resize(out.len() + objects.len() * 4, 0);
            for &(_, offset) in objects {
                let short = u32::try_from(offset).ok().filter(|short| short & 0x8000_0000 == 0);
                let short = short.unwrap_or_else(|| {
                    large.extend_from_slice(&offset.to_be_bytes());
                    0x8000_0000 | (large.len() / 8 - 1) as u32
                });
                out.extend_from_slice(&short.to_be_bytes());
            }
            out.extend_from_slice(&large);
        } else {
            for (name, offset) in objects {
                out.extend_from_slice(&(*offset as u32).to_be_bytes());
                out.extend_from_slice(name.as_bytes());
            }
        }
        out.extend_from_slice(&[0xaa; 20]);
        out.extend_from_slice(&[0xbb; 20]);
        out
    }

    #[test]
    fn both_versions_give_the_same_answers() {
        let objects = [(oid(0, 1), 12), (oid(0, 2), 99), (oid(7, 0), 0x7fff_ffff), (oid(255, 9), 500)];
        for version_2 in [false, true] {
            let idx = Idx::parse(build(version_2, &objects), HashKind::Sha1).expect("a good index");
            assert_eq!(idx.count(), 4);
            assert_eq!(idx.pack_checksum(), [0xaa; 20]);
            for (n, (name, offset)) in objects.iter().enumerate() {
                assert_eq!(idx.find(name), Some(n as u32));
                assert_eq!(idx.name(n as u32), *name);
                assert_eq!(idx.offset(n as u32), Some(*offset));
                assert_eq!(idx.name_at(*offset), Some(*name));
            }
            let with = |prefix: &[u8]| {
                let prefix = Prefix::from_hex(HashKind::Sha1, prefix).expect("digits");
                idx.with_prefix(prefix).collect::<Vec<_>>()
            };
            assert_eq!(with(b"0000"), [oid(0, 1), oid(0, 2)]);
            assert_eq!(
                (with(b"07070"), with(b"0706"), with(b"f")),
                (vec![oid(7, 0)], vec![], vec![oid(255, 9)])
            );
            for (oid, _) in &objects {
                let like = &idx.data()[idx.bucket_of(oid)];
                let stride = if version_2 { 20 } else { 24 };
                let names: Vec<&[u8]> = like.chunks(stride).map(|name| &name[..20]).collect();
                assert!(
                    names.contains(&oid.as_bytes()) && names.iter().all(|name| name[0] == oid.as_bytes()[0])
                );
            }
            assert_eq!(idx.bucket_of(&oid(5, 0)).len(), 0);
            assert_eq!(idx.find(&oid(0, 3)), None);
            assert_eq!(idx.find(&ObjectId::empty_blob(HashKind::Sha256)), None);
        }
    }

    #[test]
    fn offsets_of_64_bits() {
        let objects = [(oid(1, 0), 12), (oid(2, 0), 0x8000_0000), (oid(3, 0), 1 << 40)];
        let mut data = build(true, &objects);
        let idx = Idx::parse(&data[..], HashKind::Sha1).expect("a good index");
        assert_eq!(
            [idx.offset(0), idx.offset(1), idx.offset(2)],
            [Some(12), Some(0x8000_0000), Some(1 << 40)]
        );
        let second = 8 + FANOUT_LEN + 3 * 24 + 4;
        data[second..second + 4].copy_from_slice(&0x8000_0002u32.to_be_bytes());
        let idx = Idx::parse(&data[..], HashKind::Sha1).expect("still of the right size");
        assert_eq!(idx.offset(1), None);
    }

    #[test]
    fn reports_the_kind_of_damage() {
        let good = build(true, &[(oid(1, 0), 12), (oid(2, 0), 40)]);
        let parse = |data: &[u8]| Idx::parse(data, HashKind::Sha1).map(|_| ());
        assert_eq!(parse(&good), Ok(()));
        assert_eq!(parse(&good[..good.len() - 1]), Err(Error::Size(2)));
        assert_eq!(parse(&good[..1000]), Err(Error::TooSmall));
        let mut newer = good.clone();
        newer[7] = 3;
        assert_eq!(parse(&newer), Err(Error::Version(3)));
        let mut fanout = good;
        fanout[8] = 0xff;
        assert_eq!(parse(&fanout), Err(Error::Fanout));
    }

    proptest! {
        #[test]
        fn survives_any_damage(
            version_2 in any::<bool>(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut data = build(version_2, &[(oid(1, 0), 12), (oid(2, 0), 40), (oid(2, 9), 1 << 33)]);
            for (at, byte) in flips {
                let at = at.index(data.len());
                data[at] = byte;
            }
            if let Ok(idx) = Idx::parse(data, HashKind::Sha1) {
                for n in 0..idx.count() {
                    let _ = (idx.offset(n), idx.find(&idx.name(n)));
                }
            }
        }
    }
}
