//! Detection of inexact renames and copies, with changed content.

use std::{cmp::Reverse, collections::HashMap, sync::Mutex};

use bstr::{BStr, ByteSlice as _};

use super::{
    super::MAX_SCORE,
    Candidates, Detect, Skipped, basename,
    contents::{Contents, File},
};
use crate::{
    crew::{self, Tuning},
    look::LookError,
};

/// Number of best sources to keep for each target.
const SOURCES_PER_TARGET: usize = 4;
/// This many comparisons cost as much as one step. A step is the writing of a file.
const COMPARISONS_PER_STEP: usize = 8;

/// Pairs similar files. If the number of comparisons exceeds the limit, unchanged sources are
/// dropped. If it still exceeds the limit, nothing is compared.
pub(super) fn find(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    minimum: u32,
    limit: usize,
) -> Result<Option<Skipped>, LookError> {
    if candidates.detect == Detect::Renames && !candidates.has_halves() {
        pair_by_unique_name(candidates, contents, minimum + (MAX_SCORE - minimum) / 2)?;
    }
    let (mut sources, targets) = candidates.remaining();
    if sources.is_empty() || targets.is_empty() {
        return Ok(None);
    }
    let required_limit = sources.len().max(targets.len());
    let is_too_many = |sources: &[usize]| {
        limit > 0 && sources.len().saturating_mul(targets.len()) > limit.saturating_mul(limit)
    };
    let mut skipped = None;
    if is_too_many(&sources) {
        sources.retain(|&at| !candidates.sources[at].is_unchanged);
        if is_too_many(&sources) {
            return Ok(Some(Skipped::All(required_limit)));
        }
        skipped = Some(Skipped::Unchanged(required_limit));
    }
    pair_by_similarity(candidates, contents, minimum, &sources, &targets)?;
    Ok(skipped)
}

/// Pairs files whose name is unique among the sources and among the targets. These pairs need a
/// higher similarity than others.
fn pair_by_unique_name(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    minimum: u32,
) -> Result<(), LookError> {
    let (sources, targets) = candidates.remaining();
    let source_names = unique(sources.iter().map(|&at| (at, &candidates.sources[at].file)));
    let target_names = unique(targets.iter().map(|&at| (at, &candidates.targets[at].file)));
    let mut matches: Vec<(usize, usize)> = source_names
        .iter()
        .filter_map(|(name, source)| Some(((*source)?, (*target_names.get(name)?)?)))
        .collect();
    matches.sort_unstable();
    prepare(candidates, contents, matches.iter().copied(), minimum)?;
    for (source, target) in matches {
        let score = score(&candidates.sources[source].file, &candidates.targets[target].file, minimum);
        if score >= minimum {
            candidates.record(target, source, score);
        }
    }
    Ok(())
}

/// Returns files by file name, with `None` for a name that occurs several times.
fn unique<'a>(files: impl Iterator<Item = (usize, &'a File)>) -> HashMap<&'a BStr, Option<usize>> {
    let mut found = HashMap::new();
    for (at, file) in files {
        let name = basename(file.path.as_bstr());
        found.entry(name).and_modify(|number| *number = None).or_insert(Some(at));
    }
    found
}

/// Reads and cuts the files of these pairs of a source and a target, so that they can be scored.
fn prepare(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    pairs: impl Iterator<Item = (usize, usize)> + Clone,
    minimum: u32,
) -> Result<(), LookError> {
    let mut is_source = vec![false; candidates.sources.len()];
    let mut is_target = vec![false; candidates.targets.len()];
    for (source, target) in pairs.clone() {
        if candidates.sources[source].file.is_regular() && candidates.targets[target].file.is_regular() {
            (is_source[source], is_target[target]) = (true, true);
        }
    }
    contents.measure(&mut candidates.selected(&is_source, &is_target))?;
    is_source.fill(false);
    is_target.fill(false);
    for (source, target) in pairs {
        if may_be_similar(&candidates.sources[source].file, &candidates.targets[target].file, minimum) {
            (is_source[source], is_target[target]) = (true, true);
        }
    }
    contents.cut(&mut candidates.selected(&is_source, &is_target))
}

/// Returns true if both are regular files and their sizes do not rule out the minimum similarity.
fn may_be_similar(source: &File, target: &File, minimum: u32) -> bool {
    if !source.is_regular() || !target.is_regular() {
        return false;
    }
    let (Some(old), Some(new)) = (source.size, target.size) else { return false };
    let weighted = |size: u64, weight: u32| u128::from(size) * u128::from(weight);
    weighted(old.max(new), MAX_SCORE - minimum) >= weighted(old.abs_diff(new), MAX_SCORE)
}

/// Returns the similarity, or 0 if it cannot reach `minimum`.
fn score(source: &File, target: &File, minimum: u32) -> u32 {
    if !may_be_similar(source, target, minimum) {
        return 0;
    }
    match (&source.spans, &target.spans, source.size, target.size) {
        (Some(old), Some(new), Some(old_size), Some(new_size)) if new_size > 0 => {
            let score = u128::from(old.common_bytes(new)) * u128::from(MAX_SCORE)
                / u128::from(old_size.max(new_size));
            u32::try_from(score).expect("no more is in common than there is")
        }
        _ => 0,
    }
}

/// A target and a possible source.
#[derive(Clone, Copy)]
struct Scored {
    source: usize,
    target: usize,
    /// The similarity, and true for equal file names. Pairs with a higher rank are preferred.
    rank: (u32, bool),
}

/// Compares all sources with all targets, and pairs the most similar ones first.
fn pair_by_similarity(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    minimum: u32,
    sources: &[usize],
    targets: &[usize],
) -> Result<(), LookError> {
    let pairs = targets.iter().flat_map(|&target| sources.iter().map(move |&source| (source, target)));
    prepare(candidates, contents, pairs, minimum)?;
    let known = &*candidates;
    let best = crew::map(
        "compare",
        &Tuning::default(),
        targets,
        |_| 1 + sources.len() / COMPARISONS_PER_STEP,
        &Mutex::new(Vec::new()),
        |_| (),
        |(), &target| Ok::<_, LookError>(best_sources(known, sources, target, minimum)),
    )?;
    let mut best: Vec<Scored> = best.into_iter().flatten().collect();
    best.sort_by_key(|scored| Reverse(scored.rank));
    let passes: &[bool] = if candidates.detect == Detect::Copies { &[false, true] } else { &[false] };
    for &may_be_used in passes {
        for scored in best.iter().take_while(|scored| scored.rank.0 >= minimum) {
            let is_free = may_be_used || candidates.sources[scored.source].used == 0;
            if is_free && candidates.targets[scored.target].from.is_none() {
                candidates.record(scored.target, scored.source, scored.rank.0);
            }
        }
    }
    Ok(())
}

/// Returns the best sources of a target. Among equal ones the first is preferred. A new source
/// replaces the worst one in its place, because the order affects the pairs.
fn best_sources(candidates: &Candidates, sources: &[usize], target: usize, minimum: u32) -> Vec<Scored> {
    let mut best: Vec<Scored> = Vec::with_capacity(SOURCES_PER_TARGET);
    let file = &candidates.targets[target].file;
    for &source in sources {
        let other = &candidates.sources[source].file;
        let is_same_name = basename(other.path.as_bstr()) == basename(file.path.as_bstr());
        let scored = Scored { source, target, rank: (score(other, file, minimum), is_same_name) };
        if best.len() < SOURCES_PER_TARGET {
            best.push(scored);
            continue;
        }
        let worst = (1..SOURCES_PER_TARGET)
            .fold(0, |worst, at| if best[at].rank < best[worst].rank { at } else { worst });
        if best[worst].rank < scored.rank {
            best[worst] = scored;
        }
    }
    best
}
