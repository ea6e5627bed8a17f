//! What is elsewhere and was changed.

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

/// So many sources are remembered of each target.
const REMEMBERED: usize = 4;
/// So many comparisons take as long as writing a file.
const COMPARISONS_PER_STEP: usize = 8;

/// Pairs what is alike enough. If that is too much, and would not be without files that were not changed, then those of others.
pub(super) fn find(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    minimum: u32,
    limit: usize,
) -> Result<Option<Skipped>, LookError> {
    if candidates.detect == Detect::Renames && !candidates.has_halves() {
        by_basename(candidates, contents, minimum + (MAX_SCORE - minimum) / 2)?;
    }
    let (mut sources, targets) = candidates.left();
    if sources.is_empty() || targets.is_empty() {
        return Ok(None);
    }
    let needed = sources.len().max(targets.len());
    let is_too_much = |sources: &[usize]| {
        limit > 0 && sources.len().saturating_mul(targets.len()) > limit.saturating_mul(limit)
    };
    let mut skipped = None;
    if is_too_much(&sources) {
        sources.retain(|&at| !candidates.sources[at].is_unchanged);
        if is_too_much(&sources) {
            return Ok(Some(Skipped::All(needed)));
        }
        skipped = Some(Skipped::Unchanged(needed));
    }
    all(candidates, contents, minimum, (&sources, &targets))?;
    Ok(skipped)
}

/// What is the only one of its file name on both sides is compared with its like first, and has to be more alike than others.
fn by_basename(candidates: &mut Candidates, contents: &Contents<'_>, minimum: u32) -> Result<(), LookError> {
    let (sources, targets) = candidates.left();
    let source_names = unique(sources.iter().map(|&at| (at, &candidates.sources[at].file)));
    let target_names = unique(targets.iter().map(|&at| (at, &candidates.targets[at].file)));
    let mut matches: Vec<(usize, usize)> = source_names
        .iter()
        .filter_map(|(name, source)| Some(((*source)?, (*target_names.get(name)?)?)))
        .collect();
    matches.sort_unstable();
    compare(candidates, contents, matches.iter().copied(), minimum)?;
    for (source, target) in matches {
        let score = score(&candidates.sources[source].file, &candidates.targets[target].file, minimum);
        if score >= minimum {
            candidates.record(target, source, score);
        }
    }
    Ok(())
}

/// By file name; `None` if there are several of it.
fn unique<'a>(files: impl Iterator<Item = (usize, &'a File)>) -> HashMap<&'a BStr, Option<usize>> {
    let mut found = HashMap::new();
    for (at, file) in files {
        let name = basename(file.path.as_bstr());
        found.entry(name).and_modify(|number| *number = None).or_insert(Some(at));
    }
    found
}

/// Prepares these pairs of a source and a target for being scored.
fn compare(
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
    contents.measure(&mut candidates.chosen(&is_source, &is_target))?;
    is_source.fill(false);
    is_target.fill(false);
    for (source, target) in pairs {
        if may_be_alike(&candidates.sources[source].file, &candidates.targets[target].file, minimum) {
            (is_source[source], is_target[target]) = (true, true);
        }
    }
    contents.cut(&mut candidates.chosen(&is_source, &is_target))
}

/// Whether they are regular files of sizes that do not rule it out.
fn may_be_alike(source: &File, target: &File, minimum: u32) -> bool {
    if !source.is_regular() || !target.is_regular() {
        return false;
    }
    let (Some(old), Some(new)) = (source.size, target.size) else { return false };
    let weighed = |size: u64, weight: u32| u128::from(size) * u128::from(weight);
    weighed(old.max(new), MAX_SCORE - minimum) >= weighed(old.abs_diff(new), MAX_SCORE)
}

/// How alike they are; 0 if that cannot be `minimum`.
fn score(source: &File, target: &File, minimum: u32) -> u32 {
    if !may_be_alike(source, target, minimum) {
        return 0;
    }
    match (&source.spans, &target.spans, source.size, target.size) {
        (Some(old), Some(new), Some(old_size), Some(new_size)) if new_size > 0 => {
            let score =
                u128::from(old.in_common(new)) * u128::from(MAX_SCORE) / u128::from(old_size.max(new_size));
            u32::try_from(score).expect("no more is in common than there is")
        }
        _ => 0,
    }
}

/// A target, and what it may come from.
#[derive(Clone, Copy)]
struct Scored {
    source: usize,
    target: usize,
    /// How alike they are, and whether they have the same file name: the more, the better.
    worth: (u32, bool),
}

/// Compares everything with everything, and makes pairs of the most alike first.
fn all(
    candidates: &mut Candidates,
    contents: &Contents<'_>,
    minimum: u32,
    (sources, targets): (&[usize], &[usize]),
) -> Result<(), LookError> {
    let pairs = targets.iter().flat_map(|&target| sources.iter().map(move |&source| (source, target)));
    compare(candidates, contents, pairs, minimum)?;
    let known = &*candidates;
    let best = crew::map(
        ("compare", &Tuning::default()),
        targets,
        |_| 1 + sources.len() / COMPARISONS_PER_STEP,
        &Mutex::new(Vec::new()),
        |_| (),
        |(), &target| Ok::<_, LookError>(best_of(known, sources, target, minimum)),
    )?;
    let mut best: Vec<Scored> = best.into_iter().flatten().collect();
    best.sort_by_key(|scored| Reverse(scored.worth));
    let passes: &[bool] = if candidates.detect == Detect::Copies { &[false, true] } else { &[false] };
    for &may_be_used in passes {
        for scored in best.iter().take_while(|scored| scored.worth.0 >= minimum) {
            let is_free = may_be_used || candidates.sources[scored.source].used == 0;
            if is_free && candidates.targets[scored.target].from.is_none() {
                candidates.record(scored.target, scored.source, scored.worth.0);
            }
        }
    }
    Ok(())
}

/// The best few sources of a target. Among equals the first, and each in the place of the one it supplanted: both show in the pairs.
fn best_of(candidates: &Candidates, sources: &[usize], target: usize, minimum: u32) -> Vec<Scored> {
    let mut best: Vec<Scored> = Vec::with_capacity(REMEMBERED);
    let file = &candidates.targets[target].file;
    for &source in sources {
        let other = &candidates.sources[source].file;
        let is_same_name = basename(other.path.as_bstr()) == basename(file.path.as_bstr());
        let scored = Scored { source, target, worth: (score(other, file, minimum), is_same_name) };
        if best.len() < REMEMBERED {
            best.push(scored);
            continue;
        }
        let worst =
            (1..REMEMBERED).fold(0, |worst, at| if best[at].worth < best[worst].worth { at } else { worst });
        if best[worst].worth < scored.worth {
            best[worst] = scored;
        }
    }
    best
}
