//! Which entries of an index are to be looked at: all, mostly, which takes no list of them.

use std::ops::Range;

#[derive(Clone)]
pub(super) enum Asked {
    /// So many: all.
    All(usize),
    /// How many before each one are, and of all.
    Some(Vec<u32>),
}

impl Asked {
    pub(super) fn of(which: impl ExactSizeIterator<Item = bool>) -> Asked {
        let mut counts = Vec::with_capacity(which.len() + 1);
        let mut count = 0;
        counts.push(count);
        counts.extend(which.map(|is| {
            count += u32::from(is);
            count
        }));
        Asked::Some(counts)
    }

    /// How many before that one.
    #[inline]
    pub(super) fn before(&self, at: usize) -> usize {
        match self {
            Asked::All(_) => at,
            Asked::Some(before) => before[at] as usize,
        }
    }

    #[inline]
    pub(super) fn any(&self, range: &Range<usize>) -> bool {
        self.before(range.start) != self.before(range.end)
    }

    /// The entry before which `number` are, if there are more.
    pub(super) fn nth(&self, number: usize) -> usize {
        match self {
            Asked::All(all) => number.min(*all),
            Asked::Some(before) => {
                before.partition_point(|&count| count as usize <= number).saturating_sub(1)
            }
        }
    }

    /// The first of these, of which there is one at least; their end if none is.
    pub(super) fn next(&self, among: &Range<usize>) -> usize {
        match self {
            Asked::All(_) => among.start,
            Asked::Some(before) => {
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
    fn all_are_as_those_of_a_list_of_all() {
        let (all, listed) = (Asked::All(5), Asked::of([true; 5].into_iter()));
        for at in 0..=5 {
            assert_eq!((all.before(at), all.nth(at)), (listed.before(at), listed.nth(at)));
            for end in at + 1..=5 {
                assert_eq!((all.any(&(at..end)), all.next(&(at..end))), (true, at));
                assert_eq!((listed.any(&(at..end)), listed.next(&(at..end))), (true, at));
            }
        }
        let some = Asked::of([false, true, false, false, true].into_iter());
        assert_eq!((some.nth(0), some.nth(1), some.before(5)), (1, 4, 2));
        assert_eq!((some.next(&(2..4)), some.next(&(2..5)), some.any(&(2..4))), (4, 4, false));
    }
}
