//! Blobs that a partial clone needs before it writes trees, and those that it may lack.
//!
//! Git fetches every missing blob of the index. sapwood fetches only blobs of trees that have to be
//! written, without the blobs that HEAD's tree has in the same directory. HEAD is complete, so its
//! blobs are stored here or promised, which also suffices for the new tree.

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Flags, Index},
    tree::TreeEntries,
};
use repo::{
    Repository,
    objects::{Kind, Reader},
};

/// The blobs of the trees that have to be written.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    /// Blobs that must be stored here.
    pub(super) needed: Vec<ObjectId>,
    /// Blobs that are stored here or promised.
    pub(super) promised: HashSet<ObjectId>,
}

/// Finds the blobs in directories that have no valid node in the cache-tree.
pub(super) fn blobs(index: &Index, repo: &Repository) -> Blobs {
    let mut reader = repo.objects().reader();
    let head = repo.head().ok().and_then(|head| head.oid()).and_then(|oid| repo.tree_of(oid).ok());
    let mut found = Blobs::default();
    let mut dirs: HashMap<BString, bool> = HashMap::new();
    for entry in index.iter() {
        if entry.flags.contains(Flags::SKIP_WORKTREE) || entry.mode.is_gitlink() {
            continue;
        }
        let path = index.path(&entry);
        let dir = path[..path.rfind_byte(b'/').unwrap_or(0)].as_bstr();
        let is_named = *dirs.entry(dir.to_owned()).or_insert_with(|| {
            let is_named = is_named(index, dir);
            if !is_named && let Some(root) = head {
                found.promised.extend(blobs_in(&mut reader, root, dir).unwrap_or_default());
            }
            is_named
        });
        if !is_named && !found.promised.contains(&entry.oid) {
            found.needed.push(entry.oid);
        }
    }
    found
}

/// Returns true if a directory, or one of its parents, has a valid node in the cache-tree.
fn is_named(index: &Index, dir: &BStr) -> bool {
    let Some(root) = &index.cache_tree else { return false };
    let ends = dir.find_iter("/").chain([dir.len()]).filter(|&end| end > 0);
    let mut above = ends.map(|end| root.find(dir[..end].as_bstr()));
    root.valid.is_some() || above.any(|node| node.is_some_and(|node| node.valid.is_some()))
}

/// Returns the blobs that lie directly in a directory of a tree, or `None` if the directory does
/// not exist or cannot be read.
fn blobs_in(reader: &mut Reader<'_>, root: ObjectId, dir: &BStr) -> Option<Vec<ObjectId>> {
    let mut tree = root;
    for name in dir.split_str("/").filter(|name| !name.is_empty()) {
        let (Kind::Tree, content) = reader.read(&tree).ok()? else { return None };
        let mut entries = TreeEntries::new(root.kind(), content).flatten();
        tree = entries.find(|entry| entry.mode.is_tree() && *entry.name == *name)?.oid;
    }
    let (Kind::Tree, content) = reader.read(&tree).ok()? else { return None };
    let entries = TreeEntries::new(root.kind(), content).flatten();
    Some(entries.filter(|entry| !entry.mode.is_tree()).map(|entry| entry.oid).collect())
}
