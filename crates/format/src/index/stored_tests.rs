//! Changes of an index whose entries stay in the file give the same index as changes in memory.

use ::bytes::Bytes;
use proptest::prelude::*;

use super::{
    read::{self, Decoded, decode_stored},
    split::Delta,
    table::Table,
    tests::{WRITE, assert_same_answers, content, index_of, name, read_back, stages},
    write::{Part, to_vec},
    *,
};

/// One change.
#[derive(Clone, Debug)]
enum Step {
    Edits(Vec<Edit>),
    /// Another size, or the same one.
    Touch(prop::sample::Index, bool),
    UpToDate(prop::sample::Index),
    Unshared(prop::sample::Index),
    Monitor(prop::sample::Index, bool),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edits = prop::collection::btree_map(name(), prop_oneof![Just(vec![]), stages(HashKind::Sha1)], 0..6);
    edits.prop_map(|edits| edits.into_iter().map(|(path, entries)| Edit { path, entries }).collect())
}

/// Returns an index that can stay in its file: of version 2 or 3, without unusual modes and long
/// paths.
fn usual() -> impl Strategy<Value = Index> {
    index_of(HashKind::Sha1).prop_map(|index| {
        let mut usual = Index { fsmonitor: index.fsmonitor.clone(), ..Index::empty(HashKind::Sha1) };
        for entry in index.iter().filter(|entry| index.path(entry).len() < 4095) {
            let modes = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK, Mode::GITLINK];
            let mode = if modes.contains(&entry.mode) { entry.mode } else { Mode::FILE };
            usual.push(index.path(&entry), NewEntry { mode, ..entry.content() });
        }
        usual
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        3 => edits().prop_map(Step::Edits),
        2 => (at(), any::<bool>()).prop_map(|(at, is_other)| Step::Touch(at, is_other)),
        1 => at().prop_map(Step::UpToDate),
        1 => at().prop_map(Step::Unshared),
        1 => (at(), any::<bool>()).prop_map(|(at, is_marked)| Step::Monitor(at, is_marked)),
    ]
}

fn take(step: &Step, index: &mut Index) {
    let len = index.len();
    match step {
        Step::Edits(edits) => index.apply(edits.clone()),
        _ if len == 0 => {}
        Step::Touch(at, is_other) => {
            index.update(at.index(len), |entry| entry.stat.size ^= u32::from(*is_other));
        }
        Step::UpToDate(at) => index.set_uptodate(at.index(len)),
        Step::Unshared(at) => index.update(at.index(len), |entry| entry.flags.insert(Flags::UNSHARED)),
        Step::Monitor(at, true) => drop(index.set_fsmonitor_valid(at.index(len))),
        Step::Monitor(at, false) => drop(index.clear_fsmonitor_valid(at.index(len))),
    }
}

fn is_decoded(index: &Index) -> bool {
    match &index.table {
        Table::Owned { .. } => true,
        Table::Stored(table) => table.is_decoded(),
    }
}

fn bytes(index: &Index, part: Part<'_>) -> Vec<u8> {
    to_vec(index, part, &WRITE).expect("no entry without an object")
}

fn stored(file: &[u8]) -> Decoded {
    decode_stored(Bytes::from(file.to_vec()), None, HashKind::Sha1, read::Options::new(1, false))
        .expect("well-formed")
}

/// Compares every answer of both, without decoding `kept`.
fn assert_equal(kept: &Index, owned: &Index) {
    assert_eq!(kept.len(), owned.len());
    assert_same_answers(kept, owned);
    for at in 0..owned.len() {
        assert_eq!(kept.is_uptodate_at(at), owned.is_uptodate_at(at));
    }
    for flags in [Flags::ASSUME_VALID, Flags::INTENT_TO_ADD, Flags::SKIP_WORKTREE] {
        assert_eq!(kept.has_any(flags), owned.has_any(flags));
    }
    assert_eq!(
        (kept.is_unmerged(), kept.has_racy(), kept.gitlinks().collect::<Vec<_>>()),
        (owned.is_unmerged(), owned.has_racy(), owned.gitlinks().collect::<Vec<_>>())
    );
    assert!(owned.is_plain() || !kept.is_plain());
    assert_eq!(content(&kept.clone()), content(owned));
    assert_eq!(bytes(kept, Part::Whole), bytes(owned, Part::Whole));
}

/// Returns the index in `shared`, read with this file of places.
fn with_places(shared: &[u8], places: &[u8]) -> Index {
    let (shared, places) = (Bytes::copy_from_slice(shared), Bytes::copy_from_slice(places));
    let read = decode_stored(shared, Some(&places), HashKind::Sha1, read::Options::new(1, false));
    read.and_then(Decoded::finish).expect("well-formed")
}

proptest! {
    #[test]
    fn a_file_of_places_replaces_the_scan(
        base in usual(),
        other in usual(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let shared = bytes(&base, Part::Shared);
        let codec = entry::Codec { hash: HashKind::Sha1, compressed: false };
        let found = |places: &[u8], shared: &[u8]| {
            let header = read::Header::read(shared, HashKind::Sha1).expect("well-formed");
            places::read(places, shared, &header, codec, |_| ())
        };
        let mut places = places::list(&shared, HashKind::Sha1).expect("a usual index");
        prop_assert_eq!(found(&places, &shared).map(|scan| scan.places.len()), Some(base.len()));
        let scanned = |shared: &[u8]| stored(shared).finish().expect("not split");
        assert_equal(&with_places(&shared, &places), &scanned(&shared));

        // A list that belongs to another index is not used.
        let changed = bytes(&other, Part::Shared);
        prop_assert_eq!(found(&places, &changed).is_some(), changed == shared);
        assert_equal(&with_places(&changed, &places), &scanned(&changed));

        // With a damaged list entries may be arbitrary, but are within the file.
        for (at, byte) in damage {
            let at = at.index(places.len());
            places[at] = byte;
        }
        let index = with_places(&shared, &places);
        for at in 0..index.len() {
            let entry = index.entry(at);
            prop_assert_eq!(index.path(&entry), index.path_at(at));
        }
        prop_assert!(found(&places[..places.len() - 1], &shared).is_none());
    }

    #[test]
    fn a_whole_index_that_stays_in_its_file(
        base in usual(),
        steps in prop::collection::vec(step(), 1..6),
    ) {
        let file = bytes(&base, Part::Whole);
        let mut owned = read_back(&file, HashKind::Sha1).finish().expect("in order");
        let mut kept = stored(&file).finish().expect("in order");
        prop_assert!(!is_decoded(&kept));
        for index in [&mut kept, &mut owned] {
            index.fsmonitor.iter_mut().for_each(|monitor| monitor.answer = MonitorAnswer::Changes);
        }
        for step in &steps {
            take(step, &mut kept);
            take(step, &mut owned);
            assert_equal(&kept, &owned);
        }
        let has_long_path = (0..owned.len()).any(|at| owned.path_at(at).len() >= 4095);
        prop_assert!(has_long_path || !is_decoded(&kept));
        prop_assert_eq!(Delta::known(&kept), None);
    }

    #[test]
    fn a_split_index_that_stays_in_its_files(
        base in usual(),
        first in edits(),
        steps in prop::collection::vec(step(), 1..6),
    ) {
        let shared = bytes(&base, Part::Shared);
        let mut changed = base.clone();
        changed.apply(first);
        changed.resolve_undo = None;
        let delta = Delta::between(&shared, &changed).expect("just written");
        let oid = read_back(&shared, HashKind::Sha1).checksum();
        let file = bytes(&changed, Part::Split { base: oid, delta: &delta });
        let half = || read_back(&file, HashKind::Sha1);
        let mut owned = half().merge(read_back(&shared, HashKind::Sha1)).expect("made for each other");
        let mut kept = half().merge(stored(&shared)).expect("made for each other");
        let has_long_path = |index: &Index| (0..index.len()).any(|at| index.path_at(at).len() >= 4095);
        prop_assert!(has_long_path(&owned) || !is_decoded(&kept));
        for index in [&mut kept, &mut owned] {
            index.fsmonitor.iter_mut().for_each(|monitor| monitor.answer = MonitorAnswer::Changes);
        }
        for step in &steps {
            take(step, &mut kept);
            take(step, &mut owned);
            assert_equal(&kept, &owned);
            if !is_decoded(&kept) {
                let known = Delta::known(&kept).expect("it is split");
                prop_assert_eq!(&known, &Delta::between(&shared, &owned).expect("well-formed"));
                let part = Part::Split { base: oid, delta: &known };
                prop_assert_eq!(bytes(&kept, part), bytes(&owned, part));
            }
        }
    }
}
