//! Expands a sparse index: each directory entry is replaced by the content of its tree.
//!
//! Only trees are read, those of one depth in parallel. Blobs may be missing. If a tree cannot be
//! read, the index is unchanged.

use std::{collections::HashMap, sync::Mutex};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, Mode, ObjectId,
    index::{CacheTree, Flags, Index, NewEntry, Stage, Stat},
    path::{self, Protect},
    tree::TreeEntries,
};
use repo::{
    Repository,
    objects::{Kind, Objects, Reader},
};

use crate::{
    crew::{self, Tuning},
    look::{
        self, LookError,
        tree_limits::{self, TreeLimits},
    },
};

/// The entries of a tree.
type Listing = Vec<(Mode, BString, ObjectId)>;

/// Returns the collapsed directories of `index`, without a slash at the end.
pub fn collapsed(index: &Index) -> impl Iterator<Item = &BStr> {
    let paths = index.entries().iter().filter(|entry| entry.mode.is_tree()).map(|entry| index.path(entry));
    paths.map(|path| BStr::new(path.strip_suffix(b"/").unwrap_or(path)))
}

/// Returns true if `path` is in a collapsed directory.
pub fn is_inside(index: &Index, path: &BStr) -> bool {
    index.sparse_directory_above(path).is_some()
}

/// Expands all directories of `index`. An error leaves the index unchanged.
///
/// As in Git, the cache-tree is replaced by that of the expanded directories, because `restore
/// --source --staged` leaves a wrong one.
pub fn expand(repo: &Repository, index: &mut Index) -> Result<(), LookError> {
    let untrue = index.cache_tree.take();
    if let Err(error) = expand_some(repo, index, &|_| true) {
        index.cache_tree = untrue;
        return Err(error);
    }
    index.sparse = false;
    Ok(())
}

/// Expands the directory entries for whose numbers `opens` returns true. If others remain, the
/// index stays sparse. Directory entries are numbered in index order.
pub(super) fn expand_some(
    repo: &Repository,
    index: &mut Index,
    opens: &dyn Fn(usize) -> bool,
) -> Result<(), LookError> {
    let directories = || index.entries().iter().filter(|entry| entry.mode.is_tree()).enumerate();
    let opened = || directories().filter(|(number, _)| opens(*number)).map(|(_, entry)| entry);
    let trees: Vec<ObjectId> = opened().map(|entry| entry.oid).collect();
    if !trees.is_empty() {
        let listings = read_all(repo.objects(), trees)?;
        let mut below = Below {
            listings: &listings,
            protect: look::protect(repo)?,
            path: BString::default(),
            found: Vec::new(),
            limits: TreeLimits::default(),
        };
        let mut nodes = Vec::new();
        for entry in opened() {
            let first = below.found.len();
            let mut node = CacheTree::new();
            below.path = index.path(entry).to_owned();
            below.visit(&entry.oid, &mut node)?;
            nodes.push((below.found.len() - first, node));
        }
        fill(index, below.found, nodes, opens);
    }
    Ok(())
}

/// Reads all trees that are reachable from `level`.
fn read_all(objects: &Objects, mut level: Vec<ObjectId>) -> Result<HashMap<ObjectId, Listing>, LookError> {
    // As in [`crate::look::trees`].
    const WEIGHT: usize = 2;
    let (spare, tuning) = (Mutex::new(Vec::new()), Tuning::default());
    let mut read: HashMap<ObjectId, Listing> = HashMap::new();
    let limits = TreeLimits::default();
    for depth in 0.. {
        tree_limits::check_depth(depth, objects.max_tree_depth())?;
        level.sort_unstable();
        level.dedup();
        let listings = crew::map(
            "tree",
            &tuning,
            &level,
            |_| WEIGHT,
            &spare,
            |number| crew::reader(objects, number),
            |reader, tree| {
                limits.add(0)?;
                list(reader, objects.hash(), tree)
            },
        )?;
        let mut below = Vec::new();
        for listing in &listings {
            below.extend(listing.iter().filter(|(mode, ..)| mode.is_tree()).map(|(.., oid)| *oid));
        }
        read.extend(level.into_iter().zip(listings));
        below.retain(|tree| !read.contains_key(tree));
        if below.is_empty() {
            return Ok(read);
        }
        level = below;
    }
    unreachable!("the depth is limited")
}

/// Reads the entries of `tree`.
pub(super) fn list(reader: &mut Reader<'_>, hash: HashKind, tree: &ObjectId) -> Result<Listing, LookError> {
    let (kind, data) = match reader.read(tree) {
        Err(repo::objects::Error::Missing(tree)) => return Err(LookError::NoTree(tree)),
        read => read?,
    };
    if kind != Kind::Tree {
        return Err(LookError::NoTree(*tree));
    }
    TreeEntries::new(hash, data)
        .map(|entry| entry.map(|entry| (entry.mode, entry.name.to_owned(), entry.oid)))
        .collect::<Result<_, _>>()
        .map_err(|_| LookError::MalformedTree(*tree))
}

/// The entries of the expanded directories, in order.
struct Below<'a> {
    listings: &'a HashMap<ObjectId, Listing>,
    protect: Protect,
    /// The current path.
    path: BString,
    found: Vec<(BString, NewEntry)>,
    limits: TreeLimits,
}

impl Below<'_> {
    /// Adds the entries of `tree`, the tree of the current path (a directory with its slash). Fills
    /// its cache-tree node.
    fn visit(&mut self, tree: &ObjectId, node: &mut CacheTree) -> Result<(), LookError> {
        let (first, length) = (self.found.len(), self.path.len());
        let listing = &self.listings[tree];
        self.limits.add(listing.len())?;
        for (mode, name, oid) in listing {
            self.path.extend_from_slice(name);
            if mode.is_tree() {
                self.path.push(b'/');
                self.visit(oid, node.make(name.as_bstr()))?;
            } else {
                path::verify(self.path.as_bstr(), *mode, self.protect)
                    .map_err(|_| LookError::InvalidPath(self.path.clone()))?;
                if self.found.last().is_some_and(|(last, _)| *last >= self.path) {
                    // The index relies on the order of its entries. A malformed tree may be
                    // unordered.
                    return Err(LookError::MalformedTree(*tree));
                }
                self.found.push((self.path.clone(), skipped(*mode, *oid)));
            }
            self.path.truncate(length);
        }
        node.valid = Some((*tree, (self.found.len() - first) as u32));
        Ok(())
    }
}

/// Creates an entry with the skip-worktree flag.
pub(super) fn skipped(mode: Mode, oid: ObjectId) -> NewEntry {
    NewEntry { stat: Stat::default(), oid, mode, flags: Flags::SKIP_WORKTREE, stage: Stage::Normal }
}

/// Replaces the directory entries that `opens` selects by the entries `found`. `nodes` contains the
/// number of entries and the cache-tree of each directory.
fn fill(
    index: &mut Index,
    found: Vec<(BString, NewEntry)>,
    nodes: Vec<(usize, CacheTree)>,
    opens: &dyn Fn(usize) -> bool,
) {
    let mut old = std::mem::replace(index, Index::empty(index.hash));
    *index = old.successor();
    let mut cached = index.cache_tree.take().unwrap_or_default();
    let (mut found, mut nodes) = (found.into_iter(), nodes.into_iter());
    let mut number = 0;
    for entry in old.entries() {
        let path = old.path(entry);
        let is_directory = entry.mode.is_tree();
        number += usize::from(is_directory);
        if !is_directory || !opens(number - 1) {
            index.push(path, entry.content());
            continue;
        }
        let (count, node) = nodes.next().expect("one for each directory");
        found.by_ref().take(count).for_each(|(path, entry)| index.push(path.as_bstr(), entry));
        replace(&mut cached, path.strip_suffix(b"/").unwrap_or(path).into(), 1, node);
    }
    index.cache_tree = Some(cached);
}

/// Replaces the node of the directory `dir`, which had `before` entries, by `node`.
pub(super) fn replace(root: &mut CacheTree, dir: &BStr, before: u32, node: CacheTree) {
    let after = node.valid.map_or(0, |(_, count)| count);
    let mut above = root;
    let mut start = 0;
    for end in dir.find_iter("/").chain([dir.len()]) {
        if let Some((_, count)) = &mut above.valid {
            *count = (*count + after).saturating_sub(before);
        }
        above = above.make(dir[start..end].as_bstr());
        start = end + 1;
    }
    above.valid = node.valid;
    above.set_children(node.into_children());
}
