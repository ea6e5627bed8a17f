//! The changes from the tree of a base to another tree, for a difference over that base.
//!
//! Only subtrees with different names are read. So the work depends on the changes and on the sizes
//! of the directories that hold them. It ends as soon as there are more changes than wanted.
//!
//! Positions in the index of the base follow from its cache-tree, which counts the entries of each
//! directory. The index itself is not read.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    ops::Range,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{Mode, ObjectId, index::CacheTree, path::Protect, tree::TreeEntries};
use repo::objects::{Objects, Reader};

use crate::{
    look::{LookError, trees::TreeReader as _},
    sparse::Patterns,
};

/// The reason why there are no changes to return.
#[derive(Debug)]
pub(super) enum Stop {
    /// The trees differ in too much, or in a way that only a whole base can show.
    Unfit,
    /// A tree cannot be read.
    Failed(LookError),
}

impl From<LookError> for Stop {
    fn from(error: LookError) -> Stop {
        Stop::Failed(error)
    }
}

/// An entry of the new tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: BString,
    pub(super) mode: Mode,
    pub(super) oid: ObjectId,
    pub(super) origin: Origin,
}

/// The relation of an entry to the index of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It replaces the entry at this position, which has the same path.
    Replaces(usize),
    /// It is new. The entry at this position comes next.
    Before(usize),
}

/// A directory of the new tree whose tree the base lacks at this path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    /// Its path without a slash at the end; empty for the root.
    pub(super) path: BString,
    pub(super) tree: ObjectId,
    /// The number of its index entries.
    pub(super) count: u32,
    /// The names of its subdirectories.
    pub(super) directories: Vec<BString>,
    /// The blob of its file `.gitignore`.
    pub(super) rules: Option<ObjectId>,
}

/// The changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// New and replaced entries, sorted by path.
    pub(super) items: Vec<Item>,
    /// Ranges of positions in the index of the base, in ascending order.
    pub(super) deleted: Vec<Range<usize>>,
    /// Paths of the base that must not be visible, sorted. Everything below them is hidden too.
    pub(super) hidden: Vec<BString>,
    /// The directories, each after its parent.
    pub(super) directories: Vec<Directory>,
    /// Directories of the new tree that sparse patterns leave without a file.
    pub(super) absent: HashSet<BString>,
    /// The attribute files of `directories`.
    pub(super) attributes: Vec<Item>,
}

impl Changes {
    /// Compares the tree `old`, whose cache-tree is `cache`, with the tree `new`. Returns
    /// [`Stop::Unfit`] for more than `most` changes.
    pub(super) fn between(
        objects: &Objects,
        (old, cache): (ObjectId, &CacheTree),
        new: ObjectId,
        patterns: Option<&Patterns>,
        protect: Protect,
        most: usize,
    ) -> Result<Changes, Stop> {
        let mut walk = Walk {
            reader: objects.reader(),
            patterns,
            protect,
            depth: objects.max_tree_depth(),
            left: most,
            searches: most.saturating_mul(SEARCHES),
            changes: Changes::default(),
        };
        if cache.valid.is_none_or(|(oid, _)| oid != old) {
            return Err(Stop::Unfit);
        }
        walk.compare(old, new, &mut BString::default(), 0, cache)?;
        let mut changes = walk.changes;
        changes.items.sort_by(|one, other| one.path.cmp(&other.path));
        changes.deleted.sort_by_key(|range| range.start);
        changes.hidden.sort();
        changes.directories.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    /// Returns the number of changes.
    pub(super) fn len(&self) -> usize {
        self.items.len() + self.hidden.len()
    }
}

/// An entry of a tree.
struct Member {
    name: BString,
    mode: Mode,
    oid: ObjectId,
}

impl Member {
    fn is_tree(&self) -> bool {
        self.mode.is_tree()
    }
}

struct Walk<'a> {
    reader: Reader<'a>,
    patterns: Option<&'a Patterns>,
    protect: Protect,
    depth: i32,
    /// The number of changes that may follow.
    left: usize,
    /// The number of trees that may be searched for a file in the sparse worktree.
    searches: usize,
    changes: Changes,
}

/// The number of trees that a change may cause to be searched.
const SEARCHES: usize = 4;

const ATTRIBUTES: &str = ".gitattributes";
const RULES: &str = ".gitignore";

impl Walk<'_> {
    /// Compares two trees of the directory `path`. `first` is the position of its first entry in
    /// the index of the base. Returns the number of entries of the new tree.
    fn compare(
        &mut self,
        old: ObjectId,
        new: ObjectId,
        path: &mut BString,
        first: usize,
        cache: &CacheTree,
    ) -> Result<u32, Stop> {
        let (old_members, new_members) = (self.read(&old)?, self.read(&new)?);
        let positions = positions(&old_members, first, cache)?;
        let by_name = |members: &[Member]| -> Result<HashMap<BString, usize>, Stop> {
            let all: HashMap<_, _> =
                members.iter().enumerate().map(|(at, member)| (member.name.clone(), at)).collect();
            if all.len() == members.len() { Ok(all) } else { Err(Stop::Unfit) }
        };
        let (old_names, new_names) = (by_name(&old_members)?, by_name(&new_members)?);
        let number = self.changes.directories.len();
        self.add_directory(path, new, &new_members);
        let mut count = 0;
        for (at, was) in old_members.iter().enumerate() {
            if !new_names.contains_key(was.name.as_bstr()) {
                self.within(path, was, |walk, path| {
                    walk.remove(was, path, positions[at]..positions[at + 1])
                })?;
            }
        }
        for is in &new_members {
            let before = old_names
                .get(is.name.as_bstr())
                .map(|&at| (&old_members[at], positions[at]..positions[at + 1]));
            count += match before {
                Some((was, range)) if (was.mode, was.oid) == (is.mode, is.oid) => range.len() as u32,
                Some((was, range)) if was.is_tree() && is.is_tree() => {
                    let below = cache.child(is.name.as_bstr()).ok_or(Stop::Unfit)?;
                    self.within(path, is, |walk, path| {
                        walk.compare(was.oid, is.oid, path, range.start, below)
                    })?
                }
                Some((was, range)) => self.within(path, is, |walk, path| {
                    let next = next_position(&old_members, &positions, is);
                    walk.replace((was, range), is, path, next)
                })?,
                None => {
                    refuse_attributes(is)?;
                    let next = next_position(&old_members, &positions, is);
                    self.within(path, is, |walk, path| walk.add(is, path, next))?
                }
            };
        }
        self.changes.directories[number].count = count;
        self.hide_if_empty(&old, &new, path)?;
        Ok(count)
    }

    /// Calls `act` with the path of a member of the directory `path`.
    fn within<T>(
        &mut self,
        path: &mut BString,
        member: &Member,
        act: impl FnOnce(&mut Self, &mut BString) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let length = path.len();
        if length > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&member.name);
        let depth = path.iter().filter(|&&byte| byte == b'/').count() + 1;
        if i32::try_from(depth).is_ok_and(|depth| depth >= self.depth) {
            return Err(Stop::Unfit);
        }
        let result = act(self, path);
        path.truncate(length);
        result
    }

    fn read(&mut self, tree: &ObjectId) -> Result<Vec<Member>, Stop> {
        let mut data = Vec::new();
        self.reader.read_tree(tree, &mut data)?;
        let entries = TreeEntries::new(tree.kind(), &data);
        let members = entries.map(|entry| {
            let entry = entry.map_err(|_| LookError::MalformedTree(*tree))?;
            Ok(Member { name: entry.name.to_owned(), mode: entry.mode, oid: entry.oid })
        });
        let members: Vec<Member> = members.collect::<Result<_, LookError>>()?;
        // An unsorted or empty tree has no valid cache-tree, or no index.
        let is_sorted = members.windows(2).all(|two| order(&two[0], &two[1]) == Ordering::Less);
        if members.is_empty() || !is_sorted { Err(Stop::Unfit) } else { Ok(members) }
    }

    fn add_directory(&mut self, path: &BString, tree: ObjectId, members: &[Member]) {
        let file = |name: &str| members.iter().find(|member| member.name == name);
        let rules = file(RULES).filter(|member| member.mode.is_file()).map(|member| member.oid);
        if let Some(member) = file(ATTRIBUTES).filter(|member| !member.is_tree()) {
            let mut path = path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(ATTRIBUTES.as_bytes());
            let origin = Origin::Before(0);
            self.changes.attributes.push(Item { path, mode: member.mode, oid: member.oid, origin });
        }
        let directories = members.iter().filter(|member| member.is_tree()).map(|member| member.name.clone());
        let directories = directories.collect();
        self.changes.directories.push(Directory { path: path.clone(), tree, count: 0, directories, rules });
    }

    fn spend(&mut self) -> Result<(), Stop> {
        self.left = self.left.checked_sub(1).ok_or(Stop::Unfit)?;
        Ok(())
    }

    fn remove(&mut self, was: &Member, path: &BString, range: Range<usize>) -> Result<(), Stop> {
        self.spend()?;
        refuse_attributes(was)?;
        self.changes.deleted.push(range);
        if self.is_visible(was, path)? {
            self.changes.hidden.push(path.clone());
        }
        Ok(())
    }

    /// Replaces one member by another with the same name, at least one of which is no tree.
    fn replace(
        &mut self,
        (was, range): (&Member, Range<usize>),
        is: &Member,
        path: &mut BString,
        next: usize,
    ) -> Result<u32, Stop> {
        // The directory of a submodule is empty, and one in a layer shows what is below it.
        if was.is_tree() && is.mode.is_gitlink() {
            return Err(Stop::Unfit);
        }
        refuse_attributes(was)?;
        let (was_visible, is_visible) = (self.is_visible(was, path)?, self.is_visible(is, path)?);
        if was_visible && !is_visible {
            self.changes.hidden.push(path.clone());
        }
        if !was.is_tree() && !is.is_tree() {
            self.push(path, is, Origin::Replaces(range.start))?;
            return Ok(1);
        }
        self.changes.deleted.push(range);
        self.add(is, path, next)
    }

    /// Adds a member that the old tree lacks. Returns the number of its entries.
    fn add(&mut self, is: &Member, path: &mut BString, next: usize) -> Result<u32, Stop> {
        if !is.is_tree() {
            self.push(path, is, Origin::Before(next))?;
            return Ok(1);
        }
        let members = self.read(&is.oid)?;
        let number = self.changes.directories.len();
        self.add_directory(path, is.oid, &members);
        let mut count = 0;
        for member in &members {
            count += self.within(path, member, |walk, path| walk.add(member, path, next))?;
        }
        self.changes.directories[number].count = count;
        if !self.is_visible(is, path)? {
            self.changes.absent.insert(path.clone());
        }
        Ok(count)
    }

    fn push(&mut self, path: &BString, is: &Member, origin: Origin) -> Result<(), Stop> {
        self.spend()?;
        let invalid = |_| LookError::InvalidPath(path.clone());
        format::path::verify(path.as_bstr(), is.mode, self.protect).map_err(invalid)?;
        self.changes.items.push(Item { path: path.clone(), mode: is.mode, oid: is.oid, origin });
        Ok(())
    }

    /// A directory whose last file in the sparse worktree goes away goes away too.
    fn hide_if_empty(&mut self, old: &ObjectId, new: &ObjectId, path: &BString) -> Result<(), Stop> {
        if self.patterns.is_none() || path.is_empty() || self.keeps_any(new, &mut path.clone())? {
            return Ok(());
        }
        self.changes.absent.insert(path.clone());
        if self.keeps_any(old, &mut path.clone())? {
            self.changes.hidden.retain(|hidden| !is_below(hidden.as_bstr(), path.as_bstr()));
            self.changes.hidden.push(path.clone());
        }
        Ok(())
    }

    /// Returns true if a member is in the worktree: the file, or at least one file below it.
    fn is_visible(&mut self, member: &Member, path: &BString) -> Result<bool, Stop> {
        match self.patterns {
            None => Ok(true),
            Some(patterns) if !member.is_tree() => Ok(patterns.keeps(path.as_bstr())),
            Some(_) => self.keeps_any(&member.oid, &mut path.clone()),
        }
    }

    /// Returns true if the sparse patterns keep a file of the tree at `path`.
    fn keeps_any(&mut self, tree: &ObjectId, path: &mut BString) -> Result<bool, Stop> {
        let Some(patterns) = self.patterns else { return Ok(true) };
        if !patterns.may_keep_below(path.as_bstr()) {
            return Ok(false);
        }
        self.searches = self.searches.checked_sub(1).ok_or(Stop::Unfit)?;
        for member in self.read(tree)? {
            let is_kept = self.within(path, &member, |walk, path| {
                if member.is_tree() {
                    walk.keeps_any(&member.oid, path)
                } else {
                    Ok(patterns.keeps(path.as_bstr()))
                }
            })?;
            if is_kept {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Other attributes change the bytes of files that both trees have.
fn refuse_attributes(member: &Member) -> Result<(), Stop> {
    if member.name == ATTRIBUTES { Err(Stop::Unfit) } else { Ok(()) }
}

/// Returns the position of each member's first entry in the index of the base, and the one after
/// the last.
fn positions(members: &[Member], first: usize, cache: &CacheTree) -> Result<Vec<usize>, Stop> {
    let mut positions = vec![first];
    for member in members {
        let count = if member.is_tree() {
            let node = cache.child(member.name.as_bstr()).and_then(|node| node.valid);
            let (_, count) = node.filter(|(oid, _)| *oid == member.oid).ok_or(Stop::Unfit)?;
            count as usize
        } else {
            1
        };
        positions.push(positions.last().expect("one at least") + count);
    }
    Ok(positions)
}

/// Returns the position of the first entry of the base that comes after the new member.
fn next_position(members: &[Member], positions: &[usize], new: &Member) -> usize {
    positions[members.partition_point(|member| order(member, new) == Ordering::Less)]
}

/// The order of a tree: a directory counts as if its name ended in a slash.
fn order(one: &Member, other: &Member) -> Ordering {
    fn key(member: &Member) -> impl Iterator<Item = u8> + '_ {
        member.name.bytes().chain(member.is_tree().then_some(b'/'))
    }
    key(one).cmp(key(other))
}

/// Returns true if `path` lies below the directory `dir`.
pub(super) fn is_below(path: &BStr, dir: &BStr) -> bool {
    dir.is_empty() || path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}
