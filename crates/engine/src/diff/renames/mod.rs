//! Renames and copies: what was added, seen as what is gone or still there. Git's `diffcore-rename`, to the pair and to the score.
//!
//! Order: those with the same content first, by name; then, if only renames are asked for, what kept its file name, where that is
//! unmistakable; then everything left with everything left, unless that is too much. Contents are read and compared in parallel, each
//! file once at most; which pairs are made is decided afterwards, serially, in Git's order, as one pair rules out others.
//!
//! Nothing is changed. The first object or file that cannot be read ends it.

pub(super) mod contents;
mod exact;
mod inexact;
mod spans;

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use contents::{Contents, File, Home};
use format::{ObjectId, index::Index};
use repo::Repository;
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{MAX_SCORE, Pair, Side, Status};
use crate::look::LookError;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Deleted files that are elsewhere now (`-M`).
    Renames,
    /// Also copies of files that were changed, or renamed themselves (`-C`), and of what else is among the pairs unchanged.
    Copies,
}

/// What becomes of empty files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// They are as good as others.
    Paired,
    /// They were neither renamed nor copied (`--no-rename-empty`). Git tells by the object's name: those of the worktree are paired.
    Alone,
}

/// What was not compared, as it was too much, and the limit that would have been needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Everything that is not the same.
    All(usize),
    /// Files that were not changed.
    Unchanged(usize),
}

/// How.
pub struct Options<'a> {
    /// What is looked for.
    pub detect: Detect,
    /// How alike two files must be at least, of [`MAX_SCORE`]. 0 stands for [`DEFAULT_MINIMUM`].
    pub minimum: u32,
    /// If more pairs than this number squared would have to be compared, none are; 0 is no limit.
    pub limit: usize,
    /// What becomes of empty files.
    pub empty: Empty,
    /// Where sides are that have no name yet, and the index whose attributes they fall back to.
    pub worktree: Option<(&'a Dir, &'a Index)>,
}

/// Half of a file must be the same.
pub const DEFAULT_MINIMUM: u32 = MAX_SCORE / 2;

/// The limit where nothing is configured.
pub const DEFAULT_LIMIT: usize = 1000;

/// A score as it is given to `-M` and its like: digits are a fraction of one, unless a `%` follows; nothing is 0. `None` if anything else is
/// in it.
pub fn parse_score(text: &[u8]) -> Option<u32> {
    let (score, rest) = leading_score(text);
    rest.is_empty().then_some(score)
}

/// The score that a text begins with, and the rest.
pub fn leading_score(text: &[u8]) -> (u32, &[u8]) {
    let (mut number, mut scale, mut has_point) = (0u64, 1u64, false);
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        match byte {
            b'.' if !has_point => (scale, has_point) = (1, true),
            b'%' => {
                scale = if has_point { scale * 100 } else { 100 };
                rest = behind;
                break;
            }
            // More digits than that make no difference.
            b'0'..=b'9' if scale >= 100_000 => {}
            b'0'..=b'9' => (number, scale) = (number * 10 + u64::from(byte - b'0'), scale * 10),
            _ => break,
        }
        rest = behind;
    }
    let score = u64::from(MAX_SCORE) * number / scale;
    (u32::try_from(score).map_or(MAX_SCORE, |score| score.min(MAX_SCORE)), rest)
}

/// What became of the pairs.
#[derive(Debug, Default)]
pub struct Detected {
    /// In their order, without the deletions that became renames. Sides of the worktree that had to be hashed have their names. Copies are called
    /// renames yet.
    pub pairs: Vec<Pair>,
    /// What tells them.
    pub uses: Uses,
    /// Paths in the worktree, and the names they got.
    pub hashed: HashSet<(BString, ObjectId)>,
    /// If there were too many.
    pub skipped: Option<Skipped>,
}

impl Detected {
    fn without(pairs: Vec<Pair>) -> Detected {
        Detected { pairs, ..Detected::default() }
    }

    /// The pairs, with copies told from renames.
    pub fn resolved(mut self) -> Vec<Pair> {
        self.uses.tell_copies(&mut self.pairs);
        self.pairs
    }
}

/// How many come from each source.
#[derive(Debug, Default)]
pub struct Uses(HashMap<BString, u32>);

impl Uses {
    /// Of several that come from a file that is gone the last is the rename, all others are copies: the last in the order in which they are shown.
    /// What was left out by then still counts.
    pub fn tell_copies(mut self, pairs: &mut [Pair]) {
        for pair in pairs.iter_mut().filter(|pair| pair.status == Status::Renamed) {
            let source = pair.source.as_ref().unwrap_or(&pair.path);
            let Some(used) = self.0.get_mut(source) else { continue };
            *used -= 1;
            if *used > 0 {
                pair.status = Status::Copied;
            }
        }
    }

    /// One more comes from there: what is there.
    pub(super) fn stays(&mut self, source: &BStr) {
        if let Some(used) = self.0.get_mut(source) {
            *used += 1;
        }
    }
}

/// What may have been renamed or copied.
struct Source {
    file: File,
    /// How many come from it, itself included if it stays.
    used: u32,
    /// It is the same on both sides.
    is_unchanged: bool,
    /// Of a half: the number that the other half has among the targets, or what comes next if that is none.
    other: Option<usize>,
}

/// What may have come from elsewhere.
struct Target {
    file: File,
    /// The source's number, and how alike they are.
    from: Option<(usize, u32)>,
}

/// Those of a list of pairs.
struct Candidates {
    detect: Detect,
    sources: Vec<Source>,
    targets: Vec<Target>,
}

/// Finds them in `pairs`, which are in Git's order and have neither yet. Pairs whose sides are the same only serve as sources, and are left out of
/// what is found.
pub fn detect(repo: &Repository, mut pairs: Vec<Pair>, options: &Options<'_>) -> Result<Detected, LookError> {
    let _phase = profile::span(Phase::Plan);
    let minimum = if options.minimum == 0 { DEFAULT_MINIMUM } else { options.minimum };
    let mut candidates = Candidates::of(&pairs, options);
    if candidates.sources.is_empty() || candidates.targets.is_empty() {
        pairs.retain(|pair| !pair.is_unchanged());
        return Ok(Detected::without(pairs));
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
        let is_passed = |side: Side| {
            let is_empty = |oid: ObjectId| oid == ObjectId::empty_blob(oid.kind());
            options.empty == Empty::Alone && side.oid.is_some_and(is_empty)
        };
        let mut candidates = Candidates { detect, sources: Vec::new(), targets: Vec::new() };
        for (at, pair) in pairs.iter().enumerate() {
            match (pair.old, pair.new) {
                (Some(side), _) | (None, Some(side)) if is_passed(side) => {}
                // The file of an unmerged path is a target like others, odd as it is.
                (None, Some(side)) => {
                    candidates.targets.push(Target { file: File::new(at, pair, side), from: None });
                }
                (Some(side), new) => {
                    let is_gone = new.is_none() && pair.status != Status::Unmerged;
                    if is_gone || detect == Detect::Copies {
                        let file = File::new(at, pair, side);
                        let is_unchanged = pair.is_unchanged();
                        // Too much of it is left: it stays, unless something else takes its place.
                        let used = u32::from(!is_gone || pair.is_half && pair.score == 0);
                        let other = pair.is_half.then_some(candidates.targets.len());
                        candidates.sources.push(Source { file, used, is_unchanged, other });
                    }
                }
                (None, None) => {}
            }
        }
        candidates
    }

    /// What has no name.
    fn unnamed(&mut self) -> Vec<&mut File> {
        let sources = self.sources.iter_mut().map(|source| &mut source.file);
        let files = sources.chain(self.targets.iter_mut().map(|target| &mut target.file));
        files.filter(|file| file.home == Home::Worktree).collect()
    }

    /// The files of some sources and targets.
    fn chosen(&mut self, is_source: &[bool], is_target: &[bool]) -> Vec<&mut File> {
        let sources = self.sources.iter_mut().map(|source| &mut source.file).zip(is_source);
        let targets = self.targets.iter_mut().map(|target| &mut target.file).zip(is_target);
        sources.chain(targets).filter(|(_, is_chosen)| **is_chosen).map(|(file, _)| file).collect()
    }

    /// The sources that may still be taken, by what is not exact, and the targets that have none.
    fn left(&self) -> (Vec<usize>, Vec<usize>) {
        let are_all = self.detect == Detect::Copies || self.has_halves();
        let is_left = |&at: &usize| are_all || self.sources[at].used == 0;
        let sources = (0..self.sources.len()).filter(is_left).collect();
        (sources, (0..self.targets.len()).filter(|&at| self.targets[at].from.is_none()).collect())
    }

    /// Whether pairs were split: Git then takes no shortcuts.
    fn has_halves(&self) -> bool {
        self.sources.iter().any(|source| source.other.is_some())
    }

    fn record(&mut self, target: usize, source: usize, score: u32) {
        self.sources[source].used += 1;
        self.targets[target].from = Some((source, score));
    }

    /// What was in the worktree and has a name now.
    fn hashed(&self) -> HashSet<(BString, ObjectId)> {
        let sources = self.sources.iter().map(|source| &source.file);
        let files = sources.chain(self.targets.iter().map(|target| &target.file));
        let of_worktree = files.filter(|file| file.home == Home::Worktree);
        of_worktree.filter_map(|file| Some((file.path.clone(), file.side.oid?))).collect()
    }

    /// Makes renames of the pairs.
    fn write_back(self, pairs: &mut Vec<Pair>) -> Uses {
        let mut is_left_out: Vec<bool> = pairs.iter().map(Pair::is_unchanged).collect();
        for Source { file, used, is_unchanged, other } in &self.sources {
            let pair = &mut pairs[file.pair];
            pair.old = Some(file.side);
            is_left_out[file.pair] |= match other {
                Some(other) => self.targets.get(*other).is_some_and(|other| other.from.is_some()),
                None => *used > 0 && pair.status == Status::Deleted,
            };
            // Only now the names of both sides are known.
            if !is_unchanged && pair.is_unchanged() {
                pair.status = Status::Unknown;
            }
        }
        for Target { file, from } in self.targets {
            let pair = &mut pairs[file.pair];
            pair.new = Some(file.side);
            let Some((source, score)) = from else { continue };
            let Source { file: source, other, .. } = &self.sources[source];
            pair.old = Some(source.side);
            let is_half = std::mem::take(&mut pair.is_half);
            if source.path != file.path {
                (pair.source, pair.score) = (Some(source.path.clone()), score);
            } else if is_half && other.is_some() {
                // Its own other half.
                pair.status = Status::Modified;
                continue;
            }
            // The file of an unmerged path may be the copy of what a stage has there.
            if pair.status != Status::Unmerged {
                pair.status = Status::Renamed;
            }
        }
        let mut numbers = 0..;
        pairs.retain(|_| !is_left_out[numbers.next().expect("endless")]);
        Uses(self.sources.into_iter().map(|source| (source.file.path, source.used)).collect())
    }
}

/// The part of a path after the last slash.
fn basename(path: &BStr) -> &BStr {
    path[path.rfind_byte(b'/').map_or(0, |slash| slash + 1)..].as_bstr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores() {
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
