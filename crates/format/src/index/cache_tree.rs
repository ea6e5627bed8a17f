//! The cache-tree (TREE extension): names of the tree objects that parts of the index would become.
//!
//! A valid node promises three things: the index entries below its directory are exactly `count`, all
//! merged and none intent-to-add; written as a tree they have its name; and every subdirectory has a
//! valid node too. [`CacheTree::invalidate`] therefore always goes from the root down.

use bstr::{BStr, BString, ByteSlice};

use crate::{HashKind, ObjectId};

/// A cache-tree node: a directory whose index entries may be known to equal a tree object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTree {
    /// Name of the directory; empty for the root.
    pub name: BString,
    /// The tree's name and how many index entries it spans; `None` when invalidated.
    pub valid: Option<(ObjectId, u32)>,
    /// Subdirectories, in the order Git stores them (shorter names first, then bytewise).
    pub children: Vec<CacheTree>,
}

/// Deepest directory accepted from a file: no path a file system takes has more components. A deeper
/// tree is dropped, as any malformed one is; it is only a cache.
const MAX_DEPTH: usize = 2048;

impl CacheTree {
    /// An invalid root.
    pub fn new() -> Self {
        CacheTree::node(BStr::new(""))
    }

    fn node(name: &BStr) -> Self {
        CacheTree { name: name.to_owned(), valid: None, children: Vec::new() }
    }

    /// The child called `name`, or where it would be.
    fn child_position(&self, name: &BStr) -> Result<usize, usize> {
        self.children.binary_search_by(|child| order(child.name.as_bstr(), name))
    }

    /// The node of the subdirectory called `name` (one component).
    pub fn child(&self, name: &BStr) -> Option<&CacheTree> {
        self.child_position(name).ok().map(|at| &self.children[at])
    }

    /// The node of directory `dir` relative to this one (no trailing slash; empty for this one).
    ///
    /// What a file says of counts is not checked against its entries: compare with
    /// [`Index::range_below`](super::Index::range_below) before skipping anything.
    pub fn find(&self, dir: &BStr) -> Option<&CacheTree> {
        if dir.is_empty() {
            return Some(self);
        }
        dir.split_str("/").try_fold(self, |node, name| node.child(name.as_bstr()))
    }

    /// Records that `path` (relative to this node) changed: every directory on the way to it becomes
    /// invalid, and a subdirectory of that very name is forgotten. Returns whether that was all there is to forget for any
    /// file of the same directory.
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

    /// Declares directory `dir` (relative, empty for this one) valid: its `count` index entries are
    /// the tree `oid`. Nodes missing on the way are made, invalid. The caller sets all its
    /// subdirectories too, and drops those it no longer has ([`CacheTree::retain`]).
    pub fn set_valid(&mut self, dir: &BStr, oid: ObjectId, count: u32) {
        self.make(dir).valid = Some((oid, count));
    }

    /// The node of `dir`, made if missing.
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

    /// Keeps of this node's subdirectories only those `keep` says yes to.
    pub fn retain(&mut self, mut keep: impl FnMut(&BStr) -> bool) {
        self.children.retain(|child| keep(child.name.as_bstr()));
    }

    /// Reads the payload of a TREE extension. `None` if it is malformed, which costs only speed.
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
            // Sorted input, which is all Git writes, is appended without a search.
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

/// A node whose children are still to be read.
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

/// A decimal number ended by `end`, in the range of a C `int`.
fn number(data: &[u8], end: u8) -> Option<(i32, &[u8])> {
    let length = data.iter().take(12).position(|&byte| byte == end)?;
    let number = data[..length].to_str().ok()?.parse().ok()?;
    Some((number, &data[length + 1..]))
}

/// Git's order of subdirectories.
fn order(one: &BStr, two: &BStr) -> std::cmp::Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}
