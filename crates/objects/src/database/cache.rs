//! The delta base cache of one thread, limited in bytes. It evicts the least recently used entry.
//! One entry that is larger than the limit may stay alone.
//!
//! Buffers of evicted entries are reused, so a run over many objects soon needs no further
//! allocation.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use format::Kind;

use super::buffer::Buffer;

/// The number of a pack and an offset in it.
pub(super) type Key = (u32, u64);

/// A doubly linked list of entries in order of use. `slots[0]` is its head: `next` is the newest
/// entry and `prev` the oldest.
#[derive(Debug)]
pub(super) struct Cache {
    map: HashMap<Key, usize, BuildHasherDefault<KeyHasher>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    spare: Vec<Buffer>,
    spare_bytes: usize,
    bytes: usize,
    limit: usize,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    kind: Kind,
    data: Buffer,
    prev: usize,
    next: usize,
}

/// The maximum number of buffers kept for reuse. Together they hold at most as many bytes as the
/// cache.
const SPARE: usize = 16;

impl Cache {
    pub(super) fn new(limit: usize) -> Cache {
        let head = Slot { key: (0, 0), kind: Kind::Blob, data: Buffer::default(), prev: 0, next: 0 };
        Cache {
            map: HashMap::default(),
            slots: vec![head],
            free: Vec::new(),
            spare: Vec::new(),
            spare_bytes: 0,
            bytes: 0,
            limit,
        }
    }

    /// Returns the slot of an entry and makes it the newest.
    pub(super) fn find(&mut self, key: Key) -> Option<usize> {
        let slot = *self.map.get(&key)?;
        self.unlink(slot);
        self.link_newest(slot);
        Some(slot)
    }

    /// Returns type and bytes of a slot from [`Cache::find`], which is valid until the next
    /// insertion.
    pub(super) fn get(&self, slot: usize) -> (Kind, &[u8]) {
        (self.slots[slot].kind, self.slots[slot].data.bytes())
    }

    /// Inserts an entry as the newest and evicts the oldest entries to make room. An entry larger
    /// than the cache stays until the next insertion, because its deltas tend to come next. An
    /// entry of more than twice the limit is not kept.
    pub(super) fn insert(&mut self, key: Key, kind: Kind, data: Buffer) {
        if data.capacity() / 2 > self.limit || self.map.contains_key(&key) {
            return self.recycle(data);
        }
        self.bytes += data.capacity();
        while self.bytes > self.limit && !self.map.is_empty() {
            self.drop_oldest();
        }
        let entry = Slot { key, kind, data, prev: 0, next: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() - 1
            }
        };
        self.map.insert(key, slot);
        self.link_newest(slot);
    }

    /// Evicts the oldest entries until `len` more bytes fit. The newest entry stays: it may be in
    /// use.
    pub(super) fn make_room(&mut self, len: usize) {
        while self.bytes + len > self.limit && self.slots[0].prev != self.slots[0].next {
            self.drop_oldest();
        }
    }

    /// Returns a buffer for `len` bytes, preferably one with a capacity that is not much larger.
    pub(super) fn buffer(&mut self, len: usize) -> Buffer {
        let fits = |buffer: &Buffer| buffer.capacity() >= len && buffer.capacity() / 4 <= len.max(1024);
        let Some(at) = self.spare.iter().rposition(fits) else { return Buffer::default() };
        let buffer = self.spare.remove(at);
        self.spare_bytes -= buffer.capacity();
        buffer
    }

    /// Takes back a buffer.
    pub(super) fn recycle(&mut self, data: Buffer) {
        if data.capacity() == 0 || data.capacity() > self.limit || data.is_pooled() {
            return;
        }
        self.spare_bytes += data.capacity();
        self.spare.push(data);
        while self.spare.len() > SPARE || self.spare_bytes > self.limit {
            self.spare_bytes -= self.spare.remove(0).capacity();
        }
    }

    fn drop_oldest(&mut self) {
        let slot = self.slots[0].prev;
        self.unlink(slot);
        self.map.remove(&self.slots[slot].key);
        let data = std::mem::take(&mut self.slots[slot].data);
        self.bytes -= data.capacity();
        self.free.push(slot);
        self.recycle(data);
    }

    fn unlink(&mut self, slot: usize) {
        let (prev, next) = (self.slots[slot].prev, self.slots[slot].next);
        self.slots[prev].next = next;
        self.slots[next].prev = prev;
    }

    fn link_newest(&mut self, slot: usize) {
        let next = std::mem::replace(&mut self.slots[0].next, slot);
        self.slots[next].prev = slot;
        self.slots[slot].prev = 0;
        self.slots[slot].next = next;
    }
}

/// Mixes the few bits in which offsets differ. Only an attacker who wrote the pack could choose
/// offsets that collide.
#[derive(Debug, Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;

    fn filled(len: usize, byte: u8) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.resize(len, &Arc::default()).expect("a small buffer").fill(byte);
        buffer
    }

    proptest! {
        // The model is a list in order of use.
        #[test]
        fn evicts_the_least_recently_used_entry_first(
            steps in prop::collection::vec((0u64..20, 0usize..3000, any::<bool>()), 0..300)
        ) {
            let limit = 8192;
            let mut cache = Cache::new(limit);
            let mut model: Vec<(u64, usize, u8)> = Vec::new();
            for (step, (offset, len, insert)) in steps.into_iter().enumerate() {
                let key = (3, offset);
                let byte = step as u8;
                let known = model.iter().position(|entry| entry.0 == offset);
                if insert {
                    let data = filled(len, byte);
                    let capacity = data.capacity();
                    cache.insert(key, Kind::Tree, data);
                    if known.is_none() {
                        model.push((offset, capacity, byte));
                        while model.iter().map(|entry| entry.1).sum::<usize>() > limit {
                            model.remove(0);
                        }
                    }
                } else {
                    let slot = cache.find(key);
                    prop_assert_eq!(slot.is_some(), known.is_some());
                    if let (Some(slot), Some(known)) = (slot, known) {
                        let entry = model.remove(known);
                        prop_assert!(cache.get(slot).1.iter().all(|&byte| byte == entry.2));
                        model.push(entry);
                    }
                }
                prop_assert!(cache.bytes <= limit);
                prop_assert_eq!(cache.map.len(), model.len());
            }
        }
    }

    #[test]
    fn keeps_an_oversized_entry_alone_or_not_at_all() {
        let mut cache = Cache::new(4096);
        cache.insert((0, 1), Kind::Blob, filled(1000, 1));
        cache.insert((0, 2), Kind::Blob, filled(9000, 2));
        assert!(cache.find((0, 1)).is_some(), "nothing is dropped for what is not kept");
        assert!(cache.find((0, 2)).is_none());
        cache.insert((0, 3), Kind::Blob, filled(8000, 3));
        assert!(cache.find((0, 1)).is_none());
        assert!(cache.find((0, 3)).is_some());
        cache.insert((0, 4), Kind::Blob, filled(1000, 4));
        assert!(cache.find((0, 3)).is_none());
        assert!(cache.find((0, 4)).is_some());
    }
}
