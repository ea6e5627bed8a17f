//! Renames and copies: added files whose content comes from deleted or existing files. Git's
//! `diffcore-rename`, with identical pairs and scores.
//!
//! Order: first files with the same object; then, if only renames are requested, files with a
//! unique file name; then all remaining sources with all remaining targets, unless their number
//! exceeds the limit. Contents are read and compared in parallel, each file at most once. Pairs are
//! then chosen serially, in Git's order, because one pair rules out others.
//!
//! Nothing is changed. The first object or file that cannot be read ends the detection.

pub(super) mod contents;
mod exact;
mod inexact;
mod spans;

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use contents::{Contents, File, Location};
use format::ObjectId;
use repo::Repository;
use sys::profile::{self, Phase};

use super::{MAX_SCORE, Pair, Side, Status, WorktreeFiles};
use crate::look::LookError;

/// The kind of detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Renames: deleted files that now exist at another path (`-M`).
    Renames,
    /// Also copies of changed or renamed files (`-C`), and of unchanged files among the pairs.
    Copies,
}

/// The treatment of empty files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// They are paired like other files.
    Included,
    /// They are neither renamed nor copied (`--no-rename-empty`). Git recognizes empty files by
    /// their object name, so worktree files are still paired.
    Excluded,
}

/// The comparisons that were skipped, with the limit that they would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// All inexact comparisons.
    All(usize),
    /// Comparisons with unchanged files.
    Unchanged(usize),
}

/// The options of a detection.
pub struct Options<'a> {
    /// The kind of detection.
    pub detect: Detect,
    /// The minimum similarity, in units of 1/[`MAX_SCORE`]. 0 stands for [`DEFAULT_MINIMUM`].
    pub minimum: u32,
    /// If more pairs than the square of this number need a comparison, none are compared. 0 means
    /// no limit.
    pub limit: usize,
    /// The treatment of empty files.
    pub empty: Empty,
    /// The worktree that holds sides without an object name, and the index whose attributes apply
    /// where the worktree has none.
    pub worktree: Option<WorktreeFiles<'a>>,
}

/// The default minimum similarity: half of a file.
pub const DEFAULT_MINIMUM: u32 = MAX_SCORE / 2;

/// The default limit.
pub const DEFAULT_LIMIT: usize = 1000;

/// Parses the score of `-M` and similar options. Digits are a fraction of one, unless a `%`
/// follows; an empty text is 0. Returns `None` for other texts.
pub fn parse_score(text: &[u8]) -> Option<u32> {
    let (score, rest) = leading_score(text);
    rest.is_empty().then_some(score)
}

/// Parses the score at the start of a text. Returns it and the rest.
pub fn leading_score(text: &[u8]) -> (u32, &[u8]) {
    let (mut number, mut scale, mut has_point) = (0u64, 1u64, false);
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'.' if !has_point => (scale, has_point) = (1, true),
            b'%' => {
                scale = if has_point { scale * 100 } else { 100 };
                rest = after;
                break;
            }
            // Further digits do not change the score.
            b'0'..=b'9' if scale >= 100_000 => {}
            b'0'..=b'9' => (number, scale) = (number * 10 + u64::from(byte - b'0'), scale * 10),
            _ => break,
        }
        rest = after;
    }
    let score = u64::from(MAX_SCORE) * number / scale;
    (u32::try_from(score).map_or(MAX_SCORE, |score| score.min(MAX_SCORE)), rest)
}

/// The result of a detection.
#[derive(Debug, Default)]
pub struct Detected {
    /// The pairs in their order, without deletions that became renames. Hashed worktree files have
    /// their object names. Copies are still marked as renames.
    pub pairs: Vec<Pair>,
    /// The uses of each source, which distinguish copies from renames.
    pub uses: SourceUses,
    /// Worktree paths that were hashed, with their object names.
    pub hashed: HashSet<(BString, ObjectId)>,
    /// The skipped comparisons.
    pub skipped: Option<Skipped>,
}

impl Detected {
    fn without_renames(pairs: Vec<Pair>) -> Detected {
        Detected { pairs, ..Detected::default() }
    }

    /// Returns the pairs, with copies distinguished from renames.
    pub fn resolved(mut self) -> Vec<Pair> {
        self.uses.mark_copies(&mut self.pairs);
        self.pairs
    }
}

/// The number of targets of each source.
#[derive(Debug, Default)]
pub struct SourceUses(HashMap<BString, u32>);

impl SourceUses {
    /// Marks copies. Among several targets of a deleted source, the last one in display order is
    /// the rename and the others are copies. Targets that were filtered out still count.
    pub fn mark_copies(mut self, pairs: &mut [Pair]) {
        for pair in pairs.iter_mut().filter(|pair| pair.status == Status::Renamed) {
            let source = pair.source.as_ref().unwrap_or(&pair.path);
            let Some(used) = self.0.get_mut(source) else { continue };
            *used -= 1;
            if *used > 0 {
                pair.status = Status::Copied;
            }
        }
    }

    /// Counts the source itself as one more target, because it stays.
    pub(super) fn add_use(&mut self, source: &BStr) {
        if let Some(used) = self.0.get_mut(source) {
            *used += 1;
        }
    }
}

/// A file that may have been renamed or copied.
struct Source {
    file: File,
    /// The number of its targets, including the source itself if it stays.
    used: u32,
    /// True if both sides are equal.
    is_unchanged: bool,
    /// For one half of a split pair: the index of the other half in the targets. If the other half
    /// is not a target, the index of the next target.
    other_half: Option<usize>,
}

/// A file that may be a rename or copy.
struct Target {
    file: File,
    /// The index of its source, and the similarity.
    from: Option<(usize, u32)>,
}

/// The sources and targets of a list of pairs.
struct Candidates {
    detect: Detect,
    sources: Vec<Source>,
    targets: Vec<Target>,
}

/// Finds renames and copies in `pairs`, which are in Git's order and have none yet. Pairs with
/// equal sides only serve as sources and are removed from the result.
pub fn detect(repo: &Repository, mut pairs: Vec<Pair>, options: &Options<'_>) -> Result<Detected, LookError> {
    let _phase = profile::span(Phase::Plan);
    let minimum = if options.minimum == 0 { DEFAULT_MINIMUM } else { options.minimum };
    let mut candidates = Candidates::of(&pairs, options);
    if candidates.sources.is_empty() || candidates.targets.is_empty() {
        pairs.retain(|pair| !pair.is_unchanged());
        return Ok(Detected::without_renames(pairs));
    }
    let contents = Contents::new(repo, options.worktree);
    contents.name(&mut candidates.unnamed())?;
    exact::find(&mut candidates);
    let mut skipped = None;
    if minimum < MAX_SCORE {
        skipped = inexact::find(&mut candidates, &contents, minimum, options.limit)?;
    }
    let hashed = candidates.hashed();
    let uses = candidates.write_back(&mut pairs);
    Ok(Detected { pairs, uses, hashed, skipped })
}

impl Candidates {
    fn of(pairs: &[Pair], options: &Options<'_>) -> Candidates {
        let detect = options.detect;
        let is_excluded = |side: Side| {
            let is_empty = |oid: ObjectId| oid == ObjectId::empty_blob(oid.kind());
            options.empty == Empty::Excluded && side.oid.is_some_and(is_empty)
        };
        let mut candidates = Candidates { detect, sources: Vec::new(), targets: Vec::new() };
        for (at, pair) in pairs.iter().enumerate() {
            match (pair.old, pair.new) {
                (Some(side), _) | (None, Some(side)) if is_excluded(side) => {}
                // In Git, the file of an unmerged path is a target like any other.
                (None, Some(side)) => {
                    candidates.targets.push(Target { file: File::new(at, pair, side), from: None });
                }
                (Some(side), new) => {
                    let is_gone = new.is_none() && pair.status != Status::Unmerged;
                    if is_gone || detect == Detect::Copies {
                        let file = File::new(at, pair, side);
                        let is_unchanged = pair.is_unchanged();
                        // Too much of the file remains, so it stays unless another file takes its
                        // path.
                        let used = u32::from(!is_gone || pair.is_half && pair.score == 0);
                        let other_half = pair.is_half.then_some(candidates.targets.len());
                        candidates.sources.push(Source { file, used, is_unchanged, other_half });
                    }
                }
                (None, None) => {}
            }
        }
        candidates
    }

    /// Returns the files without an object name.
    fn unnamed(&mut self) -> Vec<&mut File> {
        let sources = self.sources.iter_mut().map(|source| &mut source.file);
        let files = sources.chain(self.targets.iter_mut().map(|target| &mut target.file));
        files.filter(|file| file.location == Location::Worktree).collect()
    }

    /// Returns the files of the marked sources and targets, mutably.
    fn selected(&mut self, is_source: &[bool], is_target: &[bool]) -> Vec<&mut File> {
        let sources = self.sources.iter_mut().map(|source| &mut source.file).zip(is_source);
        let targets = self.targets.iter_mut().map(|target| &mut target.file).zip(is_target);
        sources.chain(targets).filter(|(_, is_selected)| **is_selected).map(|(file, _)| file).collect()
    }

    /// Returns the sources that inexact detection may use, and the targets without a source.
    fn remaining(&self) -> (Vec<usize>, Vec<usize>) {
        let are_all = self.detect == Detect::Copies || self.has_halves();
        let is_left = |&at: &usize| are_all || self.sources[at].used == 0;
        let sources = (0..self.sources.len()).filter(is_left).collect();
        (sources, (0..self.targets.len()).filter(|&at| self.targets[at].from.is_none()).collect())
    }

    /// Returns true if pairs were split. Git then skips its optimizations.
    fn has_halves(&self) -> bool {
        self.sources.iter().any(|source| source.other_half.is_some())
    }

    fn record(&mut self, target: usize, source: usize, score: u32) {
        self.sources[source].used += 1;
        self.targets[target].from = Some((source, score));
    }

    /// Returns the hashed worktree files with their object names.
    fn hashed(&self) -> HashSet<(BString, ObjectId)> {
        let sources = self.sources.iter().map(|source| &source.file);
        let files = sources.chain(self.targets.iter().map(|target| &target.file));
        let of_worktree = files.filter(|file| file.location == Location::Worktree);
        of_worktree.filter_map(|file| Some((file.path.clone(), file.side.oid?))).collect()
    }

    /// Writes the renames to the pairs.
    fn write_back(self, pairs: &mut Vec<Pair>) -> SourceUses {
        let mut is_left_out: Vec<bool> = pairs.iter().map(Pair::is_unchanged).collect();
        for Source { file, used, is_unchanged, other_half } in &self.sources {
            let pair = &mut pairs[file.pair];
            pair.old = Some(file.side);
            is_left_out[file.pair] |= match other_half {
                Some(other_half) => {
                    self.targets.get(*other_half).is_some_and(|other_half| other_half.from.is_some())
                }
                None => *used > 0 && pair.status == Status::Deleted,
            };
            // The object names of both sides are known only at this point.
            if !is_unchanged && pair.is_unchanged() {
                pair.status = Status::Unknown;
            }
        }
        for Target { file, from } in self.targets {
            let pair = &mut pairs[file.pair];
            pair.new = Some(file.side);
            let Some((source, score)) = from else { continue };
            let Source { file: source, other_half, .. } = &self.sources[source];
            pair.old = Some(source.side);
            let is_half = std::mem::take(&mut pair.is_half);
            if source.path != file.path {
                (pair.source, pair.score) = (Some(source.path.clone()), score);
            } else if is_half && other_half.is_some() {
                // The source is the other half of the same pair.
                pair.status = Status::Modified;
                continue;
            }
            // The file of an unmerged path may be a copy of the content of a stage.
            if pair.status != Status::Unmerged {
                pair.status = Status::Renamed;
            }
        }
        let mut numbers = 0..;
        pairs.retain(|_| !is_left_out[numbers.next().expect("endless")]);
        SourceUses(self.sources.into_iter().map(|source| (source.file.path, source.used)).collect())
    }
}

/// Returns the part of a path after the last slash.
fn basename(path: &BStr) -> &BStr {
    path[path.rfind_byte(b'/').map_or(0, |slash| slash + 1)..].as_bstr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_scores() {
        for (text, score) in [
            ("", 0),
            ("5", 30_000),
            ("50%", 30_000),
            ("100%", 60_000),
            ("9", 54_000),
            ("1", 6000),
            ("01", 600),
        ] {
            assert_eq!(parse_score(text.as_bytes()), Some(score), "{text}");
        }
        for (text, score) in
            [(".25", 15_000), ("1.5%", 900), ("250%", 60_000), ("0", 0), ("99999999", 59_999)]
        {
            assert_eq!(parse_score(text.as_bytes()), Some(score), "{text}");
        }
        assert_eq!(parse_score(b"5x"), None);
        assert_eq!(parse_score(b"5%5"), None);
    }
}
