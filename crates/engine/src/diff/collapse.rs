//! A tree against a sparse index: what Git shows of directories that are one entry of it.

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Index, Stage},
};
use repo::{Repository, objects::Kind};

use super::{Pair, Side};
use crate::{
    checkout::PlanError,
    pathspec::{Pathspecs, Seen},
    sparse,
};

/// How deep is looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Directories in a directory that is one entry are pairs themselves.
    Directories,
    /// Down to the files (`-r`).
    Files,
}

/// Makes of `pairs`, the differences between `tree` and a full index, what Git shows of the sparse one, which it was `before`: a directory that is one
/// entry is meant as a whole or not at all.
pub fn collapse(
    repo: &Repository,
    before: &Index,
    tree: ObjectId,
    pairs: Vec<Pair>,
    pathspecs: &Pathspecs,
    depth: Depth,
) -> Result<Vec<Pair>, PlanError> {
    let mut shown: Vec<Pair> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let Some(dir) = directory_of(before, pair.path.as_bstr()) else {
            shown.push(pair);
            continue;
        };
        if !pathspecs.is_empty() && !pathspecs.matches(before.path_at(dir), &mut Seen::default()) {
            continue;
        }
        let start = before.path_at(dir).len();
        let Some(end) = pair.path[start..].find_byte(b'/').filter(|_| depth == Depth::Directories) else {
            shown.push(pair);
            continue;
        };
        let path: BString = pair.path[..start + end].into();
        if shown.last().is_some_and(|last| last.path == path && is_directory(last)) {
            continue;
        }
        let old = directory(repo, tree, path.as_bstr())?;
        let new = directory(repo, before.entries()[dir].oid, path[start..].as_bstr())?;
        shown.push(Pair::new(path, old, new));
    }
    Ok(shown)
}

fn is_directory(pair: &Pair) -> bool {
    pair.old.or(pair.new).is_some_and(|side| side.mode.is_tree())
}

/// The entry that stands for a directory in which `path` is.
fn directory_of(index: &Index, path: &BStr) -> Option<usize> {
    if !sparse::is_inside(index, path) {
        return None;
    }
    let ends = path.find_iter(b"/").map(|slash| slash + 1);
    ends.filter_map(|end| index.position(path[..end].as_bstr(), Stage::Normal).ok()).next()
}

fn directory(repo: &Repository, tree: ObjectId, path: &BStr) -> Result<Option<Side>, PlanError> {
    let found = repo.lookup_path(tree, path)?;
    let is_tree = |oid: &ObjectId| repo.objects().header(oid).is_ok_and(|(kind, _)| kind == Kind::Tree);
    Ok(found.filter(is_tree).map(|oid| Side { mode: Mode::TREE, oid: Some(oid) }))
}
