//! Which pairs have to do with a text or with objects: Git's pickaxe.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Index};
use repo::Repository;
use sys::{Dir, Regex};

use super::{
    Pair, Side, lines,
    renames::contents::{Contents, File, Kind},
};
use crate::look::LookError;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Needle<'a> {
    /// A text that is not as often on the one side as on the other (`-S`). No pair is binary to it.
    Text(&'a BStr),
    /// What matches, and is not as often on the one side as on the other (`--pickaxe-regex`).
    Matches(&'a Regex),
    /// What a line matches that a diff removes or adds (`-G`). What is binary has no lines.
    Lines(&'a Regex),
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
    /// One pair that has to do with it is enough (`--pickaxe-all`).
    pub is_one_enough: bool,
    /// No renames were looked for, and so each file is read now, and what is said of line ends that would not come back is known.
    pub tells: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Whether each pair has to do with it.
    pub pairs: Vec<bool>,
    /// What is to be said on standard error: whole lines.
    pub messages: Vec<String>,
}

/// Which of `pairs` have to do with it.
pub fn find(
    repo: &Repository,
    pairs: &[Pair],
    needle: Needle<'_>,
    haystack: &Haystack<'_>,
) -> Result<Found, LookError> {
    match needle {
        Needle::Objects(objects) => {
            // What has no name has that of nothing.
            let name = |side: Side| side.oid.unwrap_or(ObjectId::null(repo.hash()));
            let is_one = |side: Option<Side>| side.is_some_and(|side| objects.contains(&name(side)));
            let found = pairs.iter().map(|pair| is_one(pair.old) || is_one(pair.new)).collect();
            Ok(Found { pairs: found, messages: Vec::new() })
        }
        Needle::Text(text) => {
            let count = |content: &[u8]| content.find_iter(text).count();
            changed(repo, pairs, Kind::Any, |old, new| count(old) != count(new), haystack)
        }
        Needle::Matches(regex) => {
            let count = |content: &[u8]| matches(content, regex);
            changed(repo, pairs, Kind::Any, |old, new| count(old) != count(new), haystack)
        }
        Needle::Lines(regex) => {
            let is_sought = |line: &[u8]| is_match(line, regex);
            changed(repo, pairs, Kind::Text, |old, new| lines::differ(old, new, is_sought), haystack)
        }
    }
}

/// Whether a line matches. Git gives one its end if it has none.
fn is_match(line: &[u8], regex: &Regex) -> bool {
    match line.ends_with(b"\n") {
        true => regex.find(line, true).is_some(),
        false => regex.find(&[line, b"\n"].concat(), true).is_some(),
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

/// As [`judge`]. A directory that differs (`-t`, in a sparse index) has no text, of which Git dies, unless what comes before it is enough.
fn changed(
    repo: &Repository,
    pairs: &[Pair],
    kind: Kind,
    differ: impl Fn(&[u8], &[u8]) -> bool + Sync,
    haystack: &Haystack<'_>,
) -> Result<Found, LookError> {
    let is_directory = |side: Side| side.mode.is_tree();
    let differs_as_one = |pair: &Pair| {
        !pair.is_unchanged() && (pair.old.is_some_and(is_directory) || pair.new.is_some_and(is_directory))
    };
    let Some(directory) = pairs.iter().position(differs_as_one) else {
        return judge(repo, pairs, kind, differ, haystack);
    };
    let mut found = match haystack.is_one_enough {
        true => judge(repo, &pairs[..directory], kind, differ, haystack)?,
        false => Found::default(),
    };
    if !found.pairs.contains(&true) {
        return Err(repo::Error::new(String::from("unable to read files to diff")).into());
    }
    found.pairs.resize(pairs.len(), false);
    Ok(found)
}

/// Whether `differ` is true of each of `pairs` that may differ; a side that is not there is empty.
fn judge(
    repo: &Repository,
    pairs: &[Pair],
    kind: Kind,
    differ: impl Fn(&[u8], &[u8]) -> bool + Sync,
    haystack: &Haystack<'_>,
) -> Result<Found, LookError> {
    let mut both: Vec<[Option<File>; 2]> = Vec::new();
    let mut places = Vec::new();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| !pair.is_unchanged()) {
        let source = pair.source.as_ref().unwrap_or(&pair.path);
        let sides = [(source, pair.old, haystack.is_reversed), (&pair.path, pair.new, !haystack.is_reversed)];
        both.push(sides.map(|(path, side, may_be_dirty)| {
            let side = side?;
            let in_worktree = side.oid.is_none_or(|oid| haystack.hashed.contains(&(path.clone(), oid)));
            Some(File::alone(at, path, side, in_worktree, may_be_dirty && pair.dirt.is_within()))
        }));
        places.push(at);
    }
    let mut found = Found { pairs: vec![false; pairs.len()], messages: Vec::new() };
    let contents = match haystack.tells {
        true => Contents::telling(repo, haystack.worktree),
        false => Contents::new(repo, Some(haystack.worktree)),
    };
    let mut is_enough = false;
    for (at, (is_one, said)) in places.into_iter().zip(contents.judge(&both, kind, differ)?) {
        found.pairs[at] = is_one;
        if haystack.tells && !is_enough {
            found.messages.extend(said);
        }
        is_enough |= is_one && haystack.is_one_enough;
    }
    Ok(found)
}
