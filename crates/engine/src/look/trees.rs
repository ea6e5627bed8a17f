//! The walk: trees and index -> the paths something may have to be done about.
//!
//! Pure but for reading trees. Directories whose trees are all alike are not entered where that cannot
//! change anything (see [`Walker::skip`]), so the walk costs what differs. Rows come in the order in
//! which Git reports refusals: each directory in the order of its trees, a name before what is below it,
//! and last what only the index has.

use std::{ops::Range, sync::Mutex};

use bstr::{BStr, BString, ByteSlice};
use format::{
    Mode, ObjectId,
    index::{CacheTree, Flags, Index, Stage},
    tree::TreeEntries,
};
use repo::objects;

use crate::{
    crew::{self, Tuning},
    look::LookError,
};

/// A path that was added, or removed, on one side alone of a three-way merge, or was removed on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// Its stages are left to whoever merges files.
    Leave,
    /// `--aggressive`: it is settled.
    Settle,
}

/// Where trees are read from; tests use a map.
pub(crate) trait TreeSource: Sync {
    /// A reader of one thread.
    fn reader(&self, number: usize) -> Box<dyn TreeReader + '_>;
    /// Whether there is such a tree.
    fn has(&self, oid: &ObjectId) -> bool;
}

/// Reads trees.
pub(crate) trait TreeReader: Send {
    /// The content of tree `oid` replaces what `out` holds.
    fn read_tree(&mut self, oid: &ObjectId, out: &mut Vec<u8>) -> Result<(), LookError>;
}

impl TreeSource for objects::Objects {
    fn reader(&self, number: usize) -> Box<dyn TreeReader + '_> {
        Box::new(crew::reader(self, number))
    }

    fn has(&self, oid: &ObjectId) -> bool {
        self.contains(oid)
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

/// What one tree holds at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Nothing.
    Missing,
    /// A directory, while a file of that name is elsewhere; or nothing, below such a file.
    Conflict,
    /// A file, link or gitlink.
    Entry(Mode, ObjectId),
}

/// What the index holds at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Nothing,
    /// The position of a merged entry.
    Merged(usize),
    /// The position of the first of the unmerged entries.
    Unmerged(usize),
}

/// A path something may have to be done about.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) path: BString,
    pub(crate) slot: Slot,
    /// One for each tree, in the merge's order.
    pub(crate) sides: Vec<Side>,
}

/// What the walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    /// Index entries known to be the target's without having been looked at one by one.
    pub(crate) same: Vec<Range<usize>>,
}

/// Which kind of merge walks: they differ in what may be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "Git's names")]
pub(crate) enum Kind {
    OneWay,
    /// `initial`: paths missing from the index are to be taken from the target.
    TwoWay {
        initial: bool,
    },
    ThreeWay {
        one_sided: OneSided,
    },
    Overlay,
    Bind,
}

/// What of a tree that holds a name twice, which Git makes something of, but nobody on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twice {
    /// It is two rows.
    Shown,
    /// It is an error.
    Refused,
}

/// What of a file that the index has as the only tree has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alike {
    /// It is a row.
    Told,
    /// It is not, nor is what is below a directory that need not be entered.
    Left,
}

/// Walks `trees` (`None` is the empty tree) beside `index`.
pub(crate) fn walk(
    source: &dyn TreeSource,
    index: &Index,
    kind: Kind,
    trees: Vec<Option<ObjectId>>,
) -> Result<Found, LookError> {
    visit_all(source, index, (kind, Twice::Shown, Alike::Told), trees, BStr::new(""))
}

/// The same for a plan, or for a list with one line for a path, with the trees standing at the directory `below`. No tree may hold a name twice.
pub(crate) fn walk_below(
    source: &dyn TreeSource,
    index: &Index,
    kind: Kind,
    trees: Vec<Option<ObjectId>>,
    below: &BStr,
) -> Result<Found, LookError> {
    visit_all(source, index, (kind, Twice::Refused, Alike::Told), trees, below)
}

/// What a one-way merge to `tree` would have to do something about, or may: submodules, which may not be there, and what is only intended to be added are rows in any case.
pub(crate) fn differences(
    source: &dyn TreeSource,
    index: &Index,
    tree: Option<ObjectId>,
) -> Result<Found, LookError> {
    visit_all(source, index, (Kind::OneWay, Twice::Refused, Alike::Left), vec![tree], BStr::new(""))
}

fn visit_all(
    source: &dyn TreeSource,
    index: &Index,
    (kind, twice, alike): (Kind, Twice, Alike),
    trees: Vec<Option<ObjectId>>,
    below: &BStr,
) -> Result<Found, LookError> {
    let count = trees.len();
    let unmerged = matches!(kind, Kind::TwoWay { .. }) && index.is_unmerged();
    let walker = Walker { index, kind, twice, alike, unmerged };
    let root = Directory {
        path: below.to_owned(),
        trees,
        conflicts: 0,
        range: index.range_below(below),
        cached: index.cache_tree.as_ref().and_then(|tree| tree.find(below)),
    };
    // The root is always entered, as by Git: what the tree holds may have been replaced (`refs/replace/`).
    let mut found = Found::default();
    let visited = walker.run(source, root)?;
    let mut seen = vec![false; index.len()];
    flatten(index, visited, &mut found, &mut seen);
    walker.left_over(count, &mut found, &seen);
    Ok(found)
}

/// A directory to be entered.
struct Directory<'a> {
    path: BString,
    /// `None`: the tree has no such directory.
    trees: Vec<Option<ObjectId>>,
    /// Bit `n`: tree `n` has a file where this directory or one above it is.
    conflicts: u64,
    /// The index entries below it.
    range: Range<usize>,
    cached: Option<&'a CacheTree>,
}

/// What a directory brought, in order.
enum Item {
    Row(Row),
    /// Index entries skipped, being the target's.
    Same(Range<usize>),
    /// Index entries skipped, to be left alone.
    Keep(Range<usize>),
    /// The directory with this number.
    Directory(usize),
}

/// Whether a directory need not be entered.
enum Skip {
    No,
    Keep,
    Same,
}

struct Walker<'a> {
    index: &'a Index,
    kind: Kind,
    twice: Twice,
    alike: Alike,
    /// A two-way merge meets unmerged entries.
    unmerged: bool,
}

/// Reading a directory's trees costs as much as so many files: a second thread pays from 16 of one depth on.
const WEIGHT: usize = 2;

impl<'a> Walker<'a> {
    /// Breadth first, so that all directories of one depth can be read at once.
    fn run(&self, source: &dyn TreeSource, root: Directory<'a>) -> Result<Vec<Vec<Item>>, LookError> {
        let (spare, tuning) = (Mutex::new(Vec::new()), Tuning::default());
        let mut done: Vec<Vec<Item>> = Vec::new();
        let mut level = vec![root];
        while !level.is_empty() {
            let outcome = crew::map(
                ("tree", &tuning),
                &level,
                |_| WEIGHT,
                &spare,
                |number| (source.reader(number), Vec::new()),
                |(reader, buffers), directory| self.visit(directory, &mut **reader, buffers),
            )?;
            // Directories are numbered as they will be entered: this level's, then the next one's.
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

    /// Whether everything below `directory` stays as it is, whatever the worktree says.
    ///
    /// - One-way: the index has exactly the target's entries there, by its cache-tree.
    /// - Two-way: cases 3, 14 and 15, as long as nothing is unmerged (22, 23) and a missing entry
    ///   means a staged removal.
    /// - Three-way: case 5ALT/15, the index and the bases having exactly these entries: what a base
    ///   alone has would stay as its stage (case 6).
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

    /// What becomes of a directory that stands as one entry was settled before ([`crate::look::sparse::settle()`]).
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
            if last.replace(name) == Some(name) && self.twice == Twice::Refused {
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

    /// The shortcut for most names of a two-way merge: the same file in both trees, cases 3, 14, 15.
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
            && self.is_no_difference(at, *side)
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

    /// Whether the index has at `at` what the only tree has, and nobody makes anything of that.
    fn is_no_difference(&self, at: usize, (mode, oid): (Mode, ObjectId)) -> bool {
        self.alike == Alike::Left && !mode.is_tree() && !mode.is_gitlink() && {
            let entry = self.index.entry(at);
            (entry.mode, entry.oid) == (mode, oid) && !entry.flags.contains(Flags::INTENT_TO_ADD)
        }
    }

    /// What the index has at `path`, which most often is `next`.
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

    /// The entries below `dir`, of which `next` is the first most often.
    fn range_below(&self, dir: &BStr, next: usize, within: &Range<usize>) -> Range<usize> {
        let mut bound = dir.to_owned();
        bound.push(b'/');
        if next < within.end && self.index.path_at(next).starts_with(&bound) {
            return next..self.index.end_of_prefix(next, bound.len(), within.end);
        }
        let start = self.index.first_in(within.clone(), bound.as_bstr());
        // '0' follows '/'.
        *bound.last_mut().expect("a slash was pushed") = b'0';
        start..self.index.first_in(start..within.end, bound.as_bstr())
    }

    /// What only the index has. A two-way merge keeps it (cases 4, 5) unless it is unmerged; who puts a tree
    /// beside it keeps all.
    fn left_over(&self, trees: usize, found: &mut Found, seen: &[bool]) {
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

/// What a directory brought, and the directories to enter next.
struct Visit<'a> {
    items: Vec<Item>,
    below: Vec<Directory<'a>>,
    /// Behind the entry that was met last.
    next: usize,
}

impl Visit<'_> {
    /// The entry at `at` is left alone.
    fn keep(&mut self, at: usize) {
        match self.items.last_mut() {
            Some(Item::Keep(range)) if range.end == at => range.end += 1,
            _ => self.items.push(Item::Keep(at..at + 1)),
        }
    }
}

/// Puts what the directories brought into Git's order, and marks the index entries met.
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

/// The entries of one tree that have not been taken.
struct Listing<'a> {
    entries: Vec<Option<format::tree::TreeEntry<'a>>>,
    first: usize,
}

impl<'a> Listing<'a> {
    fn parse(data: &'a [u8], oid: Option<&ObjectId>, hash: format::HashKind) -> Result<Self, LookError> {
        let entries = TreeEntries::new(hash, data).map(|entry| entry.map(Some)).collect::<Result<_, _>>();
        match (entries, oid) {
            (Ok(entries), _) => Ok(Listing { entries, first: 0 }),
            (Err(_), Some(oid)) => Err(LookError::MalformedTree(*oid)),
            (Err(_), None) => Ok(Listing { entries: Vec::new(), first: 0 }),
        }
    }

    fn head(&mut self) -> Option<&'a BStr> {
        while let Some(None) = self.entries.get(self.first) {
            self.first += 1;
        }
        self.entries.get(self.first).and_then(|entry| entry.as_ref()).map(|entry| entry.name)
    }

    /// Takes the entry called `name`. A directory sorts as if its name ended in a slash: `t` may come
    /// after `t-2`, so that it has to be looked for.
    fn take(&mut self, name: &BStr) -> Option<(Mode, ObjectId)> {
        self.head()?;
        for entry in &mut self.entries[self.first..] {
            let Some(found) = entry else { continue };
            if found.name == name {
                let taken = (found.mode, found.oid);
                *entry = None;
                return Some(taken);
            }
            let may_follow = found.name.starts_with(name) && found.name[name.len()] < b'/';
            if !may_follow && found.name > name {
                return None;
            }
        }
        None
    }
}

/// The smallest of the names the trees are at, and what each tree has of that name.
fn next_name<'a>(listings: &mut [Listing<'a>], sides: &mut [Option<(Mode, ObjectId)>]) -> Option<&'a BStr> {
    let name = listings.iter_mut().filter_map(Listing::head).min()?;
    for (listing, side) in listings.iter_mut().zip(sides) {
        *side = listing.take(name);
    }
    Some(name)
}
