//! The selection of pairs by a text or an object: Git's pickaxe.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;
use sys::Regex;

use super::{
    Pair, Side, WorktreeFiles, lines,
    renames::contents::{Contents, File, Kind},
};
use crate::look::LookError;

/// The search term.
#[derive(Clone, Copy, Debug)]
pub enum Needle<'a> {
    /// A text whose number of occurrences differs between the sides (`-S`). Binary files are
    /// searched too.
    Text(&'a BStr),
    /// A pattern whose number of matches differs between the sides (`--pickaxe-regex`).
    Matches(&'a Regex),
    /// A pattern that matches a line that a diff removes or adds (`-G`). Binary files have no
    /// lines.
    Lines(&'a Regex),
    /// Objects. A pair is selected if one of them is on either side (`--find-object`).
    Objects(&'a [ObjectId]),
}

/// The files to search.
pub struct Haystack<'a> {
    /// The worktree that holds sides without an object name, and the index whose attributes apply
    /// where the worktree has none.
    pub worktree: WorktreeFiles<'a>,
    /// Worktree files that already have an object name ([`super::renames::Detected::hashed`]).
    pub hashed: &'a HashSet<(BString, ObjectId)>,
    /// True if the worktree is the old side (`-R`).
    pub is_reversed: bool,
    /// True if one selected pair selects all (`--pickaxe-all`).
    pub any_selects_all: bool,
    /// True if no rename detection ran, so that the search is the first to read the files. It then
    /// returns warnings about line ends that would not round-trip.
    pub warns: bool,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// For each pair, true if it is selected.
    pub pairs: Vec<bool>,
    /// Lines for standard error.
    pub messages: Vec<String>,
}

/// Finds the selected pairs.
pub fn find(
    repo: &Repository,
    pairs: &[Pair],
    needle: Needle<'_>,
    haystack: &Haystack<'_>,
) -> Result<Found, LookError> {
    match needle {
        Needle::Objects(objects) => {
            // A side without an object name is compared as the null object ID.
            let name = |side: Side| side.oid.unwrap_or(ObjectId::null(repo.hash()));
            let is_one = |side: Option<Side>| side.is_some_and(|side| objects.contains(&name(side)));
            let found = pairs.iter().map(|pair| is_one(pair.old) || is_one(pair.new)).collect();
            Ok(Found { pairs: found, messages: Vec::new() })
        }
        Needle::Text(text) => {
            let count = |content: &[u8]| content.find_iter(text).count();
            evaluate_files(repo, pairs, Kind::Any, |old, new| count(old) != count(new), haystack)
        }
        Needle::Matches(regex) => {
            let count = |content: &[u8]| matches(content, regex);
            evaluate_files(repo, pairs, Kind::Any, |old, new| count(old) != count(new), haystack)
        }
        Needle::Lines(regex) => {
            let is_sought = |line: &[u8]| is_match(line, regex);
            evaluate_files(
                repo,
                pairs,
                Kind::Text,
                |old, new| lines::changes_sought_line(old, new, is_sought),
                haystack,
            )
        }
    }
}

/// Returns true if a line matches. Like Git, it adds a missing line end.
fn is_match(line: &[u8], regex: &Regex) -> bool {
    if line.ends_with(b"\n") {
        regex.find(line, true).is_some()
    } else {
        regex.find(&[line, b"\n"].concat(), true).is_some()
    }
}

/// Counts the matches in a content. `^` does not match where the previous match ended.
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

/// Like [`evaluate`]. A changed directory (`-t`, in a sparse index) has no content. Git fails at
/// it, unless an earlier pair already selects all.
fn evaluate_files(
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
        return evaluate(repo, pairs, kind, differ, haystack);
    };
    let mut found = if haystack.any_selects_all {
        evaluate(repo, &pairs[..directory], kind, differ, haystack)?
    } else {
        Found::default()
    };
    if !found.pairs.contains(&true) {
        return Err(repo::Error::new(String::from("unable to read files to diff")).into());
    }
    found.pairs.resize(pairs.len(), false);
    Ok(found)
}

/// Evaluates `differ` on the contents of each pair that may differ. A missing side is empty.
fn evaluate(
    repo: &Repository,
    pairs: &[Pair],
    kind: Kind,
    differ: impl Fn(&[u8], &[u8]) -> bool + Sync,
    haystack: &Haystack<'_>,
) -> Result<Found, LookError> {
    let mut both: Vec<[Option<File>; 2]> = Vec::new();
    let mut positions = Vec::new();
    for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| !pair.is_unchanged()) {
        let source = pair.source.as_ref().unwrap_or(&pair.path);
        let sides = [(source, pair.old, haystack.is_reversed), (&pair.path, pair.new, !haystack.is_reversed)];
        both.push(sides.map(|(path, side, may_be_dirty)| {
            let side = side?;
            let in_worktree = side.oid.is_none_or(|oid| haystack.hashed.contains(&(path.clone(), oid)));
            Some(File::for_content(
                at,
                path,
                side,
                in_worktree,
                may_be_dirty && pair.submodule_changes.is_within(),
            ))
        }));
        positions.push(at);
    }
    let mut found = Found { pairs: vec![false; pairs.len()], messages: Vec::new() };
    let contents = if haystack.warns {
        Contents::with_warnings(repo, haystack.worktree)
    } else {
        Contents::new(repo, Some(haystack.worktree))
    };
    let mut is_enough = false;
    for (at, (is_one, warnings)) in positions.into_iter().zip(contents.evaluate(&both, kind, differ)?) {
        found.pairs[at] = is_one;
        if haystack.warns && !is_enough {
            found.messages.extend(warnings);
        }
        is_enough |= is_one && haystack.any_selects_all;
    }
    Ok(found)
}
