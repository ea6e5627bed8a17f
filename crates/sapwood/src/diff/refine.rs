//! Renames and rewrites among pairs, the search in them, their order, and the filter.

use bstr::{BString, ByteSlice as _};
use engine::diff::{
    Pair, Status, WorktreeFiles,
    pickaxe::{self, Haystack},
    renames::{self, Detected},
    rewrites,
};
use repo::{Repository, keys};
use sys::Regex;

use super::{Needle, Report, Request, order};
use crate::{Context, Error, Notice, text};

/// Finds renames among the pairs, and puts them into the order of the request.
pub(super) fn refine(
    context: Context<'_>,
    request: &Request,
    worktree: WorktreeFiles<'_>,
    mut pairs: Vec<Pair>,
) -> Result<Report, Error> {
    let repo = context.repo;
    let tell = |messages: Vec<String>| {
        messages.into_iter().for_each(|message| context.events.notice(Notice::Converter(message)));
    };
    pairs.retain(|pair| pair.path.starts_with(&request.base));
    if request.quick {
        keep_first_difference(&mut pairs, request.tree.is_some() && !request.cached);
    }
    if request.reverse {
        pairs = pairs.into_iter().map(Pair::reversed).collect();
    }
    // The number of Git's warnings about the line endings of a file is the number of times that Git
    // reads the file, which is unknown during a search for renames.
    let warns = request.detect.is_none();
    if let Some(scores) = request.rewrites {
        let messages;
        (pairs, messages) = rewrites::split(repo, pairs, scores, worktree, warns)?;
        tell(messages);
    }
    let Detected { mut pairs, mut uses, hashed, skipped } = detect(repo, request, worktree, pairs)?;
    if request.rewrites.is_some() {
        pairs = rewrites::join(pairs, &mut uses);
    }
    if let Some(needle) = &request.needle {
        let haystack = Haystack {
            worktree,
            hashed: &hashed,
            is_reversed: request.reverse,
            any_selects_all: request.all_if_any,
            warns,
        };
        tell(search(repo, request, needle, &haystack, &mut pairs)?);
    }
    order::arrange(repo, request, &mut pairs)?;
    uses.mark_copies(&mut pairs);
    let unknown = pairs.iter().filter(|pair| pair.status == Status::Unknown);
    let unknown: Vec<BString> = unknown.map(|pair| pair.path.clone()).collect();
    let filter = &request.filter;
    let is_taken = |pair: &Pair| filter.takes(pair.class());
    if !filter.is_all_or_none() {
        pairs.retain(is_taken);
    } else if !pairs.iter().any(is_taken) {
        pairs.clear();
    }
    Ok(Report { pairs, unknown, skipped })
}

fn detect(
    repo: &Repository,
    request: &Request,
    worktree: WorktreeFiles<'_>,
    pairs: Vec<Pair>,
) -> Result<Detected, Error> {
    let Some(detect) = request.detect else { return Ok(Detected { pairs, ..Detected::default() }) };
    let configured = repo.config(&keys::diff::RENAME_LIMIT)?;
    let configured = configured.map(|limit| usize::try_from(limit).unwrap_or(0));
    let options = renames::Options {
        detect,
        minimum: request.minimum,
        limit: request.limit.or(configured).unwrap_or(renames::DEFAULT_LIMIT),
        empty: request.empty,
        worktree: Some(worktree),
    };
    Ok(renames::detect(repo, pairs, &options)?)
}

/// Keeps the pairs that Git has found when it stops at the first difference. Between a tree and the
/// worktree, Git compares the paths of the tree first.
fn keep_first_difference(pairs: &mut Vec<Pair>, is_of_trees_first: bool) {
    if is_of_trees_first {
        pairs.sort_by_key(|pair| pair.old.is_none());
    }
    let first = pairs.iter().position(|pair| pair.status != Status::Unmerged);
    pairs.truncate(first.map_or(pairs.len(), |first| first + 1));
}

/// Keeps the pairs that match the search, or all pairs ([`Request::all_if_any`]) if any pair
/// matches. Returns messages about files.
fn search(
    repo: &Repository,
    request: &Request,
    needle: &Needle,
    haystack: &Haystack<'_>,
    pairs: &mut Vec<Pair>,
) -> Result<Vec<String>, Error> {
    let regex;
    let needle = match needle {
        Needle::Text(text) => pickaxe::Needle::Text(text.as_bstr()),
        Needle::Matches(pattern) => {
            regex = compile(pattern)?;
            pickaxe::Needle::Matches(&regex)
        }
        Needle::Lines(pattern) => {
            regex = compile(pattern)?;
            pickaxe::Needle::Lines(&regex)
        }
        Needle::Objects(objects) => pickaxe::Needle::Objects(objects),
    };
    let found = pickaxe::find(repo, pairs, needle, haystack)?;
    if !request.all_if_any || !found.pairs.contains(&true) {
        let mut found = found.pairs.into_iter();
        pairs.retain(|_| found.next().unwrap_or(false));
    }
    Ok(found.messages)
}

fn compile(pattern: &BString) -> Result<Regex, Error> {
    Regex::new(pattern).map_err(|message| Error::Failed(text!("invalid regex: ", message)))
}
