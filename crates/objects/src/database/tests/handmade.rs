//! Packs that Git does not write: deep, looping, malformed.

use super::*;

/// The content of an entry.
pub(super) enum Entry<'a> {
    Whole(&'a [u8]),
    /// A delta against the entry of this number (`OFS_DELTA`).
    Ofs(usize, &'a [u8]),
    /// A delta against the entry of this number (`REF_DELTA`).
    Ref(usize, &'a [u8]),
    /// Raw bytes.
    Raw(&'a [u8]),
}

pub(super) fn name(n: usize) -> ObjectId {
    let mut raw = [0; 20];
    raw[..4].copy_from_slice(&(n as u32).wrapping_mul(0x9e37_79b1).to_be_bytes());
    raw[4..8].copy_from_slice(&(n as u32).to_be_bytes());
    ObjectId::from_bytes(HashKind::Sha1, &raw).unwrap()
}

pub(super) fn deflate(content: &[u8]) -> Vec<u8> {
    sirocco::compress(sirocco::Format::Zlib, sirocco::deflate::Level::DEFAULT, content)
}

fn entry_header(kind: u8, mut size: u64) -> Vec<u8> {
    let mut out = vec![(kind << 4) | (size & 15) as u8];
    size >>= 4;
    while size != 0 {
        *out.last_mut().unwrap() |= 0x80;
        out.push((size & 0x7f) as u8);
        size >>= 7;
    }
    out
}

fn distance(mut distance: u64) -> Vec<u8> {
    let mut out = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        out.insert(0, 0x80 | (distance & 0x7f) as u8);
    }
    out
}

/// Writes a pack with an index and opens it. Entry `n` has the name `name(n)`.
pub(super) fn build(dir: &Path, entries: &[Entry]) -> Objects {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend((entries.len() as u32).to_be_bytes());
    let mut offsets: Vec<u64> = Vec::new();
    for entry in entries {
        let offset = pack.len() as u64;
        offsets.push(offset);
        match entry {
            Entry::Whole(content) => {
                pack.extend(entry_header(3, content.len() as u64));
                pack.extend(deflate(content));
            }
            Entry::Ofs(base, delta) => {
                pack.extend(entry_header(6, delta.len() as u64));
                pack.extend(distance(offset - offsets[*base]));
                pack.extend(deflate(delta));
            }
            Entry::Ref(base, delta) => {
                pack.extend(entry_header(7, delta.len() as u64));
                pack.extend(name(*base).as_bytes());
                pack.extend(deflate(delta));
            }
            Entry::Raw(bytes) => pack.extend(*bytes),
        }
    }
    pack.extend([0x5a; 20]);
    let mut sorted: Vec<usize> = (0..entries.len()).collect();
    sorted.sort_by_key(|&n| name(n));
    let mut idx = b"\xfftOc\0\0\0\x02".to_vec();
    for byte in 0..=255u8 {
        idx.extend((sorted.iter().filter(|&&n| name(n).as_bytes()[0] <= byte).count() as u32).to_be_bytes());
    }
    sorted.iter().for_each(|&n| idx.extend(name(n).as_bytes()));
    sorted.iter().for_each(|_| idx.extend([0; 4]));
    sorted.iter().for_each(|&n| idx.extend((offsets[n] as u32).to_be_bytes()));
    idx.extend([0x5a; 20]);
    idx.extend([0; 20]);
    std::fs::create_dir(dir.join("pack")).unwrap();
    std::fs::write(dir.join("pack/pack-made.pack"), &pack).unwrap();
    std::fs::write(dir.join("pack/pack-made.idx"), &idx).unwrap();
    Objects::new(dir, HashKind::Sha1)
}

/// Returns a delta that keeps the first `keep` of `base` bytes and appends one byte.
pub(super) fn delta(base: u8, keep: u8, byte: u8) -> Vec<u8> {
    match keep {
        0 => vec![base, 1, 1, byte],
        _ => vec![base, keep + 1, 0x90, keep, 1, byte],
    }
}

pub(super) fn fault(objects: &Objects, n: usize) -> Fault {
    match objects.reader().read(&name(n)) {
        Err(Error::Packed { oid, source, pack, .. }) => {
            assert_eq!(oid, name(n));
            assert!(pack.ends_with("pack/pack-made.pack"));
            source
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn decodes_chains_of_any_depth() {
    let depth = 60_000;
    let deltas: Vec<Vec<u8>> = (0..depth).map(|n| delta(8, 7, n as u8)).collect();
    let mut entries = vec![Entry::Whole(b"1234567x")];
    // Bases by offset and by name alternate.
    entries.extend(
        deltas.iter().enumerate().map(
            |(n, delta)| {
                if n % 2 == 0 { Entry::Ofs(n, delta) } else { Entry::Ref(n, delta) }
            },
        ),
    );
    let dir = tempfile::tempdir().unwrap();
    let objects = build(dir.path(), &entries);
    let read = std::thread::Builder::new().stack_size(128 << 10);
    let read = |work: Box<dyn FnOnce() + Send + '_>| {
        std::thread::scope(|scope| read.spawn_scoped(scope, work).unwrap().join().unwrap());
    };
    read(Box::new(|| {
        let mut reader = objects.reader();
        let last = [b"1234567", &[(depth - 1) as u8][..]].concat();
        assert_eq!(reader.read(&name(depth)).unwrap(), (Kind::Blob, &last[..]));
        assert_eq!(reader.counts().inflated, depth as u64 + 1);
        assert_eq!(reader.header(&name(depth)).unwrap(), (Kind::Blob, 8));
        // All bases are in the cache now.
        assert!(reader.read(&name(depth - 1)).is_ok());
        assert_eq!(reader.counts().inflated, depth as u64 + 1);
    }));
}

#[test]
fn uses_the_last_object_as_a_base() {
    let dir = tempfile::tempdir().unwrap();
    let objects = build(dir.path(), &[Entry::Whole(b"base"), Entry::Ofs(0, &delta(4, 3, b'!'))]);
    let mut reader = objects.reader();
    assert_eq!(reader.read(&name(0)).unwrap().1, b"base");
    assert_eq!(reader.read(&name(1)).unwrap().1, b"bas!");
    assert_eq!(reader.read(&name(0)).unwrap().1, b"base");
    assert_eq!(reader.counts(), Counts { inflated: 2, inflated_bytes: 4 + 6, deltas: 1, hits: 2 });
}

#[test]
fn accepts_a_base_later_in_the_pack() {
    let dir = tempfile::tempdir().unwrap();
    let objects = build(dir.path(), &[Entry::Ref(1, &delta(4, 2, b'!')), Entry::Whole(b"base")]);
    assert_eq!(objects.reader().read(&name(0)).unwrap().1, b"ba!");
}

#[test]
fn detects_loops_of_deltas() {
    let own = delta(4, 3, b'!');
    let dir = tempfile::tempdir().unwrap();
    let objects = build(
        dir.path(),
        &[
            Entry::Ref(0, &own),
            Entry::Ref(3, &own),
            Entry::Ofs(1, &own),
            Entry::Ofs(2, &own),
            Entry::Ofs(3, &own),
            Entry::Ref(9, &own),
        ],
    );
    for n in 0..5 {
        assert!(matches!(fault(&objects, n), Fault::Loop), "{n}");
        // A second read gives the same answer.
        assert!(matches!(fault(&objects, n), Fault::Loop), "{n}");
        let header = objects.header(&name(n)).unwrap_err();
        assert!(matches!(header, Error::Packed { source: Fault::Loop, .. }), "{n}: {header:?}");
    }
    assert!(matches!(fault(&objects, 5), Fault::BaseMissing(base) if base == name(9)));
}

#[test]
fn refuses_malformed_entries() {
    let raw = |kind, size, content: &[u8]| [entry_header(kind, size), deflate(content)].concat();
    let long = raw(3, 9, b"12345");
    let short = raw(3, 2, b"12345");
    let absurd = raw(3, 1 << 59, b"12345");
    let mut checksum = raw(3, 5, b"12345");
    *checksum.last_mut().unwrap() ^= 1;
    let kind = raw(5, 5, b"12345");
    let before = [entry_header(6, 6), distance(1 << 40), deflate(&delta(4, 3, b'!'))].concat();
    let header = [0xff; 40];
    // A delta that states 2^50 bytes and produces one.
    let giant = [&[4][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02], &[1, b'x']].concat();
    let dir = tempfile::tempdir().unwrap();
    let objects = build(
        dir.path(),
        &[
            Entry::Whole(b"base"),
            Entry::Raw(&long),
            Entry::Raw(&short),
            Entry::Raw(&absurd),
            Entry::Raw(&checksum),
            Entry::Raw(&kind),
            Entry::Raw(&before),
            Entry::Raw(&header),
            Entry::Ofs(0, &giant),
            Entry::Ofs(0, &delta(5, 3, b'!')),
            Entry::Ofs(0, &delta(4, 9, b'!')),
            Entry::Ofs(0, &[]),
            Entry::Whole(b""),
        ],
    );
    assert!(matches!(fault(&objects, 1), Fault::Size { expected: 9, more: false }));
    assert!(matches!(fault(&objects, 2), Fault::Size { expected: 2, more: true }));
    assert!(matches!(fault(&objects, 3), Fault::Size { more: false, .. }));
    assert!(matches!(fault(&objects, 4), Fault::Inflate(sirocco::inflate::Error::ChecksumMismatch)));
    assert!(matches!(fault(&objects, 5), Fault::Entry(format::pack::Error::EntryType(5))));
    assert!(matches!(fault(&objects, 6), Fault::Entry(format::pack::Error::BaseDistance)));
    assert!(matches!(fault(&objects, 7), Fault::Entry(format::pack::Error::EntryHeader)));
    for n in 8..12 {
        assert!(matches!(fault(&objects, n), Fault::Delta(_)), "{n}");
    }
    assert_eq!(objects.reader().read(&name(12)).unwrap(), (Kind::Blob, &b""[..]));
    assert_eq!(objects.reader().read(&name(0)).unwrap(), (Kind::Blob, &b"base"[..]));
    let unheld = &mut |_: &[u8]| Ok(());
    let objects = Objects::new(dir.path(), HashKind::Sha1);
    for n in 1..8 {
        let error = objects.reader().stream(&name(n), unheld).unwrap_err();
        assert!(matches!(error, Error::Packed { oid, .. } if oid == name(n)), "{n} {error:?}");
    }
}

#[test]
fn refuses_offsets_outside_of_the_pack() {
    let dir = tempfile::tempdir().unwrap();
    drop(build(dir.path(), &[Entry::Whole(b"one"), Entry::Whole(b"two")]));
    let idx = dir.path().join("pack/pack-made.idx");
    let good = std::fs::read(&idx).unwrap();
    let offsets = good.len() - 40 - 8;
    for offset in [0u32, 11, 60, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
        let mut bad = good.clone();
        bad[offsets..offsets + 4].copy_from_slice(&offset.to_be_bytes());
        std::fs::write(&idx, &bad).unwrap();
        let objects = Objects::new(dir.path(), HashKind::Sha1);
        let results = [0, 1].map(|n| objects.reader().read(&name(n)).map(|read| read.1.to_vec()));
        assert!(results.iter().any(Result::is_ok), "{offset}");
        let error = results.into_iter().find_map(Result::err).expect("one is wrong");
        assert!(matches!(error, Error::Packed { .. }), "{offset}: {error:?}");
    }
}
