//! Decides which directories of a sparse index stay collapsed while trees are merged into it or
//! compared with it.
//!
//! For a directory outside of the cone, the result of such a merge is usually a tree again: none of
//! its files is in the worktree, and nothing in it is examined. Only the other directories are
//! expanded.

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    index::{CacheTree, Index},
};
use repo::{Repository, objects::Reader};

use super::expand::{collapsed, expand_some, list, replace};
use crate::look::LookError;

/// The use of a directory in an operation that compares trees with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The operation does not affect the directory, which stays unchanged.
    None,
    /// The operation needs the single files in the directory.
    Files,
    /// The directory is compared with the one in this tree.
    Compare(ObjectId),
    /// The directory becomes that of this tree.
    OneWay(ObjectId),
    /// The directory is switched from the first tree to the second.
    TwoWay(ObjectId, ObjectId),
}

impl Purpose {
    /// Returns the new tree of a directory whose current tree is `held`, or `None` if the operation
    /// needs its single files.
    fn tree(self, held: ObjectId, dir: &BStr, trees: &mut Trees<'_>) -> Result<Option<ObjectId>, LookError> {
        Ok(match self {
            Purpose::None => Some(held),
            Purpose::Files => None,
            Purpose::Compare(tree) => trees.find(tree, dir)?.filter(|found| *found == held),
            Purpose::OneWay(target) => trees.find(target, dir)?,
            Purpose::TwoWay(head, target) => match (trees.find(head, dir)?, trees.find(target, dir)?) {
                (Some(old), Some(new)) if old == new => Some(held),
                (Some(old), Some(new)) if old == held => Some(new),
                _ => None,
            },
        })
    }
}

/// Expands the collapsed directories whose single files are needed. The others stay collapsed, with
/// their new trees. `purpose` is called with the path of a directory, which has a slash at the end.
pub fn settle(
    repo: &Repository,
    index: &mut Index,
    purpose: &dyn Fn(&BStr) -> Purpose,
) -> Result<(), LookError> {
    let mut trees = Trees { reader: repo.objects().reader(), read: HashMap::new() };
    let dirs: Vec<BString> = collapsed(index).map(BStr::to_owned).collect();
    let mut becomes = Vec::with_capacity(dirs.len());
    let entries = index.entries().iter().filter(|entry| entry.mode.is_tree());
    for (dir, entry) in dirs.iter().zip(entries) {
        becomes.push(purpose(index.path(entry)).tree(entry.oid, dir.as_bstr(), &mut trees)?);
    }
    let mut closed = dirs.iter().zip(&becomes).filter_map(|(dir, tree)| Some((dir, (*tree)?))).peekable();
    if closed.peek().is_none() {
        return super::expand(repo, index);
    }
    expand_some(repo, index, &|number| becomes[number].is_none())?;
    let positions: Vec<usize> = (0..index.len()).filter(|&at| index.entry(at).mode.is_tree()).collect();
    for ((dir, tree), at) in closed.zip(positions) {
        let entry = &mut index.entries_mut()[at];
        let is_another = entry.oid != tree;
        entry.oid = tree;
        let root = index.cache_tree.get_or_insert_default();
        if is_another {
            root.invalidate(dir.as_bstr());
        }
        let name = dir.rsplit_str("/").next().expect("a path has a last name").as_bstr();
        let node = CacheTree::with(name, Some((tree, 1)));
        replace(root, dir.as_bstr(), 1, node);
    }
    Ok(())
}

/// Trees by object ID, each read once.
struct Trees<'a> {
    reader: Reader<'a>,
    read: HashMap<ObjectId, HashMap<BString, ObjectId>>,
}

impl Trees<'_> {
    /// Returns the tree of the directory `dir` in the tree `root`.
    fn find(&mut self, root: ObjectId, dir: &BStr) -> Result<Option<ObjectId>, LookError> {
        let mut tree = root;
        for name in dir.split_str("/") {
            if !self.read.contains_key(&tree) {
                let below = self.directories(&tree)?;
                self.read.insert(tree, below);
            }
            match self.read[&tree].get(name.as_bstr()) {
                Some(below) => tree = *below,
                None => return Ok(None),
            }
        }
        Ok(Some(tree))
    }

    fn directories(&mut self, tree: &ObjectId) -> Result<HashMap<BString, ObjectId>, LookError> {
        let mut found = HashMap::new();
        let mut names = HashSet::new();
        for (mode, name, oid) in list(&mut self.reader, tree.kind(), tree)? {
            if names.insert(name.clone()) && mode.is_tree() {
                found.insert(name, oid)
            } else {
                // The walk refuses duplicate names later.
                found.remove(&name)
            };
        }
        Ok(found)
    }
}
