//! A selection of index entries. Usually all are selected, which needs no memory.

use std::ops::Range;

#[derive(Clone)]
pub(super) enum Selection {
    /// All entries; contains their number.
    All(usize),
    /// The number of selected entries before each entry. The last element is the total.
    Some(Vec<u32>),
}

impl Selection {
    pub(super) fn of(which: impl Iterator<Item = bool>) -> Selection {
        let mut counts = Vec::with_capacity(which.size_hint().0 + 1);
        let mut count = 0;
        counts.push(count);
        counts.extend(which.map(|is| {
            count += u32::from(is);
            count
        }));
        Selection::Some(counts)
    }

    /// Returns the number of selected entries before position `at`.
    #[inline]
    pub(super) fn before(&self, at: usize) -> usize {
        match self {
            Selection::All(_) => at,
            Selection::Some(before) => before[at] as usize,
        }
    }

    #[inline]
    pub(super) fn any(&self, range: &Range<usize>) -> bool {
        self.before(range.start) != self.before(range.end)
    }

    /// Returns the position of the selected entry that has `number` selected entries before it, or
    /// the number of all entries if there is none.
    pub(super) fn nth(&self, number: usize) -> usize {
        match self {
            Selection::All(all) => number.min(*all),
            Selection::Some(before) => {
                before.partition_point(|&count| count as usize <= number).saturating_sub(1)
            }
        }
    }

    /// Returns the position of the first selected entry in a non-empty range, or the range's end if
    /// none is selected.
    pub(super) fn next(&self, among: &Range<usize>) -> usize {
        match self {
            Selection::All(_) => among.start,
            Selection::Some(before) => {
                let none = before[among.start];
                among.start + before[among.start + 1..=among.end].partition_point(|&count| count == none)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_of_all_equals_a_list_of_all() {
        let (all, listed) = (Selection::All(5), Selection::of([true; 5].into_iter()));
        for at in 0..=5 {
            assert_eq!((all.before(at), all.nth(at)), (listed.before(at), listed.nth(at)));
            for end in at + 1..=5 {
                assert_eq!((all.any(&(at..end)), all.next(&(at..end))), (true, at));
                assert_eq!((listed.any(&(at..end)), listed.next(&(at..end))), (true, at));
            }
        }
        let some = Selection::of([false, true, false, false, true].into_iter());
        assert_eq!((some.nth(0), some.nth(1), some.before(5)), (1, 4, 2));
        assert_eq!((some.next(&(2..4)), some.next(&(2..5)), some.any(&(2..4))), (4, 4, false));
    }
}
