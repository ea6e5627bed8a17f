//! Completes the cache-tree, as Git does at the end of a checkout: a directory whose node is
//! invalid becomes valid if the tree of its entries exists.

use std::{io::Write as _, ops::Range};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, ObjectId,
    hash::Hasher,
    index::{CacheTree, Flags, Index},
};
use sys::profile::{self, Phase};

/// Makes every node valid that can be. `exists` returns true if the tree with this object ID and
/// content is in the object database.
pub(crate) fn complete(index: &mut Index, exists: &dyn Fn(&ObjectId, &[u8]) -> bool) {
    let _phase = profile::span(Phase::Index);
    let old = index.cache_tree.take();
    let is_complete =
        |node: &CacheTree| matches!(node.valid, Some((_, count)) if count as usize == index.entries().len());
    if index.is_unmerged() || old.as_ref().is_some_and(is_complete) {
        index.cache_tree = old;
        return;
    }
    let builder = Builder { index, exists };
    let root = builder.build(BStr::new(""), 0, 0..index.entries().len(), old.as_ref());
    index.cache_tree = Some(root);
}

/// Builds the node of the directory `dir`, which is not the root and whose entries are in `range`.
pub(crate) fn of_directory(
    index: &Index,
    dir: &BStr,
    range: Range<usize>,
    exists: &dyn Fn(&ObjectId, &[u8]) -> bool,
) -> CacheTree {
    let old = index.cache_tree.as_ref().and_then(|root| root.find(dir));
    let name = dir.rfind_byte(b'/').map_or(dir, |slash| dir[slash + 1..].as_bstr());
    Builder { index, exists }.build(name, dir.len() + 1, range, old)
}

struct Builder<'a> {
    index: &'a Index,
    exists: &'a dyn Fn(&ObjectId, &[u8]) -> bool,
}

impl Builder<'_> {
    /// Builds the node `name` for the entries in `range`. Their paths share the first `prefix`
    /// bytes.
    fn build(&self, name: &BStr, prefix: usize, range: Range<usize>, old: Option<&CacheTree>) -> CacheTree {
        let mut node = CacheTree { name: name.to_owned(), valid: None, children: Vec::new() };
        let first = self.index.entries().get(range.start);
        if let Some(entry) =
            first.filter(|entry| entry.mode.is_tree() && self.index.path(entry).len() == prefix)
        {
            // The directory is a single entry of a sparse index.
            node.valid = Some((entry.oid, 1));
            return node;
        }
        let mut tree = Vec::new();
        let mut usable = true;
        let mut at = range.start;
        while at < range.end {
            let entry = &self.index.entries()[at];
            let rest = self.index.path(entry)[prefix..].as_bstr();
            let Some(slash) = rest.find_byte(b'/') else {
                if entry.flags.contains(Flags::INTENT_TO_ADD) {
                    usable = false;
                } else {
                    push_entry(&mut tree, entry.mode.bits(), rest, &entry.oid);
                }
                at += 1;
                continue;
            };
            let name = rest[..slash].as_bstr();
            let old = old.and_then(|node| node.child(name));
            let end = self.end_of(at, prefix + slash + 1, range.end, old);
            let child = match old {
                Some(old) if matches!(old.valid, Some((_, count)) if count as usize == end - at) => {
                    old.clone()
                }
                _ => self.build(name, prefix + slash + 1, at..end, old),
            };
            match child.valid {
                Some((oid, _)) => push_entry(&mut tree, 0o040000, name, &oid),
                None => usable = false,
            }
            node.children.push(child);
            at = end;
        }
        node.children.sort_by(|a, b| a.name.len().cmp(&b.name.len()).then_with(|| a.name.cmp(&b.name)));
        if usable {
            node.valid = name_of(self.index.hash, &tree)
                .filter(|oid| (self.exists)(oid, &tree))
                .map(|oid| (oid, range.len() as u32));
        }
        node
    }

    /// Returns the end of the directory whose first entry is at `start` and whose paths share
    /// `prefix` bytes.
    fn end_of(&self, start: usize, prefix: usize, limit: usize, old: Option<&CacheTree>) -> usize {
        let shared = BString::from(&self.index.path_at(start)[..prefix]);
        let inside = |at: usize| self.index.path_at(at).starts_with(&shared);
        if let Some((_, count)) = old.and_then(|node| node.valid) {
            let end = start + count as usize;
            if count > 0 && end <= limit && inside(end - 1) && (end == limit || !inside(end)) {
                return end;
            }
        }
        let entries = &self.index.entries()[start..limit];
        start + entries.partition_point(|entry| self.index.path(entry).starts_with(&shared))
    }
}

fn push_entry(tree: &mut Vec<u8>, mode: u32, name: &BStr, oid: &ObjectId) {
    write!(tree, "{mode:o} ").expect("a vector takes all");
    tree.extend_from_slice(name);
    tree.push(0);
    tree.extend_from_slice(oid.as_bytes());
}

fn name_of(hash: HashKind, tree: &[u8]) -> Option<ObjectId> {
    let mut hasher = Hasher::object(hash, "tree", tree.len() as u64);
    hasher.update(tree);
    hasher.finish().ok()
}
