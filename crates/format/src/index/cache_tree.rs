//! The cache-tree (TREE extension): the names of the tree objects for parts of the index. Source:
//! Git's `gitformat-index(5)`.
//!
//! A valid node guarantees three things. There are exactly `count` index entries below its
//! directory, all merged and none intent-to-add. Written as a tree, they have its name. Every
//! subdirectory has a valid node too. Therefore [`CacheTree::invalidate`] always goes from the root
//! down.

use std::sync::OnceLock;

use bstr::{BStr, BString, ByteSlice};
use bytes::Bytes;

use crate::{HashKind, ObjectId};

/// A node: a directory, and the tree object that its index entries equal, if that is known.
///
/// The nodes below it stay as the bytes of the file until they are requested, and are written back
/// from there if they do not change: most commands look at a few directories.
#[derive(Clone, Debug)]
pub struct CacheTree {
    /// The last component of the directory's path; empty for the root.
    pub name: BString,
    /// The tree's name and the number of its index entries; `None` if invalid.
    pub valid: Option<(ObjectId, u32)>,
    /// Subdirectories, in the order Git stores them (shorter names first, then bytewise). Not set
    /// if only `stored` has them.
    children: OnceLock<Vec<CacheTree>>,
    stored: Option<Stored>,
}

/// The well-formed nodes below a node, as in the file.
#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    /// The number of direct subdirectories.
    count: u32,
    hash: HashKind,
}

/// The maximum depth accepted from a file; no file system allows more components. A deeper tree is
/// dropped like any malformed one, because it is only a cache.
const MAX_DEPTH: usize = 2048;

impl CacheTree {
    /// Creates an invalid root.
    pub fn new() -> Self {
        CacheTree::with(BStr::new(""), None)
    }

    /// Creates a node without subdirectories.
    pub fn with(name: &BStr, valid: Option<(ObjectId, u32)>) -> Self {
        CacheTree { name: name.to_owned(), valid, children: OnceLock::from(Vec::new()), stored: None }
    }

    /// Returns the subdirectories, in the order Git stores them.
    pub fn children(&self) -> &[CacheTree] {
        self.children.get_or_init(|| self.stored.as_ref().map(Stored::read).unwrap_or_default())
    }

    /// Returns the subdirectories for changes. The caller keeps their order.
    fn children_mut(&mut self) -> &mut Vec<CacheTree> {
        self.children();
        self.stored = None;
        self.children.get_mut().expect("they were just read")
    }

    /// Replaces the subdirectories, which may come in any order.
    pub fn set_children(&mut self, mut children: Vec<CacheTree>) {
        children.sort_by(|one, two| order(one.name.as_bstr(), two.name.as_bstr()));
        self.stored = None;
        self.children = OnceLock::from(children);
    }

    /// Takes the subdirectories out of the node.
    pub fn into_children(mut self) -> Vec<CacheTree> {
        std::mem::take(self.children_mut())
    }

    /// Returns the position of the child called `name`, or the position where it would be inserted.
    fn child_position(&self, name: &BStr) -> Result<usize, usize> {
        self.children().binary_search_by(|child| order(child.name.as_bstr(), name))
    }

    /// Returns the node of the subdirectory called `name` (one component).
    pub fn child(&self, name: &BStr) -> Option<&CacheTree> {
        self.child_position(name).ok().map(|at| &self.children()[at])
    }

    /// Takes the node of the subdirectory called `name` (one component), and leaves an invalid one.
    pub fn take_child(&mut self, name: &BStr) -> Option<CacheTree> {
        let at = self.child_position(name).ok()?;
        let left = CacheTree::with(name, None);
        Some(std::mem::replace(&mut self.children_mut()[at], left))
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
                    node = &mut node.children_mut()[at];
                    rest = &rest[slash + 1..];
                }
                (Ok(at), None) => {
                    node.children_mut().remove(at);
                    return node.children().is_empty();
                }
                (Err(_), None) => return node.children().is_empty(),
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
            let at = node.child_position(name.as_bstr());
            let children = node.children_mut();
            let at = at.unwrap_or_else(|at| {
                children.insert(at, CacheTree::with(name.as_bstr(), None));
                at
            });
            node = &mut children[at];
        }
        node
    }

    /// Keeps only the subdirectories for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&BStr) -> bool) {
        self.children_mut().retain(|child| keep(child.name.as_bstr()));
    }

    /// Reads the payload of a TREE extension. Returns `None` if it is malformed; the cache is then
    /// rebuilt, which costs only time.
    pub(super) fn read(payload: &Bytes, hash: HashKind) -> Option<CacheTree> {
        let (root, below) = NodeHeader::read(payload, hash)?;
        if !root.name.is_empty() {
            return None;
        }
        let Nodes { length, order } = check(below, root.count, hash)?;
        let root = root.node(payload.slice_ref(&below[..length]), hash)?;
        (order == NodeOrder::Gits || root.has_unique_names()).then_some(root)
    }

    /// Returns true if no two subdirectories of a directory have the same name.
    fn has_unique_names(&self) -> bool {
        let children = self.children();
        children.windows(2).all(|pair| pair[0].name != pair[1].name)
            && children.iter().all(CacheTree::has_unique_names)
    }

    /// Appends the payload of a TREE extension.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        out.push(0);
        let count = self.valid.map_or(-1, |(_, count)| i64::from(count));
        let below =
            self.stored.as_ref().map_or_else(|| self.children().len(), |stored| stored.count as usize);
        out.extend_from_slice(format!("{count} {below}\n").as_bytes());
        if let Some((oid, _)) = &self.valid {
            out.extend_from_slice(oid.as_bytes());
        }
        match &self.stored {
            Some(stored) => out.extend_from_slice(&stored.bytes),
            None => self.children().iter().for_each(|child| child.write(out)),
        }
    }
}

impl Default for CacheTree {
    fn default() -> Self {
        CacheTree::new()
    }
}

impl PartialEq for CacheTree {
    fn eq(&self, other: &CacheTree) -> bool {
        (&self.name, self.valid, self.children()) == (&other.name, other.valid, other.children())
    }
}

impl Eq for CacheTree {}

impl Stored {
    /// Returns the direct subdirectories.
    fn read(&self) -> Vec<CacheTree> {
        let mut children = Vec::with_capacity(self.count as usize);
        let mut rest = &self.bytes[..];
        for _ in 0..self.count {
            let next = NodeHeader::read(rest, self.hash).and_then(|(header, below)| {
                let (below, after) = below.split_at(length_of(below, header.count, self.hash)?);
                Some((header.node(self.bytes.slice_ref(below), self.hash)?, after))
            });
            let Some((child, after)) = next else { unreachable!("the nodes were checked") };
            children.push(child);
            rest = after;
        }
        let in_order = |pair: &[CacheTree]| order(pair[0].name.as_bstr(), pair[1].name.as_bstr()).is_le();
        if !children.windows(2).all(in_order) {
            children.sort_by(|one, two| order(one.name.as_bstr(), two.name.as_bstr()));
        }
        children
    }
}

/// The fields of a node.
struct NodeHeader<'a> {
    name: &'a BStr,
    /// The number of index entries, and the name of the tree, of a valid node.
    valid: Option<(u32, &'a [u8])>,
    /// The number of its direct subdirectories.
    count: u32,
}

impl<'a> NodeHeader<'a> {
    /// Reads the fields of a node, and returns the bytes after it.
    #[inline]
    fn read(data: &'a [u8], hash: HashKind) -> Option<(NodeHeader<'a>, &'a [u8])> {
        let nul = data.find_byte(0)?;
        let (entries, rest) = number(&data[nul + 1..], b' ')?;
        let (count, mut rest) = number(rest, b'\n')?;
        let mut valid = None;
        if let Ok(entries) = u32::try_from(entries) {
            let (oid, tail) = rest.split_at_checked(hash.len())?;
            valid = Some((entries, oid));
            rest = tail;
        }
        let count = u32::try_from(count).ok()?;
        Some((NodeHeader { name: data[..nul].as_bstr(), valid, count }, rest))
    }

    /// Returns the node. `below` are the bytes of the nodes below it.
    fn node(&self, bytes: Bytes, hash: HashKind) -> Option<CacheTree> {
        let valid = match self.valid {
            Some((entries, oid)) => Some((ObjectId::from_bytes(hash, oid)?, entries)),
            None => None,
        };
        let mut node = CacheTree::with(self.name, valid);
        if self.count > 0 {
            node.children = OnceLock::new();
            node.stored = Some(Stored { bytes, count: self.count, hash });
        }
        Some(node)
    }
}

/// The order of the nodes in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeOrder {
    /// Each directory has its subdirectories in Git's order, without a name twice.
    Gits,
    /// Other programs sort them otherwise.
    Other,
}

/// The nodes below a node: the number of their bytes, and their order.
struct Nodes {
    length: usize,
    order: NodeOrder,
}

/// Checks the nodes below a node with `count` direct subdirectories. Returns `None` if they are
/// malformed.
fn check(data: &[u8], count: u32, hash: HashKind) -> Option<Nodes> {
    let mut rest = data;
    let mut found = NodeOrder::Gits;
    // For each open directory, the number of its subdirectories to come, and the name of the last.
    let mut open: Vec<(u32, Option<&BStr>)> = vec![(count, None)];
    while let Some((left, last)) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let (header, tail) = NodeHeader::read(rest, hash)?;
        if last.replace(header.name).is_some_and(|last| order(last, header.name).is_ge()) {
            found = NodeOrder::Other;
        }
        rest = tail;
        if open.len() == MAX_DEPTH {
            return None;
        }
        if header.count > 0 {
            open.push((header.count, None));
        }
    }
    Some(Nodes { length: data.len() - rest.len(), order: found })
}

/// Returns the number of bytes of the nodes below a node with `count` direct subdirectories.
fn length_of(data: &[u8], count: u32, hash: HashKind) -> Option<usize> {
    let (mut rest, mut left) = (data, u64::from(count));
    while left > 0 {
        let (header, tail) = NodeHeader::read(rest, hash)?;
        left += u64::from(header.count);
        left -= 1;
        rest = tail;
    }
    Some(data.len() - rest.len())
}

/// Parses a decimal number in the range of a C `int`, ended by `end`.
#[inline]
fn number(data: &[u8], end: u8) -> Option<(i32, &[u8])> {
    let length = data.iter().take(12).position(|&byte| byte == end)?;
    let (digits, rest) = (&data[..length], &data[length + 1..]);
    const ALWAYS_FITS: usize = 9;
    let number = if (1..=ALWAYS_FITS).contains(&length) && digits.iter().all(u8::is_ascii_digit) {
        digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'))
    } else {
        digits.to_str().ok()?.parse().ok()?
    };
    Some((number, rest))
}

/// Compares names in Git's order of subdirectories.
fn order(one: &BStr, two: &BStr) -> std::cmp::Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}
