//! A tree against a sparse index: what Git shows of directories that are one entry of it, or would be if it had anything of them.

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

/// How deep is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Directories in a directory that is one entry are pairs themselves.
    Directories,
    /// Down to the files (`-r`).
    Files,
    /// Down to the files, and the directories on the way are pairs, too (`-t`).
    Both,
}

/// A sparse index, and what it should hold: its directories are meant as a whole or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Collapsed<'a> {
    /// As it is.
    pub index: &'a Index,
    /// What is outside of them is a directory as a whole.
    pub patterns: &'a Patterns,
}

impl Collapsed<'_> {
    /// Makes of `pairs`, the differences between `tree` and the index in full, what Git shows.
    pub fn shape(
        &self,
        repo: &Repository,
        tree: ObjectId,
        pairs: Vec<Pair>,
        pathspecs: &Pathspecs,
        depth: Depth,
    ) -> Result<Vec<Pair>, LookError> {
        let mut shown: Vec<Pair> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let Some((start, held)) = self.directory(&pair) else {
                shown.push(pair);
                continue;
            };
            if !means(pathspecs, pair.path[..start].as_bstr()) {
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
                    let new = directory(repo, held, path[start..].as_bstr())?;
                    shown.push(Pair::new(path.to_owned(), old, new));
                }
            }
            if depth != Depth::Directories || ends.is_empty() {
                shown.push(pair);
            }
        }
        Ok(shown)
    }

    /// Whether a pair is meant, if its directory decides.
    pub(super) fn decides(&self, pair: &Pair, pathspecs: &Pathspecs) -> Option<bool> {
        let (end, _) = self.directory(pair)?;
        Some(means(pathspecs, pair.path[..end].as_bstr()))
    }

    /// Where the path of its directory ends, with the slash, and the tree that the index has there.
    fn directory(&self, pair: &Pair) -> Option<(usize, Option<ObjectId>)> {
        let index = self.index;
        let path = pair.path.as_bstr();
        let mut ends = path.find_iter(b"/").map(|slash| slash + 1);
        if sparse::is_inside(index, path) {
            let position = |end: usize| index.position(path[..end].as_bstr(), Stage::Normal).ok();
            return ends.find_map(|end| Some((end, Some(index.entries()[position(end)?].oid))));
        }
        let has_nothing = |end: usize| {
            let dir = path[..end - 1].as_bstr();
            index.range_of(dir).is_empty() && index.range_below(dir).is_empty()
        };
        let is_new = |end: &usize| !self.patterns.includes(path[..*end].as_bstr()) && has_nothing(*end);
        let is_gone = pair.old.is_some() && pair.new.is_none();
        ends.find(is_new).filter(|_| is_gone).map(|end| (end, None))
    }
}

fn means(pathspecs: &Pathspecs, dir: &BStr) -> bool {
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
