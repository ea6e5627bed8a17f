//! Writes multi-pack-indexes.
//!
//! The caller must take the lock on `multi-pack-index` before it reads the packs. The file is
//! synced by the policy and replaces the old one; then its directory is synced.

use std::io;

use format::{HashKind, midx::Layout};

use crate::{Components, Error, Fsync, HashWriter, Hashing, Lock};

/// The objects of a multi-pack-index, sorted by name.
pub trait Objects {
    /// Returns the number of objects.
    fn count(&self) -> usize;

    /// Returns the name of the `n`th object.
    fn name(&self, n: usize) -> &[u8];

    /// Returns the number of the object's pack, and its offset there.
    fn place(&self, n: usize) -> (u32, u64);
}

/// Files of fewer objects are hashed on the thread that writes them.
const FEW: usize = 10_000;

/// Writes the multi-pack-index of `objects` in these packs, whose names are sorted. Releases the
/// lock.
pub fn write(
    lock: Lock,
    version: u8,
    hash: HashKind,
    packs: &[&[u8]],
    objects: &impl Objects,
    fsync: &Fsync,
) -> Result<(), Error> {
    let failed = |source| Error::Io { what: "write", path: lock.lock_path().to_owned(), source };
    write_to(lock.file(), version, hash, packs, objects).map_err(failed)?;
    crate::check_mapped_files()?;
    lock.commit_synced(fsync, Components::PACK_METADATA)
}

fn write_to(
    out: impl io::Write,
    version: u8,
    hash: HashKind,
    packs: &[&[u8]],
    objects: &impl Objects,
) -> io::Result<()> {
    let all = 0..objects.count();
    let offset = |n: usize| objects.place(n).1;
    // While no offset exceeds 32 bits, all offsets are stored without the chunk of large offsets.
    let has_large = all.clone().any(|n| offset(n) > u64::from(u32::MAX));
    let is_large = |offset: u64| has_large && offset >> 31 != 0;
    let large = all.clone().filter(|&n| is_large(offset(n))).count();
    let layout = Layout::new(version, hash, packs.iter().copied(), all.len() as u64, large as u64);
    let hashing = if all.len() < FEW { Hashing::Inline } else { Hashing::Threaded };
    let mut writer = HashWriter::new(out, hash, hashing);
    writer.write(&layout.head)?;
    writer.write(&layout.names)?;
    writer.write(&format::fanout_of(all.clone().map(|n| objects.name(n))))?;
    for n in all.clone() {
        writer.write(objects.name(n))?;
    }
    let mut large = 0_u32;
    for n in all.clone() {
        let (pack, offset) = objects.place(n);
        let mut row = [0; 8];
        row[..4].copy_from_slice(&pack.to_be_bytes());
        let short = if is_large(offset) { 0x8000_0000 | large } else { offset as u32 };
        large += u32::from(is_large(offset));
        row[4..].copy_from_slice(&short.to_be_bytes());
        writer.write(&row)?;
    }
    for offset in all.map(offset).filter(|&offset| is_large(offset)) {
        writer.write(&offset.to_be_bytes())?;
    }
    writer.finish().map(drop)
}

#[cfg(test)]
mod tests {
    use format::{ObjectId, midx::Midx};

    use super::*;

    struct Rows(Vec<(ObjectId, u32, u64)>);

    impl Objects for Rows {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn name(&self, n: usize) -> &[u8] {
            self.0[n].0.as_bytes()
        }

        fn place(&self, n: usize) -> (u32, u64) {
            (self.0[n].1, self.0[n].2)
        }
    }

    fn oid(first: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[first; 20]).expect("20 bytes")
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let middle = (1 << 31) + 5;
        for (largest, has_large) in [(middle, false), (1 << 33, true)] {
            let rows = Rows(vec![(oid(1), 1, 12), (oid(2), 0, middle), (oid(9), 1, largest)]);
            let mut file = Vec::new();
            write_to(&mut file, 1, HashKind::Sha1, &[b"a.idx", b"b.idx"], &rows).expect("memory takes all");
            assert_eq!(file.windows(4).any(|bytes| bytes == b"LOFF"), has_large);
            let midx = Midx::parse(file, HashKind::Sha1).expect("a good one");
            assert!(midx.has_valid_checksum());
            assert_eq!(midx.pack_names().collect::<Vec<_>>(), [b"a.idx", b"b.idx"]);
            for (n, (name, pack, offset)) in rows.0.iter().enumerate() {
                assert_eq!(midx.find(name), Some(n as u32));
                assert_eq!(midx.locate(n as u32), Some((*pack, *offset)));
            }
        }
    }
}
