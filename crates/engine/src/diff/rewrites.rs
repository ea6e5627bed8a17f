//! Files that were written anew (`-B`): Git's `diffcore-break`, to the score.
//!
//! [`split()`] makes of such a pair what is gone and what is new, between which [`super::renames`] may find others' content; [`join`] makes one of what it
//! left. A score is how much of the old side is gone. Whether a pair is split is a matter of what was added, too.

use bstr::ByteSlice as _;
use format::index::Index;
use repo::Repository;
use sys::Dir;

use super::{
    MAX_SCORE, Pair, Side, Status,
    renames::{
        Uses,
        contents::{Contents, File},
        leading_score,
    },
};
use crate::look::LookError;

/// Nothing smaller is split, in bytes.
const SMALLEST: u64 = 400;

/// From where on. Both are of [`MAX_SCORE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scores {
    /// A pair is split if so much was changed.
    pub split: u32,
    /// One that was split stays a rewrite if so much of the old side is gone.
    pub kept: u32,
}

impl Scores {
    /// As they are given to `-B`: `<n>/<m>`, of which each may be left out. `None` if it is anything else.
    pub fn parse(text: &[u8]) -> Option<Scores> {
        let (split, rest) = leading_score(text);
        let (kept, rest) = match rest.strip_prefix(b"/") {
            Some(rest) => leading_score(rest),
            None => (0, rest),
        };
        let or = |score: u32, default: u32| if score == 0 { default } else { score };
        rest.is_empty()
            .then_some(Scores { split: or(split, MAX_SCORE / 2), kept: or(kept, MAX_SCORE / 5 * 3) })
    }
}

/// Splits those of `pairs`, which have no renames yet. If it `tells`, what it returns beside them is to be said of line ends that would not come back.
pub fn split(
    repo: &Repository,
    pairs: Vec<Pair>,
    scores: Scores,
    worktree: (&Dir, &Index),
    tells: bool,
) -> Result<(Vec<Pair>, Vec<String>), LookError> {
    let mut splits: Vec<Option<u32>> = vec![None; pairs.len()];
    let mut files: Vec<(usize, [File; 2])> = Vec::new();
    for (at, pair) in pairs.iter().enumerate() {
        let (Some(old), Some(new)) = (pair.old, pair.new) else { continue };
        let is_blob = |side: Side| !side.mode.is_gitlink() && !side.mode.is_tree();
        if !is_blob(old) || !is_blob(new) {
            continue;
        }
        if old.mode.is_file() != new.mode.is_file() {
            splits[at] = Some(MAX_SCORE);
        } else if old.oid.is_none() || old.oid != new.oid {
            files.push((at, [File::new(at, pair, old), File::new(at, pair, new)]));
        }
    }
    let contents = match tells {
        true => Contents::telling(repo, worktree),
        false => Contents::new(repo, Some(worktree)),
    };
    contents.measure(&mut files.iter_mut().flat_map(|(_, sides)| sides).collect::<Vec<_>>())?;
    // What is in the worktree Git reads before it asks for sizes.
    let is_told_of = |old: Option<u64>, new: Option<u64>| tells && (old.is_none() || new.is_none());
    files.retain(|(_, [old, new])| may_be_split(old.size, new.size) || is_told_of(old.size, new.size));
    let said = contents.weigh(&mut files.iter_mut().flat_map(|(_, sides)| sides).collect::<Vec<_>>())?;
    for (at, [old, new]) in &files {
        splits[*at] = score(old, new, scores.split);
    }
    let mut halves = Vec::with_capacity(pairs.len());
    for (pair, is_split) in pairs.into_iter().zip(splits) {
        let Some(score) = is_split else {
            halves.push(pair);
            continue;
        };
        let score = if score < scores.kept { 0 } else { score };
        for (old, new) in [(pair.old, None), (None, pair.new)] {
            halves.push(Pair { score, is_half: true, ..Pair::new(pair.path.clone(), old, new) });
        }
    }
    Ok((halves, said))
}

/// Joins what is left of pairs that were split. Who stays at its path is one more that comes from there.
pub fn join(pairs: Vec<Pair>, uses: &mut Uses) -> Vec<Pair> {
    let mut joined: Vec<Pair> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let is_other = |last: &&mut Pair| last.is_half && pair.is_half && last.path == pair.path;
        let Some(last) = joined.last_mut().filter(is_other) else {
            joined.push(pair);
            continue;
        };
        let score = last.score;
        uses.stays(last.path.as_bstr());
        *last = Pair { score, ..Pair::new(pair.path, last.old, pair.new) };
    }
    joined.iter_mut().for_each(|pair| pair.is_half = false);
    joined
}

/// Whether sizes, as far as they are known, do not rule it out.
fn may_be_split(old: Option<u64>, new: Option<u64>) -> bool {
    let is_small = |size: Option<u64>| size.is_some_and(|size| size < SMALLEST);
    old != Some(0) && !(is_small(old) && is_small(new))
}

/// How much of the old side is gone, if so much was changed that the pair is to be split.
fn score(old: &File, new: &File, least: u32) -> Option<u32> {
    let (old_size, new_size) = (old.size?, new.size?);
    if !may_be_split(old.size, new.size) {
        return None;
    }
    let (copied, added) = old.spans.as_ref()?.changes(new.spans.as_ref()?);
    // Counts leave out some line ends, or hold bytes of what only looked the same.
    let copied = copied.min(old_size);
    let added = if new_size < added + copied { new_size.saturating_sub(copied) } else { added };
    let removed = old_size - copied;
    let weighed = |size: u64, weight: u32| u128::from(size) * u128::from(weight);
    let gone = weighed(removed, MAX_SCORE) / u128::from(old_size);
    let gone = u32::try_from(gone).expect("no more is gone than there was");
    if gone > least {
        return Some(gone);
    }
    let is_little =
        weighed(removed + added, MAX_SCORE) / u128::from(old_size.max(new_size)) < u128::from(least);
    let is_shortened =
        weighed(old_size, least) < weighed(removed, MAX_SCORE) && added * 20 < removed && added * 20 < copied;
    (!is_little && !is_shortened).then_some(gone)
}

impl Pair {
    /// The letter that `--diff-filter` knows it by: what was rewritten is a class of its own.
    pub fn class(&self) -> u8 {
        match self.status {
            Status::Modified if self.score > 0 => b'B',
            status => status.letter(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_as_they_are_given() {
        let parsed = |text: &str| Scores::parse(text.as_bytes()).map(|scores| (scores.split, scores.kept));
        assert_eq!(parsed(""), Some((30_000, 36_000)));
        assert_eq!(parsed("20%"), Some((12_000, 36_000)));
        assert_eq!(parsed("/7"), Some((30_000, 42_000)));
        assert_eq!(parsed("1/90%"), Some((6000, 54_000)));
        assert_eq!(parsed("1/"), Some((6000, 36_000)));
        assert_eq!(parsed("1/2/3"), None);
        assert_eq!(parsed("x"), None);
    }
}
