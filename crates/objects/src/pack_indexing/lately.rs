//! A cache of recent objects, so that deltas against them can be applied in the first pass.
//!
//! Only observers need it. A delta that cannot be applied here is left to the second pass, which
//! reports errors. An applied delta is hashed like an object that is not a delta. The second pass
//! applies it again only if it has children.

use std::collections::{HashMap, VecDeque};

use format::{Kind, pack};

use super::worker::SHORTEST;

/// Limit for the bytes of the cached contents.
const KEPT: usize = 8 << 20;

/// Larger objects are left to the second pass.
const LARGEST: usize = 1 << 20;

/// The most recent contents, by entry number.
#[derive(Default)]
pub(super) struct Lately {
    is_on: bool,
    contents: HashMap<u32, (Kind, Vec<u8>)>,
    order: VecDeque<u32>,
    bytes: usize,
    result: Vec<u8>,
    spare: Vec<u8>,
}

impl Lately {
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Switches the cache on or off. Returns true if this call switches it off.
    pub(super) fn set(&mut self, is_on: bool) -> bool {
        std::mem::replace(&mut self.is_on, is_on) && !is_on
    }

    /// Drops all contents, and frees their memory.
    pub(super) fn clear(&mut self) {
        *self = Lately { is_on: self.is_on, ..Lately::default() };
    }

    /// Caches a copy of a tree or blob. The oldest contents are dropped to make room.
    pub(super) fn add(&mut self, index: u32, kind: Kind, content: &[u8]) {
        if content.len() > LARGEST || matches!(kind, Kind::Commit | Kind::Tag) {
            return;
        }
        let mut copy = std::mem::take(&mut self.spare);
        copy.clear();
        copy.extend_from_slice(content);
        self.bytes += copy.len();
        self.order.push_back(index);
        self.contents.insert(index, (kind, copy));
        while self.bytes > KEPT {
            let Some((_, old)) = self.order.pop_front().and_then(|index| self.contents.remove(&index)) else {
                break;
            };
            self.bytes -= old.len();
            self.spare = old;
        }
    }

    /// Applies a delta to the object of the entry `base`. Returns the type and size of the
    /// [`Lately::result`], or `None` if the base is not cached, the result is too large or the
    /// delta is bad.
    pub(super) fn apply(&mut self, base: u32, delta: &[u8]) -> Option<(Kind, usize)> {
        let (kind, base) = self.contents.get(&base)?;
        let header = pack::parse_delta_header(delta).ok()?;
        let size = usize::try_from(header.result_size).ok().filter(|size| *size <= LARGEST)?;
        if header.base_size != base.len() as u64 || delta.len() < SHORTEST {
            return None;
        }
        if self.result.len() < size {
            self.result.resize(size, 0);
        }
        pack::apply_delta(base, &delta[header.len..], &mut self.result[..size]).ok()?;
        Some((*kind, size))
    }

    /// Returns the result of the last [`Lately::apply`], of `size` bytes.
    pub(super) fn result(&self, size: usize) -> &[u8] {
        &self.result[..size]
    }

    /// Caches the result of the last [`Lately::apply`].
    pub(super) fn keep(&mut self, index: u32, kind: Kind, size: usize) {
        let result = std::mem::take(&mut self.result);
        self.add(index, kind, &result[..size]);
        self.result = result;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a delta that copies all of a base of `size` bytes and adds `more`.
    fn delta(size: u8, more: &[u8]) -> Vec<u8> {
        let mut delta = vec![size, size + more.len() as u8, 0x90, size, more.len() as u8];
        delta.extend_from_slice(more);
        delta
    }

    #[test]
    fn deltas_are_applied_to_what_came_lately() {
        let mut lately = Lately::default();
        assert!(!lately.set(true));
        lately.add(3, Kind::Tree, b"abc");
        assert_eq!(lately.apply(2, &delta(3, b"de")), None);
        assert_eq!(lately.apply(3, &delta(4, b"de")), None);
        assert_eq!(lately.apply(3, &delta(3, b"de")[..4]), None);
        assert_eq!(lately.apply(3, &delta(3, b"de")), Some((Kind::Tree, 5)));
        lately.keep(4, Kind::Tree, 5);
        assert_eq!(lately.apply(4, &delta(5, b"f")), Some((Kind::Tree, 6)));
        assert_eq!(lately.result(6), b"abcdef");
        assert!(lately.set(false));
        lately.clear();
        assert_eq!(lately.apply(3, &delta(3, b"de")), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut lately = Lately::default();
        let content = vec![0; LARGEST];
        (0..40).for_each(|index| lately.add(index, Kind::Blob, &content));
        lately.add(40, Kind::Blob, &vec![0; LARGEST + 1]);
        assert_eq!(lately.bytes, KEPT);
        assert_eq!(lately.contents.keys().min(), Some(&32));
        assert!(!lately.contents.contains_key(&40));
    }
}
