//! Collapses an index: directories that lie completely outside of a cone become one entry each.

use std::ops::Range;

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{CacheTree, Flags, Index, Stage},
};

use super::{
    Patterns,
    expand::{replace, skipped},
};
use crate::look::cache_tree;

/// A directory (without a slash at the end) and the range of its entries.
type Directory = (BString, Range<usize>);

/// Returns the topmost directories outside of the cone whose entries are all merged and skipped,
/// and neither submodules nor intent-to-add entries. Empty if the patterns are not a cone.
///
/// `before` is the sparse index from which this one was made. Git does not collapse directories
/// that had entries of their own in the sparse index, so these stay expanded.
pub fn directories(index: &Index, patterns: &Patterns, before: Option<&Index>) -> Vec<Directory> {
    let is_whole = |dir: &BStr, _: &Range<usize>| before.is_none_or(|before| !has_entries(before, dir));
    choose(index, patterns, &is_whole)
}

/// Returns the topmost directories outside of the cone for which `is_whole` returns true.
fn choose(
    index: &Index,
    patterns: &Patterns,
    is_whole: &dyn Fn(&BStr, &Range<usize>) -> bool,
) -> Vec<Directory> {
    let mut found = Vec::new();
    if patterns.cone().is_some() {
        let visitor = Visitor { index, patterns, is_whole };
        visitor.visit(0, 0..index.len(), &mut found);
    }
    found
}

struct Visitor<'a> {
    index: &'a Index,
    patterns: &'a Patterns,
    is_whole: &'a dyn Fn(&BStr, &Range<usize>) -> bool,
}

impl Visitor<'_> {
    /// Visits the entries in `range`. Their paths share the first `prefix` bytes, which are a
    /// directory with its slash.
    fn visit(&self, prefix: usize, range: Range<usize>, found: &mut Vec<Directory>) {
        let index = self.index;
        let mut at = range.start;
        while at < range.end {
            let path = index.path_at(at);
            let Some(slash) = path[prefix..].find_byte(b'/') else {
                at += 1;
                continue;
            };
            let dir = path[..prefix + slash + 1].as_bstr();
            let entries = &index.entries()[at..range.end];
            let below = at..at + entries.partition_point(|entry| index.path(entry).starts_with(dir));
            let name = dir[..dir.len() - 1].as_bstr();
            let are_skipped = || index.entries()[below.clone()].iter().all(is_skipped);
            at = below.end;
            if !self.patterns.includes(dir) && are_skipped() && (self.is_whole)(name, &below) {
                found.push((name.to_owned(), below));
            } else {
                self.visit(dir.len(), below, found);
            }
        }
    }
}

/// Returns true if `dir` is a file, or has entries below it other than its own directory entry.
fn has_entries(index: &Index, dir: &BStr) -> bool {
    let entries = &index.entries()[index.range_below(dir)];
    !index.range_of(dir).is_empty() || entries.iter().any(|entry| index.path(entry).len() > dir.len() + 1)
}

fn is_skipped(entry: &format::index::Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_gitlink()
        && entry.flags.contains(Flags::SKIP_WORKTREE)
        && !entry.flags.contains(Flags::INTENT_TO_ADD)
}

/// The object database that contains the trees and stores new ones.
pub trait Trees {
    /// Returns true if the tree exists.
    fn has(&self, oid: &ObjectId) -> bool;
    /// Writes the tree with this object ID and content. Returns true on success.
    fn make(&self, oid: &ObjectId, content: &[u8]) -> bool;
}

/// Collapses `index`: each of its [`directories`] becomes one entry. Returns the full index, or
/// `None` if the index stays full.
///
/// A full index that is empty or unmerged stays full. Otherwise all missing trees of the index are
/// written first. If one cannot be written, the index stays full. If the index was sparse `before`,
/// it becomes sparse again even if it is unmerged: directories collapse if their tree exists.
pub fn collapse(
    index: &mut Index,
    patterns: &Patterns,
    before: Option<&Index>,
    trees: &dyn Trees,
) -> Option<Index> {
    let is_whole_index = !index.is_empty() && !index.is_unmerged();
    if patterns.cone().is_none() || before.is_none() && !is_whole_index {
        return None;
    }
    let is_true = |node: &CacheTree| is_valid(node, trees);
    if before.is_none() && !index.cache_tree.as_ref().is_some_and(is_true) {
        index.cache_tree = None;
    }
    cache_tree::complete(index, &|oid, content| {
        if before.is_none() { trees.make(oid, content) } else { trees.has(oid) }
    });
    let mut cached = index.cache_tree.clone();
    let tree_of = |dir: &BStr, range: &Range<usize>| {
        let known = index.cache_tree.as_ref().and_then(|root| root.find(dir)?.valid);
        let known = known.filter(|(oid, count)| *count as usize == range.len() && trees.has(oid));
        known.or_else(|| cache_tree::of_directory(index, dir, range.clone(), &|oid, _| trees.has(oid)).valid)
    };
    let chosen = match before {
        None => directories(index, patterns, None),
        Some(before) => {
            choose(index, patterns, &|dir, range| !has_entries(before, dir) && tree_of(dir, range).is_some())
        }
    };
    let mut sparse = Vec::with_capacity(chosen.len());
    for (dir, range) in chosen {
        let (oid, count) = tree_of(dir.as_bstr(), &range)?;
        if let Some(root) = &mut cached {
            let name = dir.rfind_byte(b'/').map_or(dir.as_bstr(), |slash| dir[slash + 1..].as_bstr());
            let node = CacheTree::with(name, Some((oid, 1)));
            replace(root, dir.as_bstr(), count, node);
        }
        sparse.push((dir, range, oid));
    }
    let full = index.clone();
    *index = index.successor();
    let mut at = 0;
    let push = |index: &mut Index, range: Range<usize>| {
        full.entries()[range].iter().for_each(|entry| index.push(full.path(entry), entry.content()));
    };
    for (mut dir, range, oid) in sparse {
        push(index, at..range.start);
        dir.push(b'/');
        index.push(dir.as_bstr(), skipped(Mode::TREE, oid));
        at = range.end;
    }
    push(index, at..full.len());
    index.cache_tree = cached;
    index.sparse = true;
    Some(full)
}

/// Returns true if all trees of the node exist.
fn is_valid(node: &CacheTree, trees: &dyn Trees) -> bool {
    node.valid.is_some_and(|(oid, _)| trees.has(&oid))
        && node.children().iter().all(|child| is_valid(child, trees))
}
