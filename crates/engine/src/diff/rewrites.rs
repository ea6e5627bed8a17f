//! Rewritten files (`-B`): Git's `diffcore-break`, with identical scores.
//!
//! [`split()`] turns the pair of a rewritten file into a deletion and an addition, so that
//! [`super::renames`] can find renames of them. [`join`] merges the halves that remain. The score
//! is the removed part of the old side. The decision to split also depends on the number of added
//! bytes.

use bstr::ByteSlice as _;
use repo::Repository;

use super::{
    MAX_SCORE, Pair, Side, Status, WorktreeFiles,
    renames::{
        SourceUses,
        contents::{Contents, File},
        leading_score,
    },
};
use crate::look::LookError;

/// The minimum size of a file that is split, in bytes.
const MIN_SIZE: u64 = 400;

/// The thresholds, in units of 1/[`MAX_SCORE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scores {
    /// The minimum degree of change from which a pair is split.
    pub split: u32,
    /// The minimum removed part of the old side for a split pair to stay a rewrite.
    pub rewrite: u32,
}

impl Scores {
    /// Parses the argument of `-B`: `<n>/<m>`, where each number is optional. Returns `None` for
    /// other texts.
    pub fn parse(text: &[u8]) -> Option<Scores> {
        let (split, rest) = leading_score(text);
        let (rewrite, rest) = match rest.strip_prefix(b"/") {
            Some(rest) => leading_score(rest),
            None => (0, rest),
        };
        let or_default = |score: u32, default: u32| if score == 0 { default } else { score };
        rest.is_empty().then_some(Scores {
            split: or_default(split, MAX_SCORE / 2),
            rewrite: or_default(rewrite, MAX_SCORE / 5 * 3),
        })
    }
}

/// Splits rewritten files among `pairs`, which have no renames yet. With `warns`, also returns
/// warnings about line ends that would not round-trip.
pub fn split(
    repo: &Repository,
    pairs: Vec<Pair>,
    scores: Scores,
    worktree: WorktreeFiles<'_>,
    warns: bool,
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
    let contents =
        if warns { Contents::with_warnings(repo, worktree) } else { Contents::new(repo, Some(worktree)) };
    contents.measure(&mut files.iter_mut().flat_map(|(_, sides)| sides).collect::<Vec<_>>())?;
    // Git reads a worktree file before it compares sizes.
    let must_be_read = |old: Option<u64>, new: Option<u64>| warns && (old.is_none() || new.is_none());
    files.retain(|(_, [old, new])| may_be_split(old.size, new.size) || must_be_read(old.size, new.size));
    let warnings =
        contents.measure_and_cut(&mut files.iter_mut().flat_map(|(_, sides)| sides).collect::<Vec<_>>())?;
    for (at, [old, new]) in &files {
        splits[*at] = score(old, new, scores.split);
    }
    let mut halves = Vec::with_capacity(pairs.len());
    for (pair, is_split) in pairs.into_iter().zip(splits) {
        let Some(score) = is_split else {
            halves.push(pair);
            continue;
        };
        let score = if score < scores.rewrite { 0 } else { score };
        for (old, new) in [(pair.old, None), (None, pair.new)] {
            halves.push(Pair { score, is_half: true, ..Pair::new(pair.path.clone(), old, new) });
        }
    }
    Ok((halves, warnings))
}

/// Joins the remaining halves of split pairs. A joined pair adds a use of its source.
pub fn join(pairs: Vec<Pair>, uses: &mut SourceUses) -> Vec<Pair> {
    let mut joined: Vec<Pair> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let is_other = |last: &&mut Pair| last.is_half && pair.is_half && last.path == pair.path;
        let Some(last) = joined.last_mut().filter(is_other) else {
            joined.push(pair);
            continue;
        };
        let score = last.score;
        uses.add_use(last.path.as_bstr());
        *last = Pair { score, ..Pair::new(pair.path, last.old, pair.new) };
    }
    joined.iter_mut().for_each(|pair| pair.is_half = false);
    joined
}

/// Returns true unless the known sizes rule out a split.
fn may_be_split(old: Option<u64>, new: Option<u64>) -> bool {
    let is_small = |size: Option<u64>| size.is_some_and(|size| size < MIN_SIZE);
    old != Some(0) && !(is_small(old) && is_small(new))
}

/// Returns the removed part of the old side, if enough has changed to split the pair.
fn score(old: &File, new: &File, least: u32) -> Option<u32> {
    let (old_size, new_size) = (old.size?, new.size?);
    if !may_be_split(old.size, new.size) {
        return None;
    }
    let (copied, added) = old.spans.as_ref()?.changes(new.spans.as_ref()?);
    // The counts omit some line ends, and hash collisions may count bytes twice.
    let copied = copied.min(old_size);
    let added = if new_size < added + copied { new_size.saturating_sub(copied) } else { added };
    let removed = old_size - copied;
    let weighted = |size: u64, weight: u32| u128::from(size) * u128::from(weight);
    let gone = weighted(removed, MAX_SCORE) / u128::from(old_size);
    let gone = u32::try_from(gone).expect("no more is gone than there was");
    if gone > least {
        return Some(gone);
    }
    let is_little =
        weighted(removed + added, MAX_SCORE) / u128::from(old_size.max(new_size)) < u128::from(least);
    let is_shortened = weighted(old_size, least) < weighted(removed, MAX_SCORE)
        && added * 20 < removed
        && added * 20 < copied;
    (!is_little && !is_shortened).then_some(gone)
}

impl Pair {
    /// Returns the pair's status letter for `--diff-filter`. Rewritten files have a letter of their
    /// own.
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
    fn parses_scores() {
        let parsed = |text: &str| Scores::parse(text.as_bytes()).map(|scores| (scores.split, scores.rewrite));
        assert_eq!(parsed(""), Some((30_000, 36_000)));
        assert_eq!(parsed("20%"), Some((12_000, 36_000)));
        assert_eq!(parsed("/7"), Some((30_000, 42_000)));
        assert_eq!(parsed("1/90%"), Some((6000, 54_000)));
        assert_eq!(parsed("1/"), Some((6000, 36_000)));
        assert_eq!(parsed("1/2/3"), None);
        assert_eq!(parsed("x"), None);
    }
}
