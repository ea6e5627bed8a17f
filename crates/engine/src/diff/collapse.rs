//! The display of differences between a tree and a sparse index. A directory outside of the sparse
//! patterns is shown as one entry, as Git shows it.

use bstr::{BStr, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Index, Stage},
};
use repo::{Repository, objects::Kind};

use super::{Pair, Side};
use crate::look::{
    LookError,
    pathspec::{Pathspecs, Seen},
    sparse::{self, Patterns},
};

/// The level of detail within a collapsed directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Directories below a directory entry are pairs themselves.
    Directories,
    /// Only files are pairs (`-r`).
    Files,
    /// Files and their parent directories are pairs (`-t`).
    Both,
}

/// A sparse index and the patterns that define it. A pathspec selects a directory entry either
/// completely or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Collapsed<'a> {
    /// The sparse index.
    pub index: &'a Index,
    /// The patterns. A directory outside of them is one directory entry.
    pub patterns: &'a Patterns,
}

impl Collapsed<'_> {
    /// Turns `pairs`, the differences between `tree` and the expanded index, into the pairs that
    /// Git shows.
    pub fn collapse(
        &self,
        repo: &Repository,
        tree: ObjectId,
        pairs: Vec<Pair>,
        pathspecs: &Pathspecs,
        depth: Depth,
    ) -> Result<Vec<Pair>, LookError> {
        let mut shown: Vec<Pair> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let Some((start, indexed_tree)) = self.directory(&pair) else {
                shown.push(pair);
                continue;
            };
            if !selects(pathspecs, pair.path[..start].as_bstr()) {
                continue;
            }
            let ends = pair.path[start..].find_iter(b"/").map(|slash| start + slash);
            let ends: Vec<usize> = match depth {
                Depth::Files => Vec::new(),
                Depth::Directories => ends.take(1).collect(),
                Depth::Both => ends.collect(),
            };
            for &end in &ends {
                let path = pair.path[..end].as_bstr();
                let is_of = |shown: &Pair| {
                    let below = shown.path.strip_prefix(path.as_bytes());
                    below.is_some_and(|below| {
                        below.is_empty() && is_directory(shown) || below.starts_with(b"/")
                    })
                };
                if shown.last().is_none_or(|last| !is_of(last)) {
                    let old = directory(repo, Some(tree), path)?;
                    let new = directory(repo, indexed_tree, path[start..].as_bstr())?;
                    shown.push(Pair::new(path.to_owned(), old, new));
                }
            }
            if depth != Depth::Directories || ends.is_empty() {
                shown.push(pair);
            }
        }
        Ok(shown)
    }

    /// Returns true if the pathspecs select the pair's collapsed directory. Returns `None` if the
    /// pair is in no collapsed directory.
    pub(super) fn selects_directory(&self, pair: &Pair, pathspecs: &Pathspecs) -> Option<bool> {
        let (end, _) = self.directory(pair)?;
        Some(selects(pathspecs, pair.path[..end].as_bstr()))
    }

    /// Returns the length of the path of the pair's collapsed directory, with the slash, and the
    /// directory's tree in the index.
    fn directory(&self, pair: &Pair) -> Option<(usize, Option<ObjectId>)> {
        let index = self.index;
        let path = pair.path.as_bstr();
        let mut ends = path.find_iter(b"/").map(|slash| slash + 1);
        if sparse::is_inside(index, path) {
            let position = |end: usize| index.position(path[..end].as_bstr(), Stage::Normal).ok();
            return ends.find_map(|end| Some((end, Some(index.entry(position(end)?).oid))));
        }
        let is_empty_in_index = |end: usize| {
            let dir = path[..end - 1].as_bstr();
            index.range_of(dir).is_empty() && index.range_below(dir).is_empty()
        };
        let is_new = |end: &usize| !self.patterns.includes(path[..*end].as_bstr()) && is_empty_in_index(*end);
        let is_gone = pair.old.is_some() && pair.new.is_none();
        ends.find(is_new).filter(|_| is_gone).map(|end| (end, None))
    }
}

fn selects(pathspecs: &Pathspecs, dir: &BStr) -> bool {
    pathspecs.is_empty() || pathspecs.matches(dir, &mut Seen::default())
}

fn is_directory(pair: &Pair) -> bool {
    pair.old.or(pair.new).is_some_and(|side| side.mode.is_tree())
}

fn directory(repo: &Repository, tree: Option<ObjectId>, path: &BStr) -> Result<Option<Side>, LookError> {
    let found = tree.map(|tree| repo.lookup_path(tree, path)).transpose()?.flatten();
    let is_tree = |oid: &ObjectId| repo.objects().header(oid).is_ok_and(|(kind, _)| kind == Kind::Tree);
    Ok(found.filter(is_tree).map(|oid| Side { mode: Mode::TREE, oid: Some(oid) }))
}
