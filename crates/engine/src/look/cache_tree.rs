//! The cache-tree of an index: builds its nodes and the trees to which they refer.
//!
//! [`complete`] does what Git does at the end of a checkout: a directory whose node is invalid
//! becomes valid if the tree of its entries exists. [`build`] creates missing trees according to
//! [`Rules`].

use std::{convert::Infallible, io::Write as _, ops::Range};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, Mode, ObjectId,
    hash::Hasher,
    index::{CacheTree, Flags, Index},
};
use sys::profile::{self, Phase};

/// Validates every node whose tree exists. `exists` returns true if the tree with this object ID
/// and content is in the object database.
pub(crate) fn complete(index: &mut Index, exists: &dyn Fn(&ObjectId, &[u8]) -> bool) {
    let _phase = profile::span(Phase::Index);
    let old = index.cache_tree.take();
    let is_complete =
        |node: &CacheTree| matches!(node.valid, Some((_, count)) if count as usize == index.len());
    if index.is_unmerged() || old.as_ref().is_some_and(is_complete) {
        index.cache_tree = old;
        return;
    }
    let Ok(root) = build(index, old, &Existing(exists));
    index.cache_tree = Some(root.node);
}

/// Builds the node of the directory `dir`, which is not the root and whose entries are in `range`.
pub(crate) fn of_directory(
    index: &Index,
    dir: &BStr,
    range: Range<usize>,
    exists: &dyn Fn(&ObjectId, &[u8]) -> bool,
) -> CacheTree {
    let old = index.cache_tree.as_ref().and_then(|root| root.find(dir)).cloned();
    let name = dir.rfind_byte(b'/').map_or(dir, |slash| dir[slash + 1..].as_bstr());
    let rules = &Existing(exists);
    let Ok(built) = Builder { index, rules }.build(name, dir.len() + 1, range, old, MAX_DEPTH);
    built.node
}

/// The callbacks that decide which trees exist or are created.
pub(crate) trait Rules {
    /// The error that ends the build.
    type Error;

    /// Returns true if the tree of a valid node is usable.
    fn has(&self, tree: &ObjectId) -> bool;

    /// Checks an entry that becomes part of a tree, or a directory (without a slash at the end).
    fn check(&self, mode: Mode, oid: &ObjectId, path: &BStr, flags: Flags) -> Result<(), Self::Error>;

    /// Creates the tree of `directory`. Returns false if there is no such tree; then the node and
    /// those above it stay invalid.
    fn make(&self, directory: &BStr, oid: &ObjectId, content: &[u8]) -> Result<bool, Self::Error>;
}

/// Creates no trees. The callback returns true if a tree exists.
struct Existing<'a>(&'a dyn Fn(&ObjectId, &[u8]) -> bool);

impl Rules for Existing<'_> {
    type Error = Infallible;

    fn has(&self, _: &ObjectId) -> bool {
        true
    }

    fn check(&self, _: Mode, _: &ObjectId, _: &BStr, _: Flags) -> Result<(), Infallible> {
        Ok(())
    }

    fn make(&self, _: &BStr, oid: &ObjectId, content: &[u8]) -> Result<bool, Infallible> {
        Ok((self.0)(oid, content))
    }
}

/// The maximum depth of a directory with a tree. File systems allow no more path components, and
/// Git reads no deeper trees.
const MAX_DEPTH: usize = 2048;

/// A node, and its tree. The node is invalid although the tree exists if some of its entries are
/// intent-to-add entries, which are not in the tree.
pub(crate) struct Built {
    pub(crate) node: CacheTree,
    pub(crate) tree: Option<ObjectId>,
}

/// Builds the node of the whole index, which must be merged. Takes the valid nodes out of `old`.
pub(crate) fn build<R: Rules>(index: &Index, old: Option<CacheTree>, rules: &R) -> Result<Built, R::Error> {
    let all = 0..index.len();
    Builder { index, rules }.build(BStr::new(""), 0, all, old, MAX_DEPTH)
}

struct Builder<'a, R: Rules> {
    index: &'a Index,
    rules: &'a R,
}

impl<R: Rules> Builder<'_, R> {
    /// Builds the node `name` for the entries in `range`. Their paths share the first `prefix`
    /// bytes. `levels` is the number of levels that are allowed below.
    fn build(
        &self,
        name: &BStr,
        prefix: usize,
        range: Range<usize>,
        mut old: Option<CacheTree>,
        levels: usize,
    ) -> Result<Built, R::Error> {
        let mut node = CacheTree::with(name, None);
        let first = range.start;
        if first < self.index.len()
            && self.index.mode_at(first).is_tree()
            && self.index.path_at(first).len() == prefix
        {
            // The directory is a single entry of a sparse index.
            let entry = self.index.entry(first);
            node.valid = Some((entry.oid, 1));
            return Ok(Built { node, tree: Some(entry.oid) });
        }
        let is_usable = |old: &CacheTree| {
            old.valid.is_some_and(|(oid, count)| count as usize == range.len() && self.rules.has(&oid))
        };
        if let Some(node) = old.take_if(|old| is_usable(old)) {
            let tree = node.valid.map(|(oid, _)| oid);
            return Ok(Built { node, tree });
        }
        if levels == 0 {
            return Ok(Built { node, tree: None });
        }
        let (mut content, mut children) = (Vec::new(), Vec::new());
        let (mut is_whole, mut has_all) = (true, true);
        // As in Git, errors of subdirectories come before those of this directory.
        let mut refused = None;
        let mut at = range.start;
        while at < range.end {
            let entry = &self.index.entry(at);
            let path = self.index.path(entry);
            let rest = path[prefix..].as_bstr();
            let Some(slash) = rest.find_byte(b'/') else {
                if refused.is_none() {
                    refused = self.rules.check(entry.mode, &entry.oid, path, entry.flags).err();
                }
                if entry.flags.contains(Flags::INTENT_TO_ADD) {
                    is_whole = false
                } else {
                    push_entry(&mut content, entry.mode.bits(), rest, &entry.oid)
                }
                at += 1;
                continue;
            };
            let name = rest[..slash].as_bstr();
            let old = old.as_mut().and_then(|node| node.take_child(name));
            let below = prefix + slash + 1;
            let end = self.end_of(at, below, range.end, old.as_ref());
            let child = self.build(name, below, at..end, old, levels - 1)?;
            let is_valid = child.node.valid.is_some();
            is_whole &= is_valid;
            match child.tree {
                // All entries below are intent-to-add entries.
                Some(oid) if !is_valid && oid == ObjectId::empty_tree(self.index.hash) => {}
                Some(oid) => push_entry(&mut content, Mode::TREE.bits(), name, &oid),
                None => has_all = false,
            }
            children.push(child.node);
            at = end;
        }
        node.set_children(children);
        if let Some(refused) = refused {
            return Err(refused);
        }
        let mut tree = name_of(self.index.hash, &content).filter(|_| has_all);
        if let Some(oid) = &tree {
            let directory = if range.is_empty() {
                BStr::new("")
            } else {
                self.index.path_at(range.start)[..prefix.saturating_sub(1)].as_bstr()
            };
            if !self.rules.make(directory, oid, &content)? {
                tree = None;
            }
        }
        node.valid = tree.filter(|_| is_whole).map(|oid| (oid, range.len() as u32));
        Ok(Built { node, tree })
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
        self.index.end_of_prefix(start, prefix, limit)
    }
}

/// Appends an entry to the content of a tree.
pub(crate) fn push_entry(tree: &mut Vec<u8>, mode: u32, name: &BStr, oid: &ObjectId) {
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
