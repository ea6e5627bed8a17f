//! Generated packs: families of any shape, resolved with any number of threads and any cache size.

use std::sync::{Mutex, atomic::AtomicBool};

use format::{
    HashKind, Kind, ObjectId,
    hash::Hasher,
    idx_writer::Members as _,
    pack::{encode_entry, encode_header},
};
use proptest::prelude::*;

use super::*;

const SHA1: HashKind = HashKind::Sha1;

fn name(content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(SHA1, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().expect("no attack")
}

fn zlib(content: &[u8]) -> Vec<u8> {
    sirocco::compress(sirocco::Format::Zlib, sirocco::deflate::Level::new(1), content)
}

/// A pack under construction.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    offsets: Vec<u64>,
}

impl Made {
    fn new(count: u32) -> Made {
        Made { bytes: encode_header(count).to_vec(), offsets: Vec::new() }
    }

    fn blob(&mut self, content: &[u8]) {
        self.offsets.push(self.bytes.len() as u64);
        encode_entry(Kind::Blob, content.len() as u64, &mut self.bytes);
        self.bytes.extend(zlib(content));
    }

    /// Adds a delta, against the entry of this number or against a name.
    fn delta(&mut self, base: Result<usize, ObjectId>, delta: &[u8]) {
        let offset = self.bytes.len() as u64;
        let start = self.bytes.len();
        encode_entry(Kind::Blob, delta.len() as u64, &mut self.bytes);
        let kind = if base.is_ok() { 6 } else { 7 };
        self.bytes[start] = self.bytes[start] & 0x8f | kind << 4;
        match base {
            Ok(base) => {
                let mut distance = offset - self.offsets[base];
                let mut digits = vec![(distance & 0x7f) as u8];
                while distance >> 7 > 0 {
                    distance = (distance >> 7) - 1;
                    digits.push(0x80 | (distance & 0x7f) as u8);
                }
                self.bytes.extend(digits.iter().rev());
            }
            Err(name) => self.bytes.extend(name.as_bytes()),
        }
        self.bytes.extend(zlib(delta));
        self.offsets.push(offset);
    }

    fn finish(mut self) -> Vec<u8> {
        let mut hasher = Hasher::checksum(SHA1);
        hasher.update(&self.bytes);
        self.bytes.extend(hasher.finish().expect("a checksum").as_bytes());
        self.bytes
    }
}

/// Returns a delta that appends `tail` to a base of `len` bytes.
fn appending(len: usize, tail: &[u8]) -> Vec<u8> {
    let mut delta = Vec::new();
    for mut size in [len, len + tail.len()] {
        while size > 0x7f {
            delta.push(size as u8 | 0x80);
            size >>= 7;
        }
        delta.push(size as u8);
    }
    for start in (0..len).step_by(0xffff) {
        let part = (len - start).min(0xffff);
        delta.push(0x80 | 0x0f | 0x30);
        delta.extend((start as u32).to_le_bytes());
        delta.extend((part as u16).to_le_bytes());
    }
    delta.push(tail.len() as u8);
    delta.extend(tail);
    delta
}

/// An observer in a hurry that records the names from the first pass.
#[derive(Default)]
struct Hurried {
    names: Mutex<Vec<ObjectId>>,
    is_over: AtomicBool,
}

impl Hurried {
    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Observer for Hurried {
    fn object(&self, oid: &ObjectId, _: Kind, _: &[u8], _: u64) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.names.lock().expect("no panic").push(*oid);
        }
    }

    fn is_in_hurry(&self) -> bool {
        true
    }
}

/// Options for indexing in these tests.
#[derive(Clone, Copy, Debug)]
struct How {
    threads: usize,
    base_cache: usize,
    big_file_threshold: u64,
}

impl How {
    const PLAIN: How = How { threads: 2, base_cache: 1 << 20, big_file_threshold: 1 << 20 };
}

/// A reader that returns a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

fn indexed(pack: &[u8], how: How, is_file: bool, stream: &mut dyn Read) -> Result<Indexed, Error> {
    observed(pack, how, is_file, stream, None)
}

fn observed(
    pack: &[u8],
    how: How,
    is_file: bool,
    stream: &mut dyn Read,
    observer: Option<&Hurried>,
) -> Result<Indexed, Error> {
    let (interrupt, meter) = (AtomicBool::new(false), Meter::default());
    let options = Options {
        hash: SHA1,
        threads: how.threads,
        big_file_threshold: how.big_file_threshold,
        base_cache: how.base_cache,
        limit: None,
        existing: None,
        interrupt: &interrupt,
        meter: &meter,
        observer: observer.map(|observer| observer as &dyn Observer),
    };
    let mut copy = Vec::new();
    let source = Source { stream, is_file, before: &[] };
    let (mut pack_, end) = scan(source, &options, &mut |bytes| {
        copy.extend_from_slice(bytes);
        Ok(())
    })?;
    assert_eq!([&copy[..], &end.trailer].concat(), pack);
    if let Some(observer) = observer {
        observer.stop();
    }
    pack_.resolve(&copy, None)?;
    pack_.finish()
}

fn names(pack: &[u8], how: How) -> Vec<ObjectId> {
    let indexed = indexed(pack, how, true, &mut &*pack).expect("a good pack");
    (0..indexed.count()).map(|n| ObjectId::from_bytes(SHA1, indexed.name(n)).expect("20 bytes")).collect()
}

/// Returns a pack, and the names of its objects in order.
fn family(bases: &[(usize, bool)], size: usize) -> (Vec<u8>, Vec<ObjectId>) {
    let mut made = Made::new(bases.len() as u32);
    let mut contents: Vec<Vec<u8>> = Vec::new();
    for (number, &(base, by_name)) in bases.iter().enumerate() {
        if base >= number {
            let content = vec![number as u8; size + number];
            made.blob(&content);
            contents.push(content);
            continue;
        }
        let tail = number.to_le_bytes();
        let content = [&contents[base][..], &tail].concat();
        let reference = if by_name { Err(name(&contents[base])) } else { Ok(base) };
        made.delta(reference, &appending(contents[base].len(), &tail));
        contents.push(content);
    }
    let mut names: Vec<ObjectId> = contents.iter().map(|content| name(content)).collect();
    names.sort();
    (made.finish(), names)
}

#[test]
fn deltas_are_applied_early_for_an_observer_in_a_hurry() {
    let bases = [(0, false), (0, false), (1, false), (3, false), (2, false), (3, true), (4, false)];
    let (pack, expected) = family(&bases, 300);
    for threads in 1..3 {
        let (how, observer) = (How { threads, ..How::PLAIN }, Hurried::default());
        let indexed = observed(&pack, how, false, &mut &*pack, Some(&observer)).expect("a good pack");
        let named = (0..indexed.count()).map(|n| indexed.name(n).to_vec());
        assert!(named.eq(expected.iter().map(|name| name.as_bytes().to_vec())));
        let mut early = observer.names.into_inner().expect("no panic");
        early.sort();
        // The delta against a name waits for the second pass.
        let late: Vec<_> = expected.iter().filter(|name| !early.contains(name)).collect();
        assert_eq!((early.len(), late.len()), (6, 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn resolves_families_of_any_shape(
        bases in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..120),
        size in prop_oneof![0usize..300, Just(70_000)],
        threads in 1usize..5,
        base_cache in prop_oneof![Just(0usize), Just(100_000), Just(1 << 30)],
        big_file_threshold in prop_oneof![Just(0u64), Just(1 << 30)],
        piece in prop_oneof![1usize..50, Just(1 << 20)],
    ) {
        let bases: Vec<(usize, bool)> = bases
            .iter()
            .enumerate()
            .map(|(number, (index, kind))| match kind {
                0 => (number, false),
                // Long chains, and bases with many children.
                1..4 => (number.saturating_sub(1), *kind == 1),
                _ => (index.index(number + 1), *kind == 4),
            })
            .collect();
        let (pack, expected) = family(&bases, size);
        let how = How { threads, base_cache, big_file_threshold };
        prop_assert_eq!(&names(&pack, how), &expected);
        let slowly = indexed(&pack, how, false, &mut Slow(&pack, piece)).expect("the same");
        prop_assert_eq!(slowly.count() as usize, expected.len());
    }

    #[test]
    fn any_damage_is_an_error_or_seen_by_the_trailer(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let (mut pack, _) = family(&[(0, false), (0, false), (1, true), (3, false), (3, true), (4, false)], 40);
        for (at, bit) in flips {
            let at = at.index(pack.len());
            pack[at] ^= 1 << bit;
        }
        if cuts {
            pack.truncate(cut.index(pack.len()));
        }
        let (interrupt, meter) = (AtomicBool::new(false), Meter::default());
        let options = Options {
            hash: SHA1, threads: 2, big_file_threshold: 1 << 20, base_cache: 0, limit: None, existing: None,
            interrupt: &interrupt, meter: &meter, observer: None,
        };
        let mut copy = Vec::new();
        let source = Source { stream: &mut &*pack, is_file: true, before: &[] };
        let scanned = scan(source, &options, &mut |bytes| { copy.extend_from_slice(bytes); Ok(()) });
        if let Ok((mut found, _)) = scanned {
            let _ = found.resolve(&copy, None).and_then(|()| found.finish().map(drop));
        }
    }
}

#[test]
fn a_chain_of_any_length_needs_no_stack() {
    const LENGTH: usize = 6_000;
    // Each object has a second child, so all of them stay on the stack, without their contents.
    let bases: Vec<(usize, bool)> = (0..LENGTH)
        .map(|number| if number % 2 == 1 { (number - 1, false) } else { (number.saturating_sub(2), false) })
        .collect();
    let (pack, expected) = family(&bases, 1);
    let run =
        move || assert!(names(&pack, How { base_cache: 1 << 16, threads: 1, ..How::PLAIN }) == expected);
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread");
    thread.join().expect("no overflow");
}

#[test]
fn circles_and_missing_bases_are_left() {
    let (one, other) = (b"one".as_slice(), b"other".as_slice());
    let mut made = Made::new(4);
    made.delta(Err(name(other)), &appending(other.len(), b"1"));
    made.delta(Err(name(&[other, b"1"].concat())), &appending(other.len() + 1, b"2"));
    made.delta(Err(name(one)), &appending(one.len(), b"3"));
    made.blob(b"none of them");
    let pack = made.finish();
    let error = indexed(&pack, How::PLAIN, false, &mut &*pack).expect_err("no bases");
    assert_eq!(error.to_string(), "pack has 3 unresolved deltas");
}

#[test]
fn sizes_are_promises() {
    let content = vec![7; 5000];
    for size in [0u64, 4999, 5001, 1 << 24, 1 << 25, 1 << 40] {
        for big_file_threshold in [1, 1 << 50] {
            let mut made = Made::new(1);
            encode_entry(Kind::Blob, size, &mut made.bytes);
            made.bytes.extend(zlib(&content));
            let pack = made.finish();
            let how = How { big_file_threshold, ..How::PLAIN };
            let error = indexed(&pack, how, false, &mut &*pack).expect_err("another size");
            let is_streamed = big_file_threshold < size;
            let status = if size > 5000 || is_streamed { 1 } else { -5 };
            let expected = format!("pack has bad object at offset 12: inflate returned {status}");
            assert_eq!(error.to_string(), expected, "{size} {big_file_threshold}");
        }
    }
    // A delta that states a result of a terabyte.
    let mut made = Made::new(2);
    made.blob(b"base");
    made.delta(Ok(0), &[4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 1, b'x']);
    let pack = made.finish();
    let error = indexed(&pack, How::PLAIN, false, &mut &*pack).expect_err("too short");
    assert!(error.to_string().ends_with("failed to apply delta"), "{error}");
    assert_eq!(error.complaint().as_deref(), Some("delta replay has gone wild"));
}

#[test]
fn a_file_longer_than_the_buffer_is_copied_up_to_its_trailer() {
    // Incompressible bytes, so that the end of the file comes after the trailer.
    let mut state = 1u64;
    let mut byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let content: Vec<u8> = std::iter::repeat_with(&mut byte).take(3 << 20).collect();
    for big_file_threshold in [1, 1 << 30] {
        let mut made = Made::new(2);
        made.blob(b"small");
        made.blob(&content);
        let pack = made.finish();
        let how = How { big_file_threshold, ..How::PLAIN };
        assert_eq!(names(&pack, how).len(), 2);
    }
}

#[test]
fn an_interrupt_ends_it() {
    let (pack, _) = family(&[(0, false); 3], 10);
    let (interrupt, meter) = (AtomicBool::new(true), Meter::default());
    let how = How::PLAIN;
    let options = Options {
        hash: SHA1,
        threads: how.threads,
        big_file_threshold: how.big_file_threshold,
        base_cache: how.base_cache,
        limit: None,
        existing: None,
        interrupt: &interrupt,
        meter: &meter,
        observer: None,
    };
    let source = Source { stream: &mut &*pack, is_file: true, before: &[] };
    let stopped = scan(source, &options, &mut |_| Ok(())).map(drop);
    assert!(matches!(stopped, Err(Error::Interrupted)));
}

/// Returns the length of the recovered beginning of a pack that is cut after `len` bytes, and its
/// names.
fn salvaged(pack: &[u8], len: usize) -> Result<(u64, Vec<ObjectId>), Error> {
    let (interrupt, meter) = (AtomicBool::new(false), Meter::default());
    let options = Options {
        hash: SHA1,
        threads: 2,
        big_file_threshold: 1 << 20,
        base_cache: 1 << 20,
        limit: None,
        existing: None,
        interrupt: &interrupt,
        meter: &meter,
        observer: None,
    };
    let source = Source { stream: &mut &pack[..len], is_file: true, before: &[] };
    let mut beginning = scan_beginning(source, &options)?;
    beginning.resolve(&pack[..len], None)?;
    beginning.cut();
    let end = beginning.end();
    let indexed = beginning.finish()?;
    let name = |n| ObjectId::from_bytes(SHA1, indexed.name(n)).expect("20 bytes");
    Ok((end, (0..indexed.count()).map(name).collect()))
}

#[test]
fn the_beginning_of_a_pack_has_its_whole_entries() {
    let contents: [&[u8]; 4] = [b"a base", b"a base, longer", b"another", b"a base at the end"];
    let mut made = Made::new(4);
    made.blob(contents[0]);
    made.delta(Ok(0), &appending(contents[0].len(), b", longer"));
    made.blob(contents[2]);
    made.delta(Ok(0), &appending(contents[0].len(), b" at the end"));
    let offsets = made.offsets.clone();
    let pack = made.finish();
    let ends = [&offsets[1..], &[pack.len() as u64 - 20]].concat();
    for len in 12..=pack.len() {
        let whole = ends.iter().filter(|end| **end <= len as u64).count();
        let (end, found) = salvaged(&pack, len).expect("a beginning");
        let mut expected: Vec<ObjectId> = contents[..whole].iter().map(|content| name(content)).collect();
        expected.sort();
        assert_eq!((end, found), (whole.checked_sub(1).map_or(12, |last| ends[last]), expected), "{len}");
    }
    assert!(salvaged(&pack, 11).is_err(), "no header");
    let mut damaged = pack.clone();
    damaged[ends[1] as usize + 4] ^= 0xff;
    assert_eq!(salvaged(&damaged, pack.len()).expect("a beginning").1.len(), 2);
}

#[test]
fn the_beginning_of_a_pack_has_no_delta_without_its_base() {
    let mut made = Made::new(5);
    made.blob(b"first");
    made.delta(Err(name(b"late")), &appending(4, b"r"));
    made.blob(b"second");
    made.blob(b"late");
    made.delta(Err(name(b"missing")), &appending(7, b"!"));
    let (offsets, pack) = (made.offsets.clone(), made.finish());
    let count = |len: u64| salvaged(&pack, len as usize).expect("a beginning").1.len();
    assert_eq!(count(offsets[3]), 1, "the base is cut off");
    assert_eq!(count(offsets[4]), 4, "the base is there");
    assert_eq!(count(pack.len() as u64), 4, "another base is nowhere");
}
