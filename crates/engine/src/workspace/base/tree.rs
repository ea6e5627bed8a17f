//! The index of a tree: all its entries without stat data, and the cache-tree.

use std::{collections::HashSet, sync::Mutex};

use bstr::{BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{CacheTree, Flags, Index, NewEntry, Stage, Stat},
    path::Protect,
    tree::TreeEntries,
};
use repo::objects::{Objects, Reader};

use crate::{
    crew::{self, Tuning},
    look::{
        LookError,
        tree_limits::{self, TreeLimits},
        trees::TreeReader as _,
    },
};

/// An element of a directory, in the order of the index.
enum Item {
    Entry(BString, Mode, ObjectId),
    /// A subdirectory: its name, and its number.
    Directory(BString, usize),
}

/// The cost of reading a directory, in steps of about one file each.
const WEIGHT: usize = 2;

/// Returns the index of `tree`, which is read breadth first, all directories at one depth in
/// parallel.
pub(crate) fn index_of(objects: &Objects, tree: ObjectId, protect: Protect) -> Result<Index, LookError> {
    let spare = Mutex::new(Vec::new());
    let mut all: Vec<(ObjectId, Vec<Item>)> = Vec::new();
    let mut level = vec![tree];
    let limits = TreeLimits::default();
    for depth in 0.. {
        if level.is_empty() {
            break;
        }
        tree_limits::check_depth(depth, objects.max_tree_depth())?;
        let read = read(objects, &level, &spare, |data, oid| {
            let listed = list(data, oid)?;
            limits.add(listed.0.len())?;
            Ok(listed)
        })?;
        // Directories are numbered level by level.
        let mut number = all.len() + level.len();
        let mut below = Vec::new();
        for (oid, (mut items, trees)) in level.into_iter().zip(read) {
            for item in &mut items {
                if let Item::Directory(_, at) = item {
                    *at = number;
                    number += 1;
                }
            }
            below.extend(trees);
            all.push((oid, items));
        }
        level = below;
    }
    flatten(all, objects, protect)
}

/// Returns an error unless `tree` and all trees below are here.
pub(crate) fn check_trees(objects: &Objects, tree: ObjectId) -> Result<(), LookError> {
    let spare = Mutex::new(Vec::new());
    let mut level = vec![tree];
    let limits = TreeLimits::default();
    let mut seen = HashSet::from([tree]);
    while !level.is_empty() {
        let read = read(objects, &level, &spare, |data, oid| {
            limits.add(0)?;
            let mut below = Vec::new();
            for entry in TreeEntries::new(oid.kind(), data) {
                let entry = entry.map_err(|_| LookError::MalformedTree(*oid))?;
                below.extend(entry.mode.is_tree().then_some(entry.oid));
            }
            Ok(below)
        })?;
        level = read.into_iter().flatten().filter(|oid| seen.insert(*oid)).collect();
    }
    Ok(())
}

/// Workers' readers and buffers between two levels.
type Spare<'o> = Mutex<Vec<(Reader<'o>, Vec<u8>)>>;

/// Reads trees, and passes the data of each to `take`.
fn read<'o, T: Send + Sync>(
    objects: &'o Objects,
    trees: &[ObjectId],
    spare: &Spare<'o>,
    take: impl Fn(&[u8], &ObjectId) -> Result<T, LookError> + Sync,
) -> Result<Vec<T>, LookError> {
    crew::map(
        "tree",
        &Tuning::default(),
        trees,
        |_| WEIGHT,
        spare,
        |number| (crew::reader(objects, number), Vec::new()),
        |(reader, buffer), oid| {
            reader.read_tree(oid, buffer)?;
            take(buffer, oid)
        },
    )
}

fn list(data: &[u8], oid: &ObjectId) -> Result<(Vec<Item>, Vec<ObjectId>), LookError> {
    let (mut items, mut trees) = (Vec::new(), Vec::new());
    for entry in TreeEntries::new(oid.kind(), data) {
        let entry = entry.map_err(|_| LookError::MalformedTree(*oid))?;
        let name = entry.name.to_owned();
        if entry.mode.is_tree() {
            trees.push(entry.oid);
            items.push(Item::Directory(name, 0));
        } else {
            items.push(Item::Entry(name, entry.mode, entry.oid));
        }
    }
    Ok((items, trees))
}

/// A directory of the current path.
struct Open {
    oid: ObjectId,
    items: std::vec::IntoIter<Item>,
    /// The length of its path, with a slash at the end.
    path: usize,
    /// The number of entries before it.
    first: usize,
    node: CacheTree,
    /// The nodes of its subdirectories.
    below: Vec<CacheTree>,
    /// True if a tree below is empty. The index has no entry for it, so the tree of its entries
    /// would differ.
    has_empty: bool,
}

fn flatten(
    mut all: Vec<(ObjectId, Vec<Item>)>,
    objects: &Objects,
    protect: Protect,
) -> Result<Index, LookError> {
    let mut index = Index::empty(objects.hash());
    index.reserve(all.iter().map(|(_, items)| items.len()).sum(), 0);
    let mut path = BString::default();
    let mut last = BString::default();
    let mut enter = |number: usize, name: BString, path: usize, first: usize| {
        let (oid, items) = (all[number].0, std::mem::take(&mut all[number].1).into_iter());
        let node = CacheTree::with(name.as_bstr(), None);
        Open { oid, items, path, first, node, below: Vec::new(), has_empty: false }
    };
    let mut open = vec![enter(0, BString::default(), 0, 0)];
    loop {
        let dir = open.last_mut().expect("the root is open until it is returned");
        path.truncate(dir.path);
        match dir.items.next() {
            Some(Item::Entry(name, mode, oid)) => {
                path.extend_from_slice(&name);
                verify(&path, mode, protect)?;
                if last >= path {
                    return Err(LookError::Unsupported("trees that hold a name twice, or are not sorted"));
                }
                let stat = Stat::default();
                let entry = NewEntry { stat, oid, mode, flags: Flags::empty(), stage: Stage::Normal };
                index.push(path.as_bstr(), entry);
                last.clone_from(&path);
            }
            Some(Item::Directory(name, number)) => {
                path.extend_from_slice(&name);
                path.push(b'/');
                let (length, first) = (path.len(), index.len());
                open.push(enter(number, name, length, first));
            }
            None => {
                let Open { oid, first, mut node, below, has_empty, .. } = open.pop().expect("just seen");
                let count = (index.len() - first) as u32;
                node.set_children(below);
                node.valid = (!has_empty).then_some((oid, count));
                match open.last_mut() {
                    Some(above) if count == 0 => above.has_empty = true,
                    Some(above) => {
                        above.has_empty |= has_empty;
                        above.below.push(node);
                    }
                    None => {
                        index.cache_tree = Some(node);
                        return Ok(index);
                    }
                }
            }
        }
    }
}

fn verify(path: &BString, mode: Mode, protect: Protect) -> Result<(), LookError> {
    format::path::verify(path.as_bstr(), mode, protect).map_err(|_| LookError::InvalidPath(path.clone()))
}
