//! The links between the objects of a pack, collected while the objects are indexed.
//!
//! Promise: [`Links::are_complete`] returns true only if every object to which the tips and the
//! pack's objects refer is in the pack and has the expected kind. If it returns false, the result
//! is unknown, and the caller has to walk the history.
//!
//! A walk would read each tree again. Here each tree is already in memory, and one table contains
//! every object name.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bstr::ByteSlice as _;
use format::{Kind, ObjectId};
use repo::pack_indexing::{Large, Meter, Observer, Wanted};

/// The number of shards of the table, chosen so that threads rarely wait for each other.
const SHARDS: usize = 64;

/// The number of names that the table may contain before any object has arrived. Each arrived
/// object raises the limit by eight. The limit protects memory: the pack's header can announce any
/// number of objects.
const AHEAD: u64 = 1 << 20;

/// The number of recent names that a thread caches. A tree mostly refers to the same objects as the
/// tree before it.
const RECENT: usize = 4096;

/// Collects links.
pub(crate) struct Links<'a> {
    seeds: Seeds,
    /// For each name, a bit set: the kinds that links expect, and the kind that arrived.
    shards: Vec<Mutex<HashMap<ObjectId, u8, Seeds>>>,
    len: AtomicU64,
    /// Provides the number of objects in the pack, which limits the table. A larger table would
    /// contain a name without an object.
    meter: &'a Meter,
    has_failed: AtomicBool,
    recent: Mutex<Vec<Vec<Recent>>>,
}

/// A name with a mark that the table already contains.
#[derive(Clone, Copy, Default)]
struct Recent {
    raw: [u8; 32],
    mark: u8,
}

/// The mark for a link that expects this kind.
fn named(kind: Kind) -> u8 {
    match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 4,
        Kind::Tag => 8,
    }
}

/// The mark for an object of this kind that arrived.
fn received(kind: Kind) -> u8 {
    named(kind) << 4
}

impl<'a> Links<'a> {
    /// Creates an empty table. `meter` counts the objects of the pack.
    pub(crate) fn new(meter: &'a Meter) -> Links<'a> {
        let seed = || RandomState::new().hash_one(0);
        let seeds = Seeds(seed(), seed());
        Links {
            seeds,
            shards: (0..SHARDS).map(|_| Mutex::new(HashMap::with_hasher(seeds))).collect(),
            len: AtomicU64::new(0),
            meter,
            has_failed: AtomicBool::new(false),
            recent: Mutex::default(),
        }
    }

    /// Returns true if a pack that was received and indexed lacks no object.
    pub(crate) fn are_complete(&self, tips: &[ObjectId]) -> bool {
        let is_here = |tip: &ObjectId| {
            let shard = locked(&self.shards[self.shard(self.seeds.hash_one(tip))]);
            shard.get(tip).is_some_and(|marks| marks >> 4 != 0)
        };
        let is_whole = |shard: &Mutex<HashMap<_, u8, _>>| {
            locked(shard).values().all(|marks| marks & 0xf & !(marks >> 4) == 0)
        };
        !self.has_failed.load(Ordering::Relaxed)
            && tips.iter().all(is_here)
            && self.shards.iter().all(is_whole)
    }

    fn shard(&self, hash: u64) -> usize {
        // The hash tables use the lowest and the highest bits of the hash.
        (hash >> 24) as usize % SHARDS
    }

    fn mark(&self, oid: &ObjectId, mark: u8) {
        let mut shard = locked(&self.shards[self.shard(self.seeds.hash_one(oid))]);
        let before = shard.len();
        *shard.entry(*oid).or_default() |= mark;
        let is_new = shard.len() > before;
        drop(shard);
        if is_new {
            let received = self.meter.received.load(Ordering::Relaxed);
            let limit = self.meter.total.load(Ordering::Relaxed).min(AHEAD + 8 * received);
            if self.len.fetch_add(1, Ordering::Relaxed) >= limit {
                self.fail();
            }
        }
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| *locked(shard) = HashMap::with_hasher(self.seeds));
    }

    /// Records an object and its links. Returns `None` for a malformed object.
    fn take(&self, kind: Kind, oid: &ObjectId, content: &[u8]) -> Option<()> {
        let hex = |line: &[u8], key: &[u8]| ObjectId::from_hex(oid.kind(), line.strip_prefix(key)?);
        match kind {
            Kind::Blob => {}
            Kind::Commit => {
                let mut lines = content.lines();
                self.mark(&hex(lines.next()?, b"tree ")?, named(Kind::Tree));
                for parent in lines.take_while(|line| line.starts_with(b"parent ")) {
                    self.mark(&hex(parent, b"parent ")?, named(Kind::Commit));
                }
            }
            Kind::Tag => {
                let mut lines = content.lines();
                let target = hex(lines.next()?, b"object ")?;
                let kinds = [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag];
                let kind = lines.next()?.strip_prefix(b"type ")?;
                let kind = kinds.into_iter().find(|of| of.name().as_bytes() == kind)?;
                self.mark(&target, named(kind));
            }
            Kind::Tree => {
                let spare = locked(&self.recent).pop();
                let mut recent = spare.unwrap_or_else(|| vec![Recent::default(); RECENT]);
                let taken = self.take_tree(oid, content, &mut recent);
                locked(&self.recent).push(recent);
                taken?;
            }
        }
        self.mark(oid, received(kind));
        Some(())
    }

    /// Records the links of a tree. This is the hot path, so it creates no [`ObjectId`] for names
    /// in the thread's cache.
    fn take_tree(&self, oid: &ObjectId, content: &[u8], recent: &mut [Recent]) -> Option<()> {
        let mut rest = content;
        while !rest.is_empty() {
            let end = rest.find_byte(0)?;
            let (head, after) = (&rest[..end], &rest[end + 1..]);
            let (raw, next) = after.split_at_checked(oid.kind().len())?;
            rest = next;
            let mark = match &head[..head.find_byte(b' ')?] {
                b"40000" => named(Kind::Tree),
                b"160000" => continue,
                [b'1', b'0' | b'2', ..] => named(Kind::Blob),
                // An invalid mode: leave the decision to the walk.
                _ => return None,
            };
            let start = u64::from_le_bytes(raw[..8].try_into().expect("a name has more bytes"));
            let hash = (start ^ self.seeds.0).wrapping_mul(self.seeds.1 | 1);
            let place = &mut recent[(hash >> 32) as usize % RECENT];
            if place.mark != mark || place.raw[..raw.len()] != *raw {
                place.mark = mark;
                place.raw[..raw.len()].copy_from_slice(raw);
                self.mark(&ObjectId::from_bytes(oid.kind(), raw)?, mark);
            }
        }
        Some(())
    }
}

impl Observer for Links<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], _: u64) {
        if !self.has_failed.load(Ordering::Relaxed) && self.take(kind, oid, content).is_none() {
            self.fail();
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        match object.kind {
            Kind::Blob => self.mark(&object.oid, received(object.kind)),
            // The object is not in memory, so its links are unknown.
            Kind::Commit | Kind::Tree | Kind::Tag => self.fail(),
        }
        Wanted::Name
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the command, so a partial update does not matter.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hashes object names with a secret seed, because the author of a pack can choose the names in its
/// trees.
#[derive(Clone, Copy)]
struct Seeds(u64, u64);

struct SeededHasher {
    seed: u64,
    state: u64,
}

impl BuildHasher for Seeds {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { seed: self.1 | 1, state: self.0 }
    }
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in chunks.by_ref() {
            self.write_u64(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        for byte in chunks.remainder() {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.seed);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, _: usize) {
        // The length prefix is the same for all names.
    }

    fn write_isize(&mut self, _: isize) {
        // The discriminant is the same for all names.
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use format::HashKind;

    use super::*;

    fn oid(number: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes")
    }

    fn tree(entries: &[(&str, u8)]) -> Vec<u8> {
        let entry = |(name, number): &(&str, u8)| [name.as_bytes(), b"\0", oid(*number).as_bytes()].concat();
        entries.iter().flat_map(entry).collect()
    }

    /// Returns the objects of a small history: a tag of a commit with a parent, and their trees. No
    /// other objects are referred to.
    fn history() -> Vec<(u8, Kind, Vec<u8>)> {
        let commit = |tree: u8, parent: &str| format!("tree {}\n{parent}author x\n\nx\n", oid(tree)).into();
        vec![
            (1, Kind::Tag, format!("object {}\ntype commit\ntag x\n", oid(2)).into()),
            (2, Kind::Commit, commit(4, &format!("parent {}\n", oid(3)))),
            (3, Kind::Commit, commit(5, "")),
            (4, Kind::Tree, tree(&[("100644 a", 6), ("40000 b", 5), ("160000 c", 9)])),
            (5, Kind::Tree, tree(&[("100755 a", 7), ("120000 l", 6)])),
            (6, Kind::Blob, b"six".to_vec()),
            (7, Kind::Blob, b"seven".to_vec()),
        ]
    }

    fn is_complete(objects: &[(u8, Kind, Vec<u8>)], total: u64, large: Option<Kind>) -> bool {
        let meter = Meter::default();
        meter.total.store(total, Ordering::Relaxed);
        let links = Links::new(&meter);
        for (number, kind, content) in objects {
            links.object(&oid(*number), *kind, content, 0);
        }
        if let Some(kind) = large {
            links.large(&Large { oid: oid(7), kind, size: 1 << 30, offset: 0 });
        }
        links.are_complete(&[oid(1)])
    }

    #[test]
    fn nothing_may_be_missing() {
        let all = history();
        assert!(is_complete(&all, 7, None));
        for at in 0..all.len() {
            let mut some = all.clone();
            some.remove(at);
            assert!(!is_complete(&some, 7, None), "{at}");
        }
        assert!(is_complete(&all[..6], 7, Some(Kind::Blob)));
        assert!(!is_complete(&all, 7, Some(Kind::Tree)));
        // A pack with fewer objects than referred names is incomplete.
        assert!(!is_complete(&all, 6, None));
    }

    #[test]
    fn objects_are_of_the_kind_that_is_named() {
        for (at, kind) in [(2, Kind::Tag), (4, Kind::Blob), (6, Kind::Tree)] {
            let mut objects = history();
            objects[at].1 = kind;
            objects[at].2 = if kind == Kind::Tag { objects[0].2.clone() } else { Vec::new() };
            assert!(!is_complete(&objects, 7, None), "{at}");
        }
        let mut malformed = history();
        malformed[3].2.pop();
        assert!(!is_complete(&malformed, 7, None));
    }
}
