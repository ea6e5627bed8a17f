//! Walks trees together with the index, and returns the paths that an operation may have to act on.
//!
//! The walk only reads trees. A directory whose trees are all equal is skipped where that cannot
//! change the result (see [`Walker::skip`]), so the cost is proportional to the differences. Rows
//! are in the order in which Git reports refusals: each directory in the order of its trees, a name
//! before the paths below it, and finally the paths that only the index has.

mod listing;

use std::{ops::Range, sync::Mutex};

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{CacheTree, Flags, Index, Stage},
};
use listing::{Listing, next_name};
use repo::objects;

use super::tree_limits::{self, TreeLimits};
use crate::{
    crew::{self, Tuning},
    look::LookError,
};

/// The treatment of a path that was added or removed on only one side of a three-way merge, or was
/// removed on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// Its stages are left to a merge of the file contents.
    Leave,
    /// The merge settles it (`--aggressive`).
    Settle,
}

/// The source of trees; tests use a map.
pub(crate) trait TreeSource: Sync {
    /// Creates a reader for one thread.
    fn reader(&self, number: usize) -> Box<dyn TreeReader + '_>;
    /// Returns true if the tree exists.
    fn has(&self, oid: &ObjectId) -> bool;
    /// Returns `core.maxTreeDepth`.
    fn max_depth(&self) -> i32 {
        objects::MAX_TREE_DEPTH
    }
}

/// Reads trees.
pub(crate) trait TreeReader: Send {
    /// Replaces the content of `out` with that of tree `oid`.
    fn read_tree(&mut self, oid: &ObjectId, out: &mut Vec<u8>) -> Result<(), LookError>;
}

impl TreeSource for objects::Objects {
    fn reader(&self, number: usize) -> Box<dyn TreeReader + '_> {
        Box::new(crew::reader(self, number))
    }

    fn has(&self, oid: &ObjectId) -> bool {
        self.contains(oid)
    }

    fn max_depth(&self) -> i32 {
        self.max_tree_depth()
    }
}

impl TreeReader for objects::Reader<'_> {
    fn read_tree(&mut self, oid: &ObjectId, out: &mut Vec<u8>) -> Result<(), LookError> {
        let (kind, data) = match self.read(oid) {
            Err(objects::Error::Missing(oid)) => return Err(LookError::NoTree(oid)),
            read => read?,
        };
        if kind != objects::Kind::Tree {
            return Err(LookError::NoTree(*oid));
        }
        out.clear();
        out.extend_from_slice(data);
        Ok(())
    }
}

/// The content of one tree at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The path is absent.
    Missing,
    /// A directory where another tree has a file, or an absent path below such a file.
    Conflict,
    /// A file, link or gitlink.
    Entry(Mode, ObjectId),
}

/// The content of the index at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Nothing,
    /// The position of a merged entry.
    Merged(usize),
    /// The position of the first unmerged entry.
    Unmerged(usize),
}

/// A path that an operation may have to act on.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) path: BString,
    pub(crate) slot: Slot,
    /// One for each tree, in the order of the merge.
    pub(crate) sides: Vec<Side>,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    /// Index entries that equal the target's. They were skipped without a comparison of each.
    pub(crate) same: Vec<Range<usize>>,
}

/// The kind of merge, which determines the directories that may be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "Git's names")]
pub(crate) enum Kind {
    OneWay,
    /// `initial`: the index is empty or missing, so paths that it lacks are taken from the target.
    TwoWay {
        initial: bool,
    },
    ThreeWay {
        one_sided: OneSided,
    },
    Overlay,
    Bind,
}

/// The treatment of a tree that contains a name twice. Git processes such trees, but no Git command
/// creates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DuplicateNames {
    /// Each occurrence is a row.
    Rows,
    /// The walk fails.
    Refused,
}

/// The treatment of a file that is equal in the index and the only tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EqualFiles {
    /// It is a row.
    Rows,
    /// It is omitted, as is everything below a directory that is not entered.
    Omitted,
}

/// Walks `trees` (`None` is the empty tree) together with `index`.
pub(crate) fn walk(
    source: &dyn TreeSource,
    index: &Index,
    kind: Kind,
    trees: Vec<Option<ObjectId>>,
) -> Result<Found, LookError> {
    visit_all(source, index, kind, DuplicateNames::Rows, EqualFiles::Rows, trees, BStr::new(""))
}

/// Like [`walk`], with the trees at the directory `below`. Returns an error if a tree contains a
/// name twice.
pub(crate) fn walk_below(
    source: &dyn TreeSource,
    index: &Index,
    kind: Kind,
    trees: Vec<Option<ObjectId>>,
    below: &BStr,
) -> Result<Found, LookError> {
    visit_all(source, index, kind, DuplicateNames::Refused, EqualFiles::Rows, trees, below)
}

/// Returns the rows on which a one-way merge to `tree` acts or may act. Submodules, which may be
/// missing, and intent-to-add entries are always rows.
pub(crate) fn differences(
    source: &dyn TreeSource,
    index: &Index,
    tree: Option<ObjectId>,
) -> Result<Found, LookError> {
    visit_all(
        source,
        index,
        Kind::OneWay,
        DuplicateNames::Refused,
        EqualFiles::Omitted,
        vec![tree],
        BStr::new(""),
    )
}

fn visit_all(
    source: &dyn TreeSource,
    index: &Index,
    kind: Kind,
    duplicate_names: DuplicateNames,
    equal_files: EqualFiles,
    trees: Vec<Option<ObjectId>>,
    below: &BStr,
) -> Result<Found, LookError> {
    let count = trees.len();
    let unmerged = matches!(kind, Kind::TwoWay { .. }) && index.is_unmerged();
    let walker = Walker { index, kind, duplicate_names, equal_files, unmerged };
    let root = Directory {
        path: below.to_owned(),
        trees,
        conflicts: 0,
        range: index.range_below(below),
        cached: index.cache_tree.as_ref().and_then(|tree| tree.find(below)),
    };
    // Like in Git, the root is always entered: the content of the tree may have been replaced
    // (`refs/replace/`).
    let mut found = Found::default();
    let visited = walker.run(source, root)?;
    let mut seen = vec![false; index.len()];
    flatten(index, visited, &mut found, &mut seen);
    walker.add_index_only(count, &mut found, &seen);
    Ok(found)
}

/// A directory to enter.
struct Directory<'a> {
    path: BString,
    /// `None` if the tree has no such directory.
    trees: Vec<Option<ObjectId>>,
    /// Bit `n` is set if tree `n` has a file at the path of this directory or of one of its
    /// parents.
    conflicts: u64,
    /// The index entries below it.
    range: Range<usize>,
    cached: Option<&'a CacheTree>,
}

/// An element of a directory, in order.
enum Item {
    Row(Row),
    /// Skipped index entries that equal the target's.
    Same(Range<usize>),
    /// Skipped index entries that stay unchanged.
    Keep(Range<usize>),
    /// The directory with this number.
    Directory(usize),
}

/// The decision whether a directory is entered.
enum Skip {
    No,
    Keep,
    Same,
}

struct Walker<'a> {
    index: &'a Index,
    kind: Kind,
    duplicate_names: DuplicateNames,
    equal_files: EqualFiles,
    /// True if the index has unmerged entries in a two-way merge.
    unmerged: bool,
}

/// Reading the trees of a directory costs about as much as two files. So a second thread pays off
/// from 16 directories at one depth.
const WEIGHT: usize = 2;

impl<'a> Walker<'a> {
    /// Walks breadth first, so that all directories at one depth can be read in parallel.
    fn run(&self, source: &dyn TreeSource, root: Directory<'a>) -> Result<Vec<Vec<Item>>, LookError> {
        let (spare, tuning) = (Mutex::new(Vec::new()), Tuning::default());
        let mut done: Vec<Vec<Item>> = Vec::new();
        let mut level = vec![root];
        let limits = TreeLimits::default();
        for depth in 0.. {
            if level.is_empty() {
                break;
            }
            tree_limits::check_depth(depth, source.max_depth())?;
            let outcome = crew::map(
                "tree",
                &tuning,
                &level,
                |_| WEIGHT,
                &spare,
                |number| (source.reader(number), Vec::new()),
                |(reader, buffers), directory| {
                    let visit = self.visit(directory, &mut **reader, buffers)?;
                    limits.add(visit.items.len())?;
                    Ok::<_, LookError>(visit)
                },
            )?;
            // Directories are numbered in the order in which they are entered: first this level,
            // then the next.
            let mut number = done.len() + level.len();
            level = Vec::new();
            for visit in outcome {
                let mut items = visit.items;
                for item in &mut items {
                    if let Item::Directory(at) = item {
                        *at = number;
                        number += 1;
                    }
                }
                done.push(items);
                level.extend(visit.below);
            }
        }
        Ok(done)
    }

    /// Decides whether everything below `directory` is unchanged, regardless of the worktree's
    /// state.
    ///
    /// - One-way: by its cache-tree, the index has exactly the target's entries there.
    /// - Two-way: cases 3, 14 and 15, if nothing is unmerged (22, 23) and a missing entry means a
    ///   staged removal.
    /// - Three-way: case 5ALT/15, if the index and the bases have exactly these entries. An entry
    ///   that only a base has would be kept as an unmerged stage (case 6).
    fn skip(&self, directory: &Directory<'_>) -> Skip {
        if self.is_one_entry(directory) {
            return Skip::Keep;
        }
        let Some(target) = directory.trees.last().copied().flatten() else { return Skip::No };
        if directory.conflicts != 0 {
            return Skip::No;
        }
        let cached = || {
            directory
                .cached
                .and_then(|node| node.valid)
                .is_some_and(|(oid, count)| oid == target && count as usize == directory.range.len())
        };
        match self.kind {
            Kind::OneWay if cached() => Skip::Same,
            Kind::TwoWay { initial: false }
                if directory.trees[0] == Some(target)
                    && !(self.unmerged && self.any_unmerged(&directory.range)) =>
            {
                Skip::Keep
            }
            Kind::ThreeWay { .. } if directory.trees.iter().all(|tree| *tree == Some(target)) && cached() => {
                Skip::Same
            }
            _ => Skip::No,
        }
    }

    /// Returns true for a collapsed directory of a sparse index. [`crate::look::sparse::settle()`]
    /// has already decided that it stays collapsed.
    fn is_one_entry(&self, directory: &Directory<'_>) -> bool {
        self.index.sparse && directory.range.len() == 1 && {
            let at = directory.range.start;
            self.index.mode_at(at).is_tree() && self.index.path_at(at).len() == directory.path.len() + 1
        }
    }

    fn any_unmerged(&self, range: &Range<usize>) -> bool {
        range.clone().any(|at| self.index.stage_at(at) != Stage::Normal)
    }

    fn visit(
        &self,
        directory: &Directory<'a>,
        reader: &mut dyn TreeReader,
        buffers: &mut Vec<Vec<u8>>,
    ) -> Result<Visit<'a>, LookError> {
        let count = directory.trees.len();
        buffers.resize_with(count, Vec::new);
        let mut listings = Vec::with_capacity(count);
        for (buffer, tree) in buffers.iter_mut().zip(&directory.trees) {
            buffer.clear();
            if let Some(oid) = tree {
                reader.read_tree(oid, buffer)?;
            }
        }
        for (buffer, tree) in buffers.iter().zip(&directory.trees) {
            listings.push(Listing::parse(buffer, tree.as_ref(), self.index.hash)?);
        }
        let mut visit = Visit { items: Vec::new(), below: Vec::new(), next: directory.range.start };
        let mut path = directory.path.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        let base = path.len();
        let mut sides = vec![None; count];
        let mut last = None;
        while let Some(name) = next_name(&mut listings, &mut sides) {
            if last.replace(name) == Some(name) && self.duplicate_names == DuplicateNames::Refused {
                return Err(LookError::Unsupported("trees that hold a name twice"));
            }
            if self.is_unchanged_file(directory, &sides) {
                continue;
            }
            path.truncate(base);
            path.extend_from_slice(name);
            self.visit_name(directory, path.as_bstr(), &sides, &mut visit);
        }
        Ok(visit)
    }

    /// Returns true if the file is equal in both trees of a two-way merge, which is the fast path
    /// for most names (cases 3, 14, 15).
    fn is_unchanged_file(&self, directory: &Directory<'_>, sides: &[Option<(Mode, ObjectId)>]) -> bool {
        matches!(self.kind, Kind::TwoWay { initial: false })
            && !self.unmerged
            && directory.conflicts == 0
            && sides[0] == sides[1]
            && sides[0].is_some_and(|(mode, _)| !mode.is_tree())
    }

    fn visit_name(
        &self,
        directory: &Directory<'a>,
        path: &BStr,
        sides: &[Option<(Mode, ObjectId)>],
        visit: &mut Visit<'a>,
    ) {
        let bits = |wanted: fn(Mode) -> bool| {
            sides
                .iter()
                .enumerate()
                .filter(|(_, side)| side.is_some_and(|(mode, _)| wanted(mode)))
                .fold(0, |bits, (at, _)| bits | 1u64 << at)
        };
        let (directories, files) = (bits(Mode::is_tree), bits(|mode| !mode.is_tree()));
        let slot = self.slot(path, visit.next, &directory.range);
        if let Slot::Merged(at) | Slot::Unmerged(at) = slot {
            visit.next = at + 1;
        }
        if let (Slot::Merged(at), [Some(side)]) = (slot, sides)
            && directory.conflicts == 0
            && self.is_omitted(at, *side)
        {
            return visit.keep(at);
        }
        if files != 0 || slot != Slot::Nothing {
            let conflicts = directory.conflicts | directories;
            let sides = sides
                .iter()
                .enumerate()
                .map(|(at, side)| match side {
                    _ if conflicts >> at & 1 == 1 => Side::Conflict,
                    Some((mode, oid)) => Side::Entry(*mode, *oid),
                    None => Side::Missing,
                })
                .collect();
            visit.items.push(Item::Row(Row { path: path.to_owned(), slot, sides }));
        }
        if directories == 0 {
            return;
        }
        let below = Directory {
            path: path.to_owned(),
            trees: sides
                .iter()
                .map(|side| side.filter(|(mode, _)| mode.is_tree()).map(|(_, oid)| oid))
                .collect(),
            conflicts: directory.conflicts | files,
            range: self.range_below(path, visit.next, &directory.range),
            cached: directory.cached.and_then(|node| {
                let name = path.rfind_byte(b'/').map_or(path, |slash| path[slash + 1..].as_bstr());
                node.child(name)
            }),
        };
        visit.next = visit.next.max(below.range.end);
        match self.skip(&below) {
            Skip::Keep => visit.items.push(Item::Keep(below.range)),
            Skip::Same => visit.items.push(Item::Same(below.range)),
            Skip::No => {
                visit.items.push(Item::Directory(0));
                visit.below.push(below);
            }
        }
    }

    /// Returns true if the entry at `at` equals the only tree's and can be left out.
    fn is_omitted(&self, at: usize, (mode, oid): (Mode, ObjectId)) -> bool {
        self.equal_files == EqualFiles::Omitted && !mode.is_tree() && !mode.is_gitlink() && {
            let entry = self.index.entry(at);
            (entry.mode, entry.oid) == (mode, oid) && !entry.flags.contains(Flags::INTENT_TO_ADD)
        }
    }

    /// Returns the index entry or entries at `path`. The position is usually `next`.
    fn slot(&self, path: &BStr, next: usize, within: &Range<usize>) -> Slot {
        let is_next = next < within.end && self.index.path_at(next) == path;
        let at = if is_next { next } else { self.index.first_in(within.clone(), path) };
        if at == within.end || self.index.path_at(at) != path {
            return Slot::Nothing;
        }
        match self.index.stage_at(at) {
            Stage::Normal => Slot::Merged(at),
            _ => Slot::Unmerged(at),
        }
    }

    /// Returns the entries below `dir`. The first of them is usually at `next`.
    fn range_below(&self, dir: &BStr, next: usize, within: &Range<usize>) -> Range<usize> {
        let mut bound = dir.to_owned();
        bound.push(b'/');
        if next < within.end && self.index.path_at(next).starts_with(&bound) {
            return next..self.index.end_of_prefix(next, bound.len(), within.end);
        }
        let start = self.index.first_in(within.clone(), bound.as_bstr());
        // '0' follows '/' in byte order.
        *bound.last_mut().expect("a slash was pushed") = b'0';
        start..self.index.first_in(start..within.end, bound.as_bstr())
    }

    /// Adds the paths that only the index has. A two-way merge keeps them (cases 4, 5) unless they
    /// are unmerged; [`Kind::Bind`] keeps all.
    fn add_index_only(&self, trees: usize, found: &mut Found, seen: &[bool]) {
        let two_way = matches!(self.kind, Kind::TwoWay { .. });
        if two_way && !self.unmerged || self.kind == Kind::Bind {
            return;
        }
        let mut last: Option<&BStr> = None;
        for at in (0..seen.len()).filter(|&at| !seen[at]) {
            let path = self.index.path_at(at);
            let merged = self.index.stage_at(at) == Stage::Normal;
            if two_way && merged || !merged && last == Some(path) {
                continue;
            }
            last = Some(path);
            let slot = if merged { Slot::Merged(at) } else { Slot::Unmerged(at) };
            let sides = vec![Side::Missing; trees];
            found.rows.push(Row { path: path.to_owned(), slot, sides });
        }
    }
}

/// The elements of a directory, and the directories to enter next.
struct Visit<'a> {
    items: Vec<Item>,
    below: Vec<Directory<'a>>,
    /// The position after the last matched entry.
    next: usize,
}

impl Visit<'_> {
    /// Keeps the entry at `at` unchanged.
    fn keep(&mut self, at: usize) {
        match self.items.last_mut() {
            Some(Item::Keep(range)) if range.end == at => range.end += 1,
            _ => self.items.push(Item::Keep(at..at + 1)),
        }
    }
}

/// Puts the elements of all directories into Git's order, and marks the matched index entries.
fn flatten(index: &Index, mut visited: Vec<Vec<Item>>, found: &mut Found, seen: &mut [bool]) {
    let mut open = vec![std::mem::take(&mut visited[0]).into_iter()];
    while let Some(items) = open.last_mut() {
        match items.next() {
            None => {
                open.pop();
            }
            Some(Item::Directory(at)) => open.push(std::mem::take(&mut visited[at]).into_iter()),
            Some(Item::Keep(range)) => seen[range].fill(true),
            Some(Item::Same(range)) => {
                seen[range.clone()].fill(true);
                found.same.push(range);
            }
            Some(Item::Row(row)) => {
                match row.slot {
                    Slot::Merged(at) => seen[at] = true,
                    Slot::Unmerged(_) => seen[index.range_of(row.path.as_bstr())].fill(true),
                    Slot::Nothing => {}
                }
                found.rows.push(row);
            }
        }
    }
}
