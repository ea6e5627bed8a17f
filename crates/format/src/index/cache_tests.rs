//! Caches whose data stay as bytes of the file answer and change like those in memory.

use ::bytes::Bytes;
use bstr::{BStr, BString, ByteSlice as _};
use proptest::prelude::*;

use super::{CacheTree, Stat, UntrackedCache, untracked::Listed};
use crate::{HashKind, ObjectId};

const HASH: HashKind = HashKind::Sha1;

fn oid(byte: u8) -> ObjectId {
    ObjectId::from_bytes(HASH, &[byte; 20]).expect("twenty bytes")
}

/// A path of one to four components out of few names.
fn path() -> impl Strategy<Value = BString> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "bb", "c-d", "a.a"]), 1..5)
        .prop_map(|names| names.join("/").into())
}

/// A change of a cache-tree.
#[derive(Clone, Debug)]
enum Step {
    Invalidate(BString),
    Set(BString, u8),
    Make(BString),
    Take(BString),
    Drop(BString),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        path().prop_map(Step::Invalidate),
        (path(), any::<u8>()).prop_map(|(path, byte)| Step::Set(path, byte)),
        path().prop_map(Step::Make),
        path().prop_map(Step::Take),
        path().prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..6)
}

fn take(step: &Step, tree: &mut CacheTree) -> Option<CacheTree> {
    match step {
        Step::Invalidate(path) => drop(tree.invalidate(path.as_bstr())),
        Step::Set(path, byte) => tree.set_valid(path.as_bstr(), oid(*byte), u32::from(*byte)),
        Step::Make(path) => drop(tree.make(path.as_bstr()).name.clone()),
        Step::Take(path) => return tree.take_child(path.split_str("/").next().unwrap_or_default().into()),
        Step::Drop(path) => tree.retain(|name| !path.starts_with(name)),
    }
    None
}

fn written(tree: &CacheTree) -> Vec<u8> {
    let mut out = Vec::new();
    tree.write(&mut out);
    out
}

fn read(payload: &[u8]) -> Option<CacheTree> {
    CacheTree::read(&Bytes::copy_from_slice(payload), HASH)
}

fn bytes_of(cache: &UntrackedCache) -> Vec<u8> {
    let mut out = Vec::new();
    cache.write(&mut out);
    out
}

fn listed() -> impl Strategy<Value = Listed> {
    let names = || prop::collection::btree_set("[a-c]{1,2}/?", 0..3);
    (names(), prop::collection::btree_set("[a-c]", 0..3), any::<[u8; 3]>(), any::<bool>()).prop_map(
        |(untracked, directories, [size, exclude, check], rules_changed)| Listed {
            stat: Stat { size: size.into(), ..Stat::default() },
            untracked: untracked.into_iter().map(BString::from).collect(),
            check_only: check > 200,
            exclude: (exclude > 128).then(|| oid(exclude)),
            directories: directories.into_iter().map(BString::from).collect(),
            rules_changed: rules_changed && check < 50,
        },
    )
}

/// The results of a walk. The root is always among them.
fn walk() -> impl Strategy<Value = Vec<(BString, Listed)>> {
    let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..3)
        .prop_map(|names| BString::from(names.join("/")));
    (listed(), prop::collection::vec((path, listed()), 0..5)).prop_map(|(root, mut others)| {
        others.push((BString::default(), root));
        others
    })
}

proptest! {
    #[test]
    fn cache_trees(first in steps(), second in steps(), third in steps()) {
        let mut known = CacheTree::new();
        first.iter().for_each(|step| drop(take(step, &mut known)));
        let payload = written(&known);
        let mut stored = read(&payload).expect("just written");
        prop_assert_eq!(written(&stored), payload);
        for step in second.iter().chain(&third) {
            prop_assert_eq!(take(step, &mut stored), take(step, &mut known));
            prop_assert_eq!(written(&stored), written(&known));
            let again = read(&written(&stored));
            prop_assert_eq!(again.as_ref(), Some(&known));
        }
        prop_assert_eq!(stored, known);
    }

    /// Every byte may be damaged. A tree that was read can be changed, written and read again.
    #[test]
    fn damaged_cache_trees(
        steps in steps(),
        more in steps(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut tree = CacheTree::new();
        steps.iter().for_each(|step| drop(take(step, &mut tree)));
        let mut payload = written(&tree);
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if let Some(mut tree) = read(&payload) {
            more.iter().for_each(|step| drop(take(step, &mut tree)));
            prop_assert_eq!(read(&written(&tree)), Some(tree));
        }
    }

    #[test]
    fn untracked_caches(
        walks in prop::collection::vec(walk(), 1..4),
        invalid in prop::collection::vec((path(), any::<bool>()), 0..4),
    ) {
        let mut known = UntrackedCache::new("somewhere".into(), UntrackedCache::NORMAL, HASH);
        for walk in walks {
            let mut stored = UntrackedCache::read(bytes_of(&known), HASH).expect("just written");
            prop_assert_eq!(&stored, &known);
            let walk = || walk.iter().cloned().collect();
            known.record([oid(1), oid(2)], walk());
            stored.record([oid(1), oid(2)], walk());
            for (path, is_on_disk) in &invalid {
                for cache in [&mut known, &mut stored] {
                    if *is_on_disk {
                        cache.invalidate_on_disk(path.as_bstr());
                    } else {
                        cache.invalidate(path.as_bstr());
                    }
                }
            }
            prop_assert_eq!(bytes_of(&stored), bytes_of(&known));
            prop_assert_eq!(answers(&stored), answers(&known));
        }
    }
}

/// Returns everything that a walk can ask.
fn answers(cache: &UntrackedCache) -> Vec<String> {
    let dirs = cache.directories();
    let count = dirs.root().map_or(0, |root| dirs.after(root));
    let below = |at| dirs.below(at).collect::<Vec<_>>();
    let recorded = |at| {
        dirs.recorded(at).map(|of| (of.stat, of.untracked.collect::<Vec<&BStr>>(), of.check_only, of.exclude))
    };
    (0..count).map(|at| format!("{:?}", (dirs.name(at), below(at), dirs.exclude(at), recorded(at)))).collect()
}

/// JGit sorts the nodes by name alone.
#[test]
fn nodes_in_another_order_are_found() {
    let node = |name: &str, below: &str| format!("{name}\0-1 {below}\n");
    let payload =
        [node("", "3"), node("aa", "0"), node("b", "2"), node("xx", "0"), node("c", "0"), node("a", "0")];
    let tree = read(payload.concat().as_bytes()).expect("well-formed");
    for dir in ["aa", "b", "b/xx", "b/c", "a"] {
        assert!(tree.find(dir.into()).is_some(), "{dir}");
    }
    let names: Vec<_> = tree.children().iter().map(|child| child.name.clone()).collect();
    assert_eq!(names, ["a", "b", "aa"]);
    // A name twice is malformed, wherever it comes.
    let twice = [node("", "3"), node("b", "0"), node("a", "0"), node("b", "0")];
    assert_eq!(read(twice.concat().as_bytes()), None);
}
