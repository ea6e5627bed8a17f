//! One bit for each entry of an index: flags that are not stored with the entries.

use std::ops::Range;

const BITS: usize = u64::BITS as usize;

/// A set of positions. It takes no memory until the first one is marked.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<u64>);

impl Marks {
    /// Returns the set of all positions below `len`.
    pub(super) fn all(len: usize) -> Marks {
        Marks(vec![u64::MAX; len.div_ceil(BITS)])
    }

    #[inline]
    pub(super) fn contains(&self, at: usize) -> bool {
        self.0.get(at / BITS).is_some_and(|word| word >> (at % BITS) & 1 == 1)
    }

    /// Adds or removes the position `at` of an index with `len` entries.
    pub(super) fn set(&mut self, at: usize, is_marked: bool, len: usize) {
        if self.0.is_empty() && is_marked {
            self.0 = vec![0; len.div_ceil(BITS)];
        }
        if let Some(word) = self.0.get_mut(at / BITS) {
            let bit = 1 << (at % BITS);
            *word = if is_marked { *word | bit } else { *word & !bit };
        }
    }

    /// Moves the marks of entries that are kept to their new positions. `kept` has the old range of
    /// each run of them, and its new start, in ascending order. There are `len` entries then; the
    /// others have no mark.
    pub(super) fn moved(&self, kept: &[(Range<usize>, usize)], len: usize) -> Marks {
        if self.0.is_empty() {
            return Marks::default();
        }
        let mut new = vec![0; len.div_ceil(BITS)];
        for (old, start) in kept {
            for from in old.clone().step_by(BITS) {
                let width = BITS.min(old.end - from);
                let word = self.word(from) & (u64::MAX >> (BITS - width));
                let (to, shift) = ((start + from - old.start) / BITS, (start + from - old.start) % BITS);
                new[to] |= word << shift;
                if shift + width > BITS {
                    new[to + 1] |= word >> (BITS - shift);
                }
            }
        }
        Marks(new)
    }

    /// Returns the marks of the 64 positions from `at` on.
    fn word(&self, at: usize) -> u64 {
        let word = |at: usize| self.0.get(at).copied().unwrap_or_default();
        match (at / BITS, at % BITS) {
            (from, 0) => word(from),
            (from, shift) => word(from) >> shift | word(from + 1) << (BITS - shift),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_move_with_their_entries(
            marked in prop::collection::vec(any::<bool>(), 1..300),
            cuts in prop::collection::vec((0usize..40, 0usize..20, 0usize..70), 0..8),
        ) {
            let mut marks = Marks::default();
            for (at, &is_marked) in marked.iter().enumerate() {
                marks.set(at, is_marked, marked.len());
            }
            // Each cut keeps some entries, drops some, and adds some.
            let (mut expected, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
            for (keep, drop, add) in cuts {
                let end = (at + keep).min(marked.len());
                kept.push((at..end, expected.len()));
                expected.extend_from_slice(&marked[at..end]);
                expected.extend(std::iter::repeat_n(false, add));
                at = (end + drop).min(marked.len());
            }
            kept.push((at..marked.len(), expected.len()));
            expected.extend_from_slice(&marked[at..]);
            let moved = marks.moved(&kept, expected.len());
            let found: Vec<bool> = (0..expected.len()).map(|at| moved.contains(at)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn all_positions_are_marked() {
        let mut marks = Marks::all(70);
        assert!((0..70).all(|at| marks.contains(at)) && !Marks::default().contains(0));
        marks.set(69, false, 70);
        assert!(!marks.contains(69) && marks.contains(68));
    }
}
