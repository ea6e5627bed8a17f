//! The cache-tree (TREE extension): the names of the tree objects for parts of the index. Source:
//! Git's `gitformat-index(5)`.
//!
//! A valid node guarantees three things. There are exactly `count` index entries below its
//! directory, all merged and none intent-to-add. Written as a tree, they have its name. Every
//! subdirectory has a valid node too. Therefore [`CacheTree::invalidate`] always goes from the root
//! down.

use bstr::{BStr, BString, ByteSlice};

use crate::{HashKind, ObjectId};

/// A node: a directory, and the tree object that its index entries equal, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTree {
    /// The last component of the directory's path; empty for the root.
    pub name: BString,
    /// The tree's name and the number of its index entries; `None` if invalid.
    pub valid: Option<(ObjectId, u32)>,
    /// Subdirectories, in the order Git stores them (shorter names first, then bytewise).
    pub children: Vec<CacheTree>,
}

/// The maximum depth accepted from a file; no file system allows more components. A deeper tree is
/// dropped like any malformed one, because it is only a cache.
const MAX_DEPTH: usize = 2048;

impl CacheTree {
    /// Creates an invalid root.
    pub fn new() -> Self {
        CacheTree::node(BStr::new(""))
    }

    fn node(name: &BStr) -> Self {
        CacheTree { name: name.to_owned(), valid: None, children: Vec::new() }
    }

    /// Returns the position of the child called `name`, or the position where it would be inserted.
    fn child_position(&self, name: &BStr) -> Result<usize, usize> {
        self.children.binary_search_by(|child| order(child.name.as_bstr(), name))
    }

    /// Returns the node of the subdirectory called `name` (one component).
    pub fn child(&self, name: &BStr) -> Option<&CacheTree> {
        self.child_position(name).ok().map(|at| &self.children[at])
    }

    /// Takes the node of the subdirectory called `name` (one component), and leaves an invalid one.
    pub fn take_child(&mut self, name: &BStr) -> Option<CacheTree> {
        let at = self.child_position(name).ok()?;
        let left = CacheTree::node(name);
        Some(std::mem::replace(&mut self.children[at], left))
    }

    /// Returns the node of directory `dir` relative to this one (without trailing slash; empty for
    /// this one).
    ///
    /// The counts from a file are not checked against its entries. Compare them with
    /// [`Index::range_below`](super::Index::range_below) before skipping anything.
    pub fn find(&self, dir: &BStr) -> Option<&CacheTree> {
        if dir.is_empty() {
            return Some(self);
        }
        dir.split_str("/").try_fold(self, |node, name| node.child(name.as_bstr()))
    }

    /// Invalidates every directory on the way to `path` (relative to this node), and removes a
    /// subdirectory with exactly this name. Returns true if a change of any other file in the same
    /// directory would invalidate nothing more.
    pub fn invalidate(&mut self, path: &BStr) -> bool {
        let mut node = self;
        let mut rest: &[u8] = path;
        loop {
            node.valid = None;
            let slash = rest.find_byte(b'/');
            let name = &rest[..slash.unwrap_or(rest.len())];
            match (node.child_position(name.as_bstr()), slash) {
                (Ok(at), Some(slash)) => {
                    node = &mut node.children[at];
                    rest = &rest[slash + 1..];
                }
                (Ok(at), None) => {
                    node.children.remove(at);
                    return node.children.is_empty();
                }
                (Err(_), None) => return node.children.is_empty(),
                (Err(_), Some(_)) => return true,
            }
        }
    }

    /// Marks directory `dir` (relative, empty for this one) as valid: its `count` index entries are
    /// the tree `oid`. Creates missing nodes on the way as invalid. The caller also sets all its
    /// subdirectories, and drops those that no longer exist ([`CacheTree::retain`]).
    pub fn set_valid(&mut self, dir: &BStr, oid: ObjectId, count: u32) {
        self.make(dir).valid = Some((oid, count));
    }

    /// Returns the node of `dir`, and creates it if missing.
    pub fn make(&mut self, dir: &BStr) -> &mut CacheTree {
        let mut node = self;
        if dir.is_empty() {
            return node;
        }
        for name in dir.split_str("/") {
            let at = node.child_position(name.as_bstr()).unwrap_or_else(|at| {
                node.children.insert(at, CacheTree::node(name.as_bstr()));
                at
            });
            node = &mut node.children[at];
        }
        node
    }

    /// Keeps only the subdirectories for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&BStr) -> bool) {
        self.children.retain(|child| keep(child.name.as_bstr()));
    }

    /// Reads the payload of a TREE extension. Returns `None` if it is malformed; the cache is then
    /// rebuilt, which costs only time.
    pub(super) fn read(data: &[u8], hash: HashKind) -> Option<CacheTree> {
        let (root, mut rest) = NodeHeader::read(data, hash)?;
        if !root.node.name.is_empty() {
            return None;
        }
        let mut open = vec![root];
        loop {
            let top = open.last_mut().expect("the root is open until it is returned");
            if top.missing > 0 {
                top.missing -= 1;
                if open.len() == MAX_DEPTH {
                    return None;
                }
                let (child, tail) = NodeHeader::read(rest, hash)?;
                rest = tail;
                open.push(child);
                continue;
            }
            let done = open.pop().expect("just looked at").node;
            let Some(parent) = open.last_mut() else {
                return Some(done);
            };
            let children = &mut parent.node.children;
            // Git writes sorted nodes, which are appended without a search.
            match children.last() {
                Some(last) if order(last.name.as_bstr(), done.name.as_bstr()).is_ge() => {
                    let at = parent.node.child_position(done.name.as_bstr()).err()?;
                    parent.node.children.insert(at, done);
                }
                _ => children.push(done),
            }
        }
    }

    /// Appends the payload of a TREE extension.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        out.push(0);
        let count = self.valid.map_or(-1, |(_, count)| i64::from(count));
        out.extend_from_slice(format!("{count} {}\n", self.children.len()).as_bytes());
        if let Some((oid, _)) = &self.valid {
            out.extend_from_slice(oid.as_bytes());
        }
        for child in &self.children {
            child.write(out);
        }
    }
}

impl Default for CacheTree {
    fn default() -> Self {
        CacheTree::new()
    }
}

/// A node whose children were not read yet.
struct NodeHeader {
    node: CacheTree,
    missing: u32,
}

impl NodeHeader {
    fn read(data: &[u8], hash: HashKind) -> Option<(NodeHeader, &[u8])> {
        let nul = data.find_byte(0)?;
        let mut node = CacheTree::node(data[..nul].as_bstr());
        let (count, rest) = number(&data[nul + 1..], b' ')?;
        let (missing, mut rest) = number(rest, b'\n')?;
        if let Ok(count) = u32::try_from(count) {
            let (raw, tail) = rest.split_at_checked(hash.len())?;
            node.valid = Some((ObjectId::from_bytes(hash, raw)?, count));
            rest = tail;
        }
        Some((NodeHeader { node, missing: u32::try_from(missing).ok()? }, rest))
    }
}

/// Parses a decimal number in the range of a C `int`, ended by `end`.
fn number(data: &[u8], end: u8) -> Option<(i32, &[u8])> {
    let length = data.iter().take(12).position(|&byte| byte == end)?;
    let number = data[..length].to_str().ok()?.parse().ok()?;
    Some((number, &data[length + 1..]))
}

/// Compares names in Git's order of subdirectories.
fn order(one: &BStr, two: &BStr) -> std::cmp::Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}
