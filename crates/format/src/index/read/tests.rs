use super::*;
use crate::{
    Mode,
    index::{Edit, Flags, NewEntry, Stage, Stat, write},
};

fn large(version: Version) -> Index {
    let mut index = Index::empty(HashKind::Sha1);
    index.version = Some(version);
    for number in 0..2 * WORTH_A_THREAD as u32 {
        let raw = [1 + (number % 7) as u8; 20];
        let oid = ObjectId::from_bytes(HashKind::Sha1, &raw).expect("twenty bytes");
        let stat = Stat { ino: number, ..Stat::default() };
        let (mode, flags, stage) = (Mode::FILE, Flags::empty(), Stage::Normal);
        let path = format!("dir{:05}/file{number:05}", number / 10);
        index.push(path.as_str().into(), NewEntry { stat, oid, mode, flags, stage });
    }
    index
}

fn content(index: &Index) -> Vec<(BString, NewEntry)> {
    index.entries().iter().map(|entry| (index.path(entry).to_owned(), entry.content())).collect()
}

fn write(index: &Index) -> Vec<u8> {
    let options = write::Options { version: Version::V2, end_of_entries: true, blocks: 6 };
    write::to_vec(index, write::Part::Whole, &options).expect("no entry without an object")
}

#[test]
fn the_overview_agrees_with_the_entries() {
    let read = |index: &Index| {
        let options = Options::new(2, false);
        let mut index =
            decode(&write(index), HashKind::Sha1, options).and_then(Decoded::finish).expect("ours");
        index.timestamp = (100, 0);
        index
    };
    let mut index = large(Version::V2);
    assert!(!index.is_plain(), "it was not read");
    let last = index.entries().len() - 1;
    let plain = read(&index);
    assert!(plain.is_plain() && !plain.has_racy() && !plain.has_any(Flags::all()));
    index.entries_mut()[last].stat.mtime.0 = 100;
    assert!(read(&index).has_racy() && read(&index).is_plain());
    index.entries_mut()[last].flags = Flags::ASSUME_VALID;
    let marked = read(&index);
    assert!(
        marked.has_any(Flags::ASSUME_VALID) && !marked.has_any(Flags::SKIP_WORKTREE) && !marked.is_plain()
    );
    // A change invalidates the summary.
    let mut changed = read(&large(Version::V2));
    changed.entries_mut()[last].flags = Flags::SKIP_WORKTREE;
    assert!(changed.has_any(Flags::SKIP_WORKTREE) && !changed.is_plain());
    let mut changed = read(&large(Version::V2));
    let content = NewEntry { stage: Stage::Ours, ..changed.entries()[last].content() };
    changed.apply(vec![Edit { path: "a".into(), entries: vec![content] }]);
    assert!(!changed.is_plain());
}

#[test]
fn the_number_of_threads_does_not_change_the_result() {
    for version in [Version::V2, Version::V4] {
        let index = large(version);
        let file = write(&index);
        for threads in [1, 2] {
            let stored =
                decode_stored(Bytes::from(file.clone()), None, HashKind::Sha1, Options::new(threads, false));
            let stored = stored.and_then(Decoded::finish).expect("well formed");
            assert_eq!(matches!(stored.table, Table::Stored(_)), version == Version::V2);
            assert!(content(&stored) == content(&index));
        }
        for (threads, verify) in [(1, false), (1, true), (2, false), (2, true), (8, true)] {
            let read = decode(&file, HashKind::Sha1, Options::new(threads, verify));
            let read = read.and_then(Decoded::finish).expect("well formed");
            assert!(content(&read) == content(&index));
        }
    }
}

#[test]
fn two_scans_join_wherever_the_second_begins() {
    let index = large(Version::V2);
    let file = write(&index);
    let content = &file[..file.len() - 20];
    let codec = Codec { hash: HashKind::Sha1, compressed: false };
    let count = index.len();
    let scan_part = |from, to| Scan::of(codec, content, from..to, count, &|| ());
    let whole = scan_part(HEADER, content.len());
    for middle in (1_000..whole.end - 400).step_by(9_973) {
        let start = scan::guess_entry_start(codec, content, middle).expect("there are entries after it");
        assert!(start >= middle && start < middle + 100);
        let both = scan_part(HEADER, start).join(codec, content, scan_part(start, content.len()), count);
        let both = both.expect("it is where an entry is");
        assert_eq!((both.end, both.places.len()), (whole.end, count));
        // The first part does not end at the start of an entry.
        let wrong =
            scan_part(HEADER, start + 8).join(codec, content, scan_part(start + 8, content.len()), count);
        assert!(wrong.is_none());
    }
}

/// The second thread does not know if its first entry has a sibling before it.
#[test]
fn siblings_are_in_the_same_directory() {
    let mut index = Index::empty(HashKind::Sha1);
    let content = large(Version::V2).entries()[0].content();
    for number in 0..100 {
        index.push(format!("{number:02}/a").as_str().into(), content);
        index.push(format!("{number:02}b").as_str().into(), content);
    }
    let file = write(&index);
    let content = &file[..file.len() - 20];
    let codec = Codec { hash: HashKind::Sha1, compressed: false };
    for middle in (HEADER..HEADER + 100 * 72).step_by(72) {
        let scan_part = |from, to| Scan::of(codec, content, from..to, index.len(), &|| ());
        let both =
            scan_part(HEADER, middle).join(codec, content, scan_part(middle, content.len()), index.len());
        let places = both.map_or(Vec::new(), |both| both.places);
        assert!(middle == HEADER || places.len() == index.len());
        assert!(!places.iter().any(|place| place.follows_sibling()));
    }
}

/// The second thread does not know the number of its entries.
#[test]
fn an_extension_that_looks_like_an_entry_is_no_entry() {
    let mut index = large(Version::V2);
    let tree = ObjectId::from_bytes(HashKind::Sha1, &[1; 20]).expect("twenty bytes");
    index.cache_tree = Some(CacheTree::with("".into(), Some((tree, index.len() as u32))));
    let file = write(&index);
    let (content, trailer) = file.split_at(file.len() - 20);
    let codec = Codec { hash: HashKind::Sha1, compressed: false };
    let end = Scan::of(codec, content, HEADER..content.len(), index.len(), &|| ()).end;
    let (entries, extensions) = content.split_at(end);
    // The scan continues after it.
    let mut odd = [[0; 72], [0xff; 72]].concat();
    odd[..4].copy_from_slice(b"ZZZZ");
    odd[4..8].copy_from_slice(&136u32.to_be_bytes());
    odd[24..28].copy_from_slice(&Mode::FILE.bits().to_be_bytes());
    odd[60..64].copy_from_slice(b"\0\x02zz");
    let looks_like_one = Scan::of(codec, &odd, 0..odd.len(), 2, &|| ());
    assert_eq!(looks_like_one.end, 72);
    let file = [entries, &odd, extensions, trailer].concat();
    for threads in [1, 2] {
        let stored =
            decode_stored(Bytes::from(file.clone()), None, HashKind::Sha1, Options::new(threads, false));
        let stored = stored.and_then(Decoded::finish).expect("well formed");
        assert!(matches!(stored.table, Table::Stored(_)));
        assert_eq!((stored.len(), stored.unknown.len()), (index.len(), 1));
        assert_eq!(stored.cache_tree, index.cache_tree);
    }
}

#[test]
fn any_number_of_threads_reports_the_same_errors() {
    let options = |threads| Options::new(threads, true);
    let refused = |file: &[u8], threads| {
        let error =
            decode(file, HashKind::Sha1, options(threads)).and_then(Decoded::finish).expect_err("is refused");
        let unverified = |read: Result<Decoded, Error>| read.and_then(Decoded::finish).err();
        let options = Options::new(threads, false);
        assert_eq!(
            unverified(decode_stored(Bytes::copy_from_slice(file), None, HashKind::Sha1, options)),
            unverified(decode(file, HashKind::Sha1, options))
        );
        error
    };
    let mut index = large(Version::V4);
    let good = write(&index);
    let mut wrong = good.clone();
    *wrong.last_mut().expect("a trailer") ^= 1;
    index.entries_mut().swap(499, 500);
    let unordered = write(&index);
    // The pairs are at the end of the first part, at its beginning, in the second part, and at
    // the end.
    for at in [0, 5_000, 11_990, 12_000, 15_000, 19_998] {
        let mut index = large(Version::V2);
        index.entries_mut().swap(at, at + 1);
        assert_eq!(refused(&write(&index), 2), Error::Unordered);
    }
    for threads in [1, 2] {
        assert_eq!(refused(&wrong, threads), Error::Checksum);
        assert_eq!(refused(&unordered, threads), Error::Unordered);
        let cut = [&good[..good.len() / 2], &[0; 20]].concat();
        assert!(matches!(refused(&cut, threads), Error::Truncated { .. } | Error::Name { .. }));
    }
}
