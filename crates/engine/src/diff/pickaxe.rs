//! Which pairs have to do with a text or with objects: Git's pickaxe.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Index};
use repo::Repository;
use sys::{Dir, Regex};

use super::{
    Pair, Side,
    renames::contents::{Contents, File},
};
use crate::checkout::PlanError;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Needle<'a> {
    /// A text that is not as often on the one side as on the other (`-S`). No pair is binary to it.
    Text(&'a BStr),
    /// What matches, and is not as often on the one side as on the other (`--pickaxe-regex`).
    Matches(&'a Regex),
    /// One of these on either side (`--find-object`).
    Objects(&'a [ObjectId]),
}

/// Where it is looked for.
pub struct Haystack<'a> {
    /// Where sides are that have no name yet, and the index whose attributes they fall back to.
    pub worktree: (&'a Dir, &'a Index),
    /// Sides that have a name and are in the worktree all the same ([`super::renames::Detected::hashed`]).
    pub hashed: &'a HashSet<(BString, ObjectId)>,
    /// The worktree is the old side (`-R`).
    pub is_reversed: bool,
}

/// Whether each of `pairs` has to do with it.
pub fn find(
    repo: &Repository,
    pairs: &[Pair],
    needle: Needle<'_>,
    haystack: &Haystack<'_>,
) -> Result<Vec<bool>, PlanError> {
    match needle {
        Needle::Objects(objects) => {
            // What has no name has that of nothing.
            let name = |side: Side| side.oid.unwrap_or(ObjectId::null(repo.hash()));
            let is_one = |side: Option<Side>| side.is_some_and(|side| objects.contains(&name(side)));
            Ok(pairs.iter().map(|pair| is_one(pair.old) || is_one(pair.new)).collect())
        }
        Needle::Text(text) => changed(repo, pairs, |content| content.find_iter(text).count(), haystack),
        Needle::Matches(regex) => changed(repo, pairs, |content| matches(content, regex), haystack),
    }
}

/// How often a content matches. Only what begins it begins a line for what comes behind a match.
fn matches(content: &[u8], regex: &Regex) -> usize {
    let (mut rest, mut count) = (content, 0);
    while !rest.is_empty()
        && let Some(found) = regex.find(rest, count == 0)
    {
        count += 1;
        let step = usize::from(found.is_empty() && found.end < rest.len());
        rest = &rest[found.end + step..];
    }
    count
}

fn changed(
    repo: &Repository,
    pairs: &[Pair],
    count: impl Fn(&[u8]) -> usize + Sync,
    haystack: &Haystack<'_>,
) -> Result<Vec<bool>, PlanError> {
    let mut files: Vec<File> = Vec::new();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| !pair.is_unchanged()) {
        let source = pair.source.as_ref().unwrap_or(&pair.path);
        let sides = [(source, pair.old, haystack.is_reversed), (&pair.path, pair.new, !haystack.is_reversed)];
        for (path, side, may_be_dirty) in sides {
            let Some(side) = side else { continue };
            let in_worktree = side.oid.is_none_or(|oid| haystack.hashed.contains(&(path.clone(), oid)));
            files.push(File::alone(at, path, side, in_worktree, may_be_dirty && pair.dirt.is_within()));
        }
    }
    let contents = Contents::new(repo, Some(haystack.worktree));
    let counts = contents.count(&files.iter_mut().collect::<Vec<_>>(), count)?;
    let mut sums = vec![[0; 2]; pairs.len()];
    let mut is_seen = vec![false; pairs.len()];
    for (file, count) in files.iter().zip(counts) {
        // A side that is not there has none.
        let is_old = !is_seen[file.pair] && pairs[file.pair].old.is_some();
        is_seen[file.pair] = true;
        sums[file.pair][usize::from(!is_old)] = count;
    }
    Ok(sums.into_iter().map(|[old, new]| old != new).collect())
}
