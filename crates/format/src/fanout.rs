//! Sorted tables of object names behind a 256-entry fan-out. Pack indices and multi-pack-indices
//! share this structure.

use std::ops::Range;

use crate::ObjectId;

/// The length of a fan-out table in bytes.
pub(crate) const FANOUT_LEN: usize = 256 * 4;

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the number of names. Returns `None` if the table decreases anywhere.
pub(crate) fn count(fanout: &[u8]) -> Option<u32> {
    fanout[..FANOUT_LEN].chunks_exact(4).try_fold(0, |before, entry| {
        let now = be32(entry, 0);
        (now >= before).then_some(now)
    })
}

/// Returns the first number of the table that is larger than the next one, with its position.
pub(crate) fn first_decrease(fanout: &[u8]) -> Option<(usize, u32, u32)> {
    let number = |at: usize| be32(fanout, at * 4);
    (0..255).map(|at| (at, number(at), number(at + 1))).find(|(_, one, two)| one > two)
}

/// Returns the positions of the names that begin with `byte`.
pub(crate) fn bucket(fanout: &[u8], byte: u8) -> Range<u32> {
    let at = usize::from(byte) * 4;
    let start = if byte == 0 { 0 } else { be32(fanout, at - 4) };
    start..be32(fanout, at)
}

/// Counts sorted names by their first bytes: the content of a fan-out table.
pub fn of_sorted<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut counts = [0_u32; 256];
    names.for_each(|name| counts[usize::from(name[0])] += 1);
    let mut sum = 0;
    let upto = |count: u32| {
        sum += count;
        sum.to_be_bytes()
    };
    counts.into_iter().flat_map(upto).collect()
}

/// Returns the position of `oid` in a table of names that are `stride` bytes apart, the first at
/// `names[0]`.
///
/// The caller has checked `fanout` with [`count`], and `names` has that many entries. In a damaged
/// table that is out of order, names may not be found; there is no other harm.
pub(crate) fn find(fanout: &[u8], names: &[u8], stride: usize, oid: &ObjectId) -> Option<u32> {
    let key = oid.as_bytes();
    let at = first_from(fanout, names, stride, oid);
    let is_there =
        at < be32(fanout, usize::from(key[0]) * 4) && names[at as usize * stride..].starts_with(key);
    is_there.then_some(at)
}

/// Returns the position of the first name that is not before `oid`, under the conditions of
/// [`find`].
pub(crate) fn first_from(fanout: &[u8], names: &[u8], stride: usize, oid: &ObjectId) -> u32 {
    let key = oid.as_bytes();
    let first = usize::from(key[0]);
    let start = if first == 0 { 0 } else { be32(fanout, (first - 1) * 4) as usize };
    let end = be32(fanout, first * 4) as usize;
    let is_before = |n: usize| &names[n * stride..n * stride + key.len()] < key;

    // Names are hashes and so evenly distributed. The search starts at the position that a
    // perfectly even distribution would give, and widens until it contains the name. It touches a
    // page or two, where a binary search touches many.
    let share = u64::from(u32::from_be_bytes(key[1..5].try_into().expect("names are longer")));
    let guess = start + (((end - start) as u64 * share) >> 32) as usize;
    let (mut low, mut high, mut step) = (guess, guess, 8);
    while low > start && !is_before(low) {
        high = low;
        low = low.saturating_sub(step).max(start);
        step *= 2;
    }
    while high < end && is_before(high) {
        low = high;
        high = (high + step).min(end);
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashKind;
    use proptest::prelude::*;

    fn table(mut names: Vec<[u8; 20]>) -> (Vec<u8>, Vec<[u8; 20]>) {
        names.sort_unstable();
        names.dedup();
        let fanout = (0..=255u8)
            .flat_map(|byte| (names.iter().filter(|name| name[0] <= byte).count() as u32).to_be_bytes())
            .collect();
        (fanout, names)
    }

    proptest! {
        // Names of few distinct bytes cluster, so the guess is far off.
        #[test]
        fn finds_present_names_only(
            names in prop::collection::vec(
                prop_oneof![any::<[u8; 20]>(), prop::array::uniform20(prop_oneof![Just(0u8), Just(1), Just(255)])],
                0..200),
            other in any::<[u8; 20]>(),
        ) {
            let (fanout, names) = table(names);
            prop_assert_eq!(count(&fanout), Some(names.len() as u32));
            let bytes = names.concat();
            for (n, name) in names.iter().enumerate() {
                let oid = ObjectId::from_bytes(HashKind::Sha1, name).expect("20 bytes");
                prop_assert_eq!(find(&fanout, &bytes, 20, &oid), Some(n as u32));
            }
            let oid = ObjectId::from_bytes(HashKind::Sha1, &other).expect("20 bytes");
            let expected = names.binary_search(&other).ok().map(|n| n as u32);
            prop_assert_eq!(find(&fanout, &bytes, 20, &oid), expected);
            let first = names.partition_point(|name| *name < other);
            prop_assert_eq!(first_from(&fanout, &bytes, 20, &oid), first as u32);
        }

        #[test]
        fn survives_an_unsorted_table(
            names in prop::collection::vec(prop::array::uniform20(0u8..3), 1..60),
            key in prop::array::uniform20(0u8..3),
        ) {
            let (fanout, sorted) = table(names.clone());
            let mut bytes = names[..sorted.len()].concat();
            bytes.reverse();
            let oid = ObjectId::from_bytes(HashKind::Sha1, &key).expect("20 bytes");
            if let Some(n) = find(&fanout, &bytes, 20, &oid) {
                prop_assert_eq!(&bytes[n as usize * 20..][..20], &key);
            }
        }
    }

    #[test]
    fn refuses_a_decreasing_fanout() {
        let (mut fanout, _) = table(vec![[7; 20]]);
        fanout[40..44].copy_from_slice(&9u32.to_be_bytes());
        assert_eq!(count(&fanout), None);
    }
}
