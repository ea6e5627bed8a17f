//! Every written index is read back unchanged; every other input is an error, never a panic.

use ::bytes::Bytes;
use bstr::{BString, ByteSlice};
use proptest::{prelude::*, sample::select};

use super::{
    read::{self, Decoded, decode, decode_stored},
    split::Delta,
    write::{self, Part, to_vec},
    *,
};
use crate::hash::Hasher;

const READ: read::Options = read::Options::new(1, true);
pub(super) const WRITE: write::Options =
    write::Options { version: Version::V2, end_of_entries: false, blocks: 0 };

pub(super) fn name() -> impl Strategy<Value = BString> {
    prop_oneof![
        12 => prop::collection::vec(prop_oneof![4 => b'a'..=b'c', 1 => Just(b'/'), 1 => 1u8..=255], 1..30),
        // Lengths around the limit of the length field in the flags.
        1 => (4090usize..4100, b'a'..=b'c').prop_map(|(length, byte)| vec![byte; length]),
    ]
    .prop_map(BString::from)
}

fn oid(hash: HashKind) -> impl Strategy<Value = ObjectId> {
    any::<[u8; 32]>().prop_map(move |mut raw| {
        raw[0] |= 1;
        ObjectId::from_bytes(hash, &raw[..hash.len()]).expect("of that length")
    })
}

fn new_entry(hash: HashKind, stage: Stage) -> impl Strategy<Value = NewEntry> {
    let mode = prop_oneof![
        select(vec![Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK, Mode::GITLINK]),
        any::<u32>().prop_map(Mode::from_raw),
    ];
    (any::<[u32; 9]>(), oid(hash), mode, 0u16..8).prop_map(move |(fields, oid, mode, flags)| {
        let [a, b, c, d, dev, ino, uid, gid, size] = fields;
        let stat = Stat { ctime: (a, b), mtime: (c, d), dev, ino, uid, gid, size };
        NewEntry { stat, oid, mode, flags: Flags::from_bits_truncate(flags), stage }
    })
}

pub(super) fn stages(hash: HashKind) -> impl Strategy<Value = Vec<NewEntry>> {
    prop_oneof![
        4 => new_entry(hash, Stage::Normal).prop_map(|entry| vec![entry]),
        1 => (new_entry(hash, Stage::Base), new_entry(hash, Stage::Theirs)).prop_map(|(one, two)| vec![one, two]),
    ]
}

pub(super) fn index_of(hash: HashKind) -> impl Strategy<Value = Index> {
    let paths = prop::collection::btree_map(name(), stages(hash), 0..25);
    let version = select(vec![None, Some(Version::V2), Some(Version::V3), Some(Version::V4)]);
    (paths, version, any::<bool>(), prop::option::of(prop::collection::vec(any::<u8>(), 0..9))).prop_map(
        move |(paths, version, monitored, unknown)| {
            let mut index = Index::empty(hash);
            index.version = version;
            for (path, entries) in &paths {
                entries.iter().for_each(|entry| index.push(path.as_bstr(), *entry));
            }
            if monitored {
                index.fsmonitor =
                    Some(Fsmonitor { token: "a token".into(), answer: MonitorAnswer::NotAsked });
                for (position, entry) in index.entries_mut().iter_mut().enumerate() {
                    entry.flags.set(Flags::FSMONITOR_VALID, position % 3 == 1 && !entry.mode.is_gitlink());
                }
            }
            index.unknown.extend(unknown.map(|data| RawExtension { signature: *b"ZZZZ", data }));
            index
        },
    )
}

fn index() -> impl Strategy<Value = Index> {
    prop_oneof![3 => index_of(HashKind::Sha1), 1 => index_of(HashKind::Sha256)]
}

pub(super) fn content(index: &Index) -> Vec<(BString, NewEntry)> {
    // An entry does not expose which part of a split index it came from.
    let whole = |entry: &Entry| NewEntry { flags: entry.flags - Flags::UNSHARED, ..entry.content() };
    index.entries().iter().map(|entry| (index.path(entry).to_owned(), whole(entry))).collect()
}

/// The properties that must survive a round trip, in a form that shows differences.
fn visible(index: &Index) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        content(index),
        index.hash,
        index.cache_tree.clone(),
        index.resolve_undo.clone(),
        index.untracked.clone(),
        index.fsmonitor.clone(),
        index.sparse,
        index.unknown.clone(),
    )
}

/// Checks that both indices return the same result for every query.
pub(super) fn assert_same_answers(stored: &Index, read: &Index) {
    for at in 0..read.len() {
        let path = read.path_at(at);
        assert_eq!(stored.path_at(at), path);
        assert_eq!(stored.entry(at).content(), read.entry(at).content());
        assert_eq!(stored.path(&stored.entry(at)), path);
        assert_eq!((stored.stage_at(at), stored.mode_at(at)), (read.stage_at(at), read.mode_at(at)));
        assert_eq!(stored.position(path, read.stage_at(at)), Ok(at));
        assert_eq!(stored.range_of(path), read.range_of(path));
        assert_eq!(stored.directory_at(at), read.directory_at(at));
        let (directory, name) = path.split_at(read.directory_at(at));
        assert!(directory.is_empty() || directory.ends_with(b"/"));
        assert!(!name.contains(&b'/'));
        if let Some(found) = stored.c_path_at(at, directory.len()) {
            assert_eq!(found.to_bytes(), name);
        }
        let is_asked = |&length: &usize| length < 3 || path[length - 1] == b'/';
        for length in (0..=path.len()).filter(is_asked) {
            let is_below = |&other: &usize| read.path_at(other).starts_with(&path[..length]);
            let end = at + (at..read.len()).take_while(is_below).count();
            assert_eq!([stored, read].map(|index| index.end_of_prefix(at, length, read.len())), [end; 2]);
        }
        let (entry, flags) = (read.entry(at), Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD);
        let is_usual = entry.stage == Stage::Normal && !entry.flags.intersects(flags);
        let has_mode_and_stat =
            |mode, stat| [stored, read].map(|index| index.has_mode_and_stat(at, mode, &stat));
        assert_eq!(has_mode_and_stat(entry.mode, entry.stat), [is_usual; 2]);
        assert_eq!(has_mode_and_stat(entry.mode, Stat { dev: !entry.stat.dev, ..entry.stat }), [is_usual; 2]);
        assert_eq!(has_mode_and_stat(Mode::from_raw(!entry.mode.bits()), entry.stat), [false; 2]);
        for number in 0..8 {
            assert_eq!(has_mode_and_stat(entry.mode, altered(entry.stat, number)), [false; 2]);
        }
    }
    let flags = [Flags::ASSUME_VALID, Flags::SKIP_WORKTREE, Flags::INTENT_TO_ADD];
    assert_eq!(flags.map(|flag| stored.has_any(flag)), flags.map(|flag| read.has_any(flag)));
    assert!(stored.gitlinks().eq(read.gitlinks()));
    for at in 0..read.len().min(3) {
        let path = read.path_at(at);
        let name = &path[path.rfind_byte(b'/').map_or(0, |slash| slash + 1)..];
        let named = (0..read.len()).filter(|&at| read.path_at(at).rsplit_str("/").next() == Some(name));
        assert!(stored.files_named(name).eq(named.clone()) && read.files_named(name).eq(named));
    }
    assert_eq!((stored.is_unmerged(), stored.is_plain()), (read.is_unmerged(), read.is_plain()));
}

/// Changes one stat field other than the device.
fn altered(mut stat: Stat, number: usize) -> Stat {
    let Stat { ctime, mtime, dev: _, ino, uid, gid, size } = &mut stat;
    let fields = [&mut ctime.0, &mut ctime.1, &mut mtime.0, &mut mtime.1, ino, uid, gid, size];
    *fields[number] ^= 1 << number;
    stat
}

pub(super) fn read_back(file: &[u8], hash: HashKind) -> Decoded {
    decode(file, hash, READ).expect("just written")
}

proptest! {
    #[test]
    fn the_summary_agrees_with_reading(index in index(), sparse: bool, blocks in 0usize..5) {
        let index = Index { sparse, ..index };
        let options = write::Options { blocks, ..WRITE };
        let file = to_vec(&index, Part::Whole, &options).expect("no entry without an object");
        let read = read_back(&file, index.hash).finish().expect("in order");
        let expected = IndexSummary {
            entries: read.entries().len(),
            gitlinks: read.entries().iter().any(|entry| entry.mode.is_gitlink()),
            sparse: read.sparse,
            shared: None,
        };
        prop_assert_eq!(summarize(&file, index.hash), Some(expected));
        let dirs = read.entries().iter().filter_map(|entry| Some(read.path(entry).rsplit_once_str("/")?.0.to_vec()));
        for dir in dirs.collect::<Vec<_>>() {
            prop_assert_ne!(has_entry_below(&file, index.hash, dir.as_bstr()), Some(false));
        }
        let v4 = file[7] == 4;
        prop_assert_eq!(has_entry_below(&file, index.hash, "no such directory".into()), (!v4).then_some(false));
    }

    #[test]
    fn summarizing_garbage_does_not_panic(
        version in 0u32..6,
        count in 0u32..4,
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let header = [&b"DIRC"[..], &version.to_be_bytes(), &count.to_be_bytes()].concat();
        let file = [header, rest].concat();
        summarize(&file, HashKind::Sha1);
        has_entry_below(&file, HashKind::Sha1, "a".into());
    }

    #[test]
    fn a_written_index_is_read_back(index in index(), blocks in 0usize..5, end_of_entries: bool) {
        let options = write::Options { blocks, end_of_entries, ..WRITE };
        let file = to_vec(&index, Part::Whole, &options).expect("no entry without an object");
        let back = read_back(&file, index.hash).finish().expect("in order");
        prop_assert_eq!(visible(&back), visible(&index));
        // The writer chooses between versions 2 and 3 only by need.
        let extended = index.entries().iter().any(|entry| {
            entry.flags.intersects(Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE)
        });
        let expected = match (index.version, extended) {
            (Some(Version::V4), _) => Version::V4,
            (_, true) => Version::V3,
            (_, false) => Version::V2,
        };
        prop_assert_eq!(back.version, Some(expected));
        prop_assert_eq!(to_vec(&back, Part::Whole, &options).expect("as before"), file);
    }

    #[test]
    fn a_stored_table_gives_the_same_answers(
        index in index(),
        marks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..5),
        edits in prop::collection::btree_map(name(), prop_oneof![Just(vec![]), stages(HashKind::Sha1)], 0..5),
    ) {
        let file = to_vec(&index, Part::Whole, &WRITE).expect("no entry without an object");
        let mut read = read_back(&file, index.hash).finish().expect("in order");
        let stored = decode_stored(Bytes::from(file), None, index.hash, read::Options::new(1, false));
        let mut stored = stored.and_then(Decoded::finish).expect("in order");
        prop_assert_eq!(stored.len(), read.len());
        assert_same_answers(&stored, &read);
        for (at, is_marked) in marks {
            for index in [&mut stored, &mut read] {
                if let Some(monitor) = &mut index.fsmonitor {
                    monitor.answer = MonitorAnswer::Changes;
                }
            }
            if !read.is_empty() {
                let at = at.index(read.len());
                let change = |index: &mut Index| if is_marked { index.set_fsmonitor_valid(at) } else { index.clear_fsmonitor_valid(at) };
                prop_assert_eq!(change(&mut stored), change(&mut read));
            }
        }
        assert_same_answers(&stored, &read);
        prop_assert_eq!(visible(&stored), visible(&read));
        for entry in stored.entries_mut().iter_mut().chain(read.entries_mut()) {
            entry.stat.size ^= 1;
        }
        prop_assert_eq!(visible(&stored), visible(&read));
        assert_same_answers(&stored, &read);
        // Changes in place keep the number of entries.
        let others = |index: &Index| {
            let other = |at| {
                let entry = index.entry(at);
                let entries = vec![NewEntry { mode: Mode::SYMLINK, ..entry.content() }];
                Edit { path: index.path(&entry).to_owned(), entries }
            };
            (0..index.len()).filter(|&at| index.stage_at(at) == Stage::Normal).map(other).collect()
        };
        let (one, two): (Vec<Edit>, Vec<Edit>) = (others(&stored), others(&read));
        stored.apply(one);
        read.apply(two);
        assert_same_answers(&stored, &read);
        if index.hash == HashKind::Sha1 {
            let edits: Vec<Edit> = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
            stored.apply(edits.clone());
            read.apply(edits);
            prop_assert_eq!(visible(&stored), visible(&read));
            assert_same_answers(&stored, &read);
        }
    }

    #[test]
    fn a_trailer_of_zeros_is_valid(index in index()) {
        let mut file = to_vec(&index, Part::Whole, &WRITE).expect("no entry without an object");
        let trailer = file.len() - index.hash.len();
        file[trailer..].fill(0);
        prop_assert_eq!(visible(&read_back(&file, index.hash).finish().expect("in order")), visible(&index));
    }

    #[test]
    fn merging_a_split_index_restores_it(
        base in index_of(HashKind::Sha1),
        edits in prop::collection::btree_map(
            name(), prop_oneof![Just(vec![]), stages(HashKind::Sha1)], 0..10),
        touched in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let shared_file = to_vec(&base, Part::Shared, &WRITE).expect("no entry without an object");
        let shared = || read_back(&shared_file, HashKind::Sha1);
        let oid = shared().checksum();
        let mut changed = base.clone();
        for at in touched {
            if !changed.is_empty() {
                let position = at.index(changed.len());
                changed.entries_mut()[position].stat.size ^= 1;
            }
        }
        let edits: Vec<Edit> = edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect();
        changed.apply(edits.clone());
        changed.resolve_undo = None;
        let delta = Delta::between(&shared_file, &changed).expect("just written");
        let file = to_vec(&changed, Part::Split { base: oid, delta: &delta }, &WRITE).expect("as before");
        let half = read_back(&file, HashKind::Sha1);
        prop_assert_eq!(half.base(), Some(oid));
        let whole = half.merge(shared()).expect("made for each other");
        prop_assert_eq!(visible(&whole), visible(&changed));
        prop_assert_eq!(whole.base, Some(oid));
        prop_assert_eq!(Delta::between(&shared_file, &whole), Ok(delta.clone()));

        // Merging gives the same result if the shared index is kept as stored.
        let stored = |half: Decoded| {
            let options = read::Options::new(1, false);
            half.merge(decode_stored(Bytes::from(shared_file.clone()), None, HashKind::Sha1, options)?)
        };
        let (mut kept, mut whole) = (stored(read_back(&file, HashKind::Sha1)).expect("as before"), whole);
        assert_same_answers(&kept, &whole);
        prop_assert_eq!(visible(&kept), visible(&whole));
        prop_assert_eq!(Delta::between(&shared_file, &kept), Ok(delta));
        kept.apply(edits.clone());
        whole.apply(edits);
        assert_same_answers(&kept, &whole);
        prop_assert_eq!(visible(&kept), visible(&whole));

        // Both refuse a shared index that belongs to another file.
        let mut file = file;
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let half = || decode(&file, HashKind::Sha1, read::Options::new(1, false));
        if half().is_ok() {
            let (kept, whole) = (half().and_then(stored), half().and_then(|half| half.merge(shared())));
            prop_assert_eq!(kept.as_ref().err(), whole.as_ref().err());
            prop_assert_eq!(kept.as_ref().ok().map(visible), whole.as_ref().ok().map(visible));
        }
    }

    #[test]
    fn refuses_a_truncated_file(index in index(), end_of_entries: bool) {
        let options = write::Options { end_of_entries, blocks: 2, ..WRITE };
        let file = to_vec(&index, Part::Whole, &options).expect("no entry without an object");
        // Checking every length would take too long for the longest file.
        let step = 1 + file.len() / 2000;
        for cut in (0..file.len()).rev().step_by(step) {
            prop_assert!(decode(&file[..cut], index.hash, READ).is_err(), "cut to {} of {}", cut, file.len());
        }
    }

    #[test]
    fn damage_never_panics(
        index in index_of(HashKind::Sha1),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let options = write::Options { end_of_entries: true, blocks: 3, ..WRITE };
        let mut file = to_vec(&index, Part::Whole, &options).expect("no entry without an object");
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let unverified = read::Options::new(1, false);
        let read = decode(&file, HashKind::Sha1, unverified).and_then(Decoded::finish);
        let stored = decode_stored(Bytes::from(file), None, HashKind::Sha1, unverified).and_then(Decoded::finish);
        prop_assert_eq!(stored.as_ref().err(), read.as_ref().err());
        prop_assert_eq!(stored.as_ref().ok().map(visible), read.as_ref().ok().map(visible));
    }
}

/// Returns a file of these bytes with a valid trailer.
fn with_trailer(mut content: Vec<u8>) -> Vec<u8> {
    let mut hasher = Hasher::checksum(HashKind::Sha1);
    hasher.update(&content);
    content.extend_from_slice(hasher.finish().expect("no object").as_bytes());
    content
}

fn header(version: u32, entries: u32) -> Vec<u8> {
    [b"DIRC", &version.to_be_bytes()[..], &entries.to_be_bytes()[..]].concat()
}

/// A version-2 entry of zeros apart from its flags and its path.
fn plain(flags: u16, path: &str) -> Vec<u8> {
    let mut entry = vec![0; 60];
    entry.extend_from_slice(&(flags | path.len() as u16).to_be_bytes());
    entry.extend_from_slice(path.as_bytes());
    entry.resize((entry.len() + 8) & !7, 0);
    entry
}

/// A version-3 entry for `a` with these extended flags.
fn extended(flags: u16) -> Vec<u8> {
    let mut entry = vec![0; 72];
    entry[40] = 1;
    entry[60..62].copy_from_slice(&(0x4000u16 | 1).to_be_bytes());
    entry[62..64].copy_from_slice(&flags.to_be_bytes());
    entry[64] = b'a';
    entry
}

fn refusal(content: Vec<u8>) -> String {
    let result = decode(&with_trailer(content), HashKind::Sha1, READ).and_then(Decoded::finish);
    result.map(|index| index.len()).expect_err("is refused").to_string()
}

#[test]
fn errors_have_gits_messages() {
    let short = decode(b"DIRC", HashKind::Sha1, READ).expect_err("is refused");
    assert_eq!(short.to_string(), "index file smaller than expected");
    assert_eq!(refusal([b"CRID", &[0; 8][..]].concat()), "bad signature 0x43524944");
    assert_eq!(refusal(header(5, 0)), "bad index version 5");
    assert_eq!(refusal(header(2, 4_000_000_000)), "index file corrupt");
    assert_eq!(refusal([header(2, 0), b"TREE\0\0\0\x09".to_vec()].concat()), "index file corrupt");
    assert_eq!(
        refusal([header(2, 0), b"zzzz\0\0\0\0".to_vec()].concat()),
        "index uses zzzz extension, which we do not understand"
    );
    assert_eq!(
        refusal([header(2, 2), plain(0, "b"), plain(0, "a")].concat()),
        "unordered stage entries in index"
    );
    assert_eq!(
        refusal([header(2, 2), plain(0, "a"), plain(0x2000, "a")].concat()),
        "multiple stage entries for merged file 'a'"
    );
    assert_eq!(
        refusal([header(2, 2), plain(0x2000, "a"), plain(0x1000, "a")].concat()),
        "unordered stage entries for 'a'"
    );
    assert_eq!(refusal([header(3, 1), extended(0x8001)].concat()), "unknown index entry format 0x80010000");
    let mut wrong = with_trailer(header(2, 0));
    *wrong.last_mut().expect("a trailer") ^= 1;
    let wrong = decode(&wrong, HashKind::Sha1, READ).expect_err("is refused");
    assert_eq!(wrong.to_string(), "bad index file sha1 signature");
}

#[test]
fn version_3_may_have_empty_extended_flags() {
    let file = with_trailer([header(3, 1), extended(0)].concat());
    let index = decode(&file, HashKind::Sha1, READ).and_then(Decoded::finish).expect("odd but legal");
    assert_eq!(index.path_at(0), "a");
    let back = to_vec(&index, Part::Whole, &WRITE).expect("it has an object");
    assert_eq!(back[7], 2, "which version 2 says as well");
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    // Version 4: one long path, then entries that each repeat all of it and add one byte.
    let mut content = header(4, 2000);
    let entry = |content: &mut Vec<u8>, rest: &[u8]| {
        content.extend_from_slice(&[0; 60]);
        content.extend_from_slice(&[0x0f, 0xff, 0]);
        content.extend_from_slice(rest);
        content.push(0);
    };
    entry(&mut content, &[b'a'; 100_000]);
    (1..2000).for_each(|_| entry(&mut content, b"a"));
    assert_eq!(refusal(content), "index file corrupt");
}

#[test]
fn refuses_to_write_a_null_object() {
    let mut index = Index::empty(HashKind::Sha1);
    let oid = ObjectId::null(HashKind::Sha1);
    let (stat, flags) = (Stat::default(), Flags::empty());
    index.push("dir/file".into(), NewEntry { stat, oid, mode: Mode::FILE, flags, stage: Stage::Normal });
    let error = to_vec(&index, Part::Whole, &WRITE).expect_err("is refused");
    assert_eq!(error.to_string(), "cache entry has null sha1: dir/file");
}

/// In a split index that is kept as stored, an entry may follow another one than in the shared
/// index.
#[test]
fn siblings_are_updated_when_a_split_index_is_merged() {
    let stat = Stat::default();
    let oid = ObjectId::from_bytes(HashKind::Sha1, &[1; 20]).expect("twenty bytes");
    let content = NewEntry { stat, oid, mode: Mode::FILE, flags: Flags::empty(), stage: Stage::Normal };
    let index = |paths: &[&str]| {
        let mut index = Index::empty(HashKind::Sha1);
        paths.iter().for_each(|&path| index.push(path.into(), content));
        index
    };
    for (base, changed) in
        [(&["a/x", "b/x", "b/y"][..], &["a/x", "b/y"][..]), (&["a/a", "a/c"], &["a/a", "a/b/x", "a/c"])]
    {
        let shared = to_vec(&index(base), Part::Shared, &WRITE).expect("no entry without an object");
        let changed = index(changed);
        let delta = Delta::between(&shared, &changed).expect("just written");
        let base = read_back(&shared, HashKind::Sha1).checksum();
        let file = to_vec(&changed, Part::Split { base, delta: &delta }, &WRITE).expect("as before");
        let whole = read_back(&file, HashKind::Sha1).merge(read_back(&shared, HashKind::Sha1));
        let stored = decode_stored(Bytes::from(shared), None, HashKind::Sha1, read::Options::new(1, false));
        let kept = read_back(&file, HashKind::Sha1).merge(stored.expect("as before"));
        assert_same_answers(&kept.expect("made for each other"), &whole.expect("made for each other"));
    }
}

#[test]
fn refuses_a_split_index_that_does_not_match_its_base() {
    let mut base = Index::empty(HashKind::Sha1);
    let oid = ObjectId::empty_blob(HashKind::Sha1);
    let entry = NewEntry {
        stat: Stat::default(),
        oid,
        mode: Mode::FILE,
        flags: Flags::empty(),
        stage: Stage::Normal,
    };
    base.push("a".into(), entry);
    let shared = to_vec(&base, Part::Shared, &WRITE).expect("no entry without an object");
    let merge = |delta: Delta| {
        let mut changed = base.clone();
        changed.base = Some(oid);
        let part = Part::Split { base: oid, delta: &delta };
        let file = to_vec(&changed, part, &WRITE).expect("no entry without an object");
        let result = read_back(&file, HashKind::Sha1).merge(read_back(&shared, HashKind::Sha1));
        result.map(|index| index.len()).expect_err("is refused").to_string()
    };
    let nothing = Delta::default();
    assert_eq!(
        merge(Delta { deleted: vec![1], ..nothing.clone() }),
        "position for delete 1 exceeds base index size 1"
    );
    assert_eq!(
        merge(Delta { replaced: vec![(7, 0)], ..nothing.clone() }),
        "position for replacement 7 exceeds base index size 1"
    );
    assert_eq!(
        merge(Delta { deleted: vec![0], replaced: vec![(0, 0)], ..nothing }),
        "entry 0 is marked as both replaced and deleted"
    );
}
