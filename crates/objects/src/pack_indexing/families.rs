//! The deltas of each base object. An object and all deltas that directly or indirectly use it as
//! base are a family.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use format::ObjectId;

use super::table::{NONE, NamedBase, Table};

/// The children of all entries: the deltas that use an entry as base. All threads share it.
pub(super) struct Families {
    /// The children of the entry `i`, by offset, are `children[first[i]..first[i + 1]]`. Empty if
    /// no entry has children.
    first: Vec<u32>,
    children: Vec<u32>,
    /// Deltas that name their base by object name (`REF_DELTA`), sorted by base and position.
    by_name: Vec<NamedBase>,
    /// Set when a thread has taken the delta with the same position in `by_name`: several entries
    /// may be the object of that name.
    taken: Vec<AtomicBool>,
    /// The base of each entry; [`NONE`] if it is not known.
    bases: Vec<AtomicU32>,
}

/// The unresolved children of one entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    /// Their range in `by_name`.
    by_name: Range<u32>,
    /// Their range in `children`.
    by_offset: Range<u32>,
}

impl Families {
    /// Moves the deltas of `table` here.
    pub(super) fn of(table: &mut Table) -> Families {
        let bases = std::mem::take(&mut table.bases);
        let mut first = Vec::new();
        let mut children = Vec::new();
        if bases.iter().any(|&base| base != NONE) {
            first = vec![0u32; bases.len() + 1];
            for &base in bases.iter().filter(|&&base| base != NONE) {
                first[base as usize + 1] += 1;
            }
            for index in 1..first.len() {
                first[index] += first[index - 1];
            }
            children = vec![0; *first.last().expect("one more than entries") as usize];
            let mut next = first.clone();
            for (child, &base) in bases.iter().enumerate().filter(|(_, base)| **base != NONE) {
                children[next[base as usize] as usize] = child as u32;
                next[base as usize] += 1;
            }
        }
        let mut by_name = std::mem::take(&mut table.by_name);
        by_name.sort_unstable_by_key(|delta| (delta.base, delta.child));
        let taken = by_name.iter().map(|_| AtomicBool::new(false)).collect();
        let bases = bases.into_iter().map(AtomicU32::new).collect();
        Families { first, children, by_name, taken, bases }
    }

    /// Appends an entry that is not a delta.
    pub(super) fn push(&mut self) {
        self.bases.push(AtomicU32::new(NONE));
    }

    /// Returns the number of deltas whose base is given by name or is an entry of the pack.
    pub(super) fn deltas(&self) -> usize {
        self.by_name.len() + self.children.len()
    }

    /// Returns the children of the entry `index`. `name` returns the name of its object.
    pub(super) fn children(&self, index: u32, name: impl FnOnce() -> ObjectId) -> Children {
        let index = index as usize;
        let by_offset = match (self.first.get(index), self.first.get(index + 1)) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        };
        if self.by_name.is_empty() {
            return Children { by_name: 0..0, by_offset };
        }
        let name = name();
        let start = self.by_name.partition_point(|delta| delta.base < name);
        let len = self.by_name[start..].partition_point(|delta| delta.base == name);
        Children { by_name: start as u32..(start + len) as u32, by_offset }
    }

    /// Takes the next child of the entry `base`, and records its base.
    pub(super) fn take(&self, children: &mut Children, base: u32) -> Option<u32> {
        let named = children.by_name.by_ref().find(|&number| self.claim(number));
        let child = match named {
            Some(number) => Some(self.by_name[number as usize].child),
            None => children.by_offset.next().map(|number| self.children[number as usize]),
        }?;
        self.bases[child as usize].store(base, Ordering::Relaxed);
        Some(child)
    }

    fn claim(&self, number: u32) -> bool {
        !self.taken[number as usize].swap(true, Ordering::Relaxed)
    }

    /// Returns the base of the entry `index`, which was taken; otherwise [`NONE`].
    pub(super) fn base(&self, index: u32) -> u32 {
        self.bases[index as usize].load(Ordering::Relaxed)
    }

    /// Returns the deltas against a name that no thread took, in the order of the pack.
    pub(super) fn left(&self) -> Vec<NamedBase> {
        let is_left = |(number, _): &(usize, &NamedBase)| !self.taken[*number].load(Ordering::Relaxed);
        let mut left: Vec<NamedBase> =
            self.by_name.iter().enumerate().filter(is_left).map(|(_, delta)| *delta).collect();
        left.sort_unstable_by_key(|delta| delta.child);
        left
    }

    /// Returns true if a thread has taken this delta against a name.
    pub(super) fn is_taken(&self, delta: &NamedBase) -> bool {
        let number =
            self.by_name.partition_point(|other| (other.base, other.child) < (delta.base, delta.child));
        self.taken[number].load(Ordering::Relaxed)
    }
}

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.by_offset.is_empty()
    }

    /// Splits off about half of the children. With `keep`, the last child stays.
    pub(super) fn split(&mut self, keep: bool) -> Option<Children> {
        let halve = |range: &mut Range<u32>, keep: bool| {
            let len = range.end - range.start;
            let given = if keep { len / 2 } else { len.div_ceil(2) };
            range.end -= given;
            range.end..range.end + given
        };
        let given = if self.by_offset.is_empty() {
            Children { by_name: halve(&mut self.by_name, keep), by_offset: 0..0 }
        } else {
            let keep = keep && self.by_name.is_empty();
            Children { by_name: 0..0, by_offset: halve(&mut self.by_offset, keep) }
        };
        (!given.is_empty()).then_some(given)
    }
}
