//! Merges a stash into the index and the worktree, unless file contents have to be merged.
//!
//! Git merges three trees: the base of the stash, the index, and the worktree of the stash. sapwood
//! merges a path if only the stash changed it, or if both sides made the same change. Renames do
//! not affect such paths, unless both sides add or delete paths ([`renames_matter`]).

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Edit, Entry, Index},
};
use repo::Repository;
use sys::{Dir, FileType, Stat};

use super::{Content, Error, snapshot::new_entry};
use crate::{
    add::{FileHasher, Found, PathProbe},
    checkout::{Plan, Premise, Removal, Write},
    look::{
        cache_tree,
        stat::{Match, StatRules},
        trees::{self, Kind, Side},
    },
};

/// The three trees of the merge.
#[derive(Clone, Copy, Debug)]
pub struct Merge {
    /// The tree of the commit on which the stash was made.
    pub base: ObjectId,
    /// The tree of the index.
    pub ours: ObjectId,
    /// The worktree's tree in the stash.
    pub theirs: ObjectId,
}

/// A path that the stash changes relative to the index.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The path.
    pub path: BString,
    /// Its content in the index.
    pub ours: Option<Content>,
    /// Its content in the stash.
    pub theirs: Option<Content>,
    /// The stat data of its file; `None` if the file does not exist.
    file: Option<Stat>,
}

/// A path that differs between two trees.
#[derive(Debug)]
struct Difference {
    path: BString,
    old: Option<Content>,
    new: Option<Content>,
}

/// Finds the paths that the stash changes. `index` has the tree `ours`. `big_file_threshold` is
/// `core.bigFileThreshold`. Returns [`Error::Unsupported`] if contents have to be merged, or if a
/// file differs from its index entry.
pub fn merge(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    big_file_threshold: u64,
    merge: Merge,
) -> Result<Vec<Merged>, Error> {
    let theirs = differences(repo, merge.base, merge.theirs)?;
    if merge.base != merge.ours {
        let ours = differences(repo, merge.base, merge.ours)?;
        if renames_matter(&ours, &theirs) {
            return Err(Error::Unsupported("merges in which renames may matter"));
        }
    }
    let mut files = Files {
        probe: PathProbe::new(root),
        root,
        rules: StatRules::of(repo)?,
        hasher: FileHasher::new(repo, root, big_file_threshold),
        index,
    };
    let mut merged = Vec::new();
    for Difference { path, old, new } in theirs {
        let ours = content_of(index, path.as_bstr());
        if ours == new {
            continue;
        }
        if ours != old {
            return Err(Error::Unsupported("merges of contents"));
        }
        let file = files.clean(path.as_bstr())?;
        merged.push(Merged { path, ours, theirs: new, file });
    }
    Ok(merged)
}

/// Returns true if a rename on one side may change the result. A rename needs a path that its side
/// deleted, and one that it added. It matters if the other side changed the old path, or added
/// paths to its directory.
fn renames_matter(ours: &[Difference], theirs: &[Difference]) -> bool {
    let adds = |side: &[Difference]| side.iter().any(|it| it.old.is_none());
    let deletes = |side: &[Difference]| side.iter().any(|it| it.new.is_none());
    let deleted: HashSet<&BStr> =
        ours.iter().filter(|it| it.new.is_none()).map(|it| it.path.as_bstr()).collect();
    let both_delete = theirs.iter().any(|it| it.new.is_none() && deleted.contains(it.path.as_bstr()));
    both_delete || adds(ours) && adds(theirs) && (deletes(ours) || deletes(theirs))
}

/// Examines the files of merged paths.
struct Files<'a> {
    probe: PathProbe<'a>,
    root: &'a Dir,
    rules: StatRules,
    hasher: FileHasher<'a>,
    index: &'a Index,
}

impl Files<'_> {
    /// Returns the stat data of a file that equals its index entry; `None` if neither exists.
    /// Otherwise returns an error, and Git decides about the path.
    fn clean(&mut self, path: &BStr) -> Result<Option<Stat>, Error> {
        let entry = entry_of(self.index, path);
        match (self.probe.probe(path), entry) {
            (Found::Missing, None) => {
                super::untracked::check_directories(self.root, path)?;
                Ok(None)
            }
            (Found::Present(stat), Some(entry)) if self.is_clean(path, &entry, &stat) => Ok(Some(stat)),
            _ => Err(Error::Unsupported("local changes in the place of stashed ones")),
        }
    }

    fn is_clean(&mut self, path: &BStr, entry: &Entry, stat: &Stat) -> bool {
        if !matches!(stat.file_type, FileType::File | FileType::Symlink) {
            return false;
        }
        match self.rules.compare(entry, stat, self.index.timestamp) {
            Match::Same => true,
            Match::Different => false,
            Match::Racy | Match::Touched => self.hasher.matches_entry(entry, path, stat, self.index),
        }
    }
}

/// Plans the changes of the worktree. The plan's index has the content of the stash. The caller
/// then calls [`unstage`].
pub fn plan(mut index: Index, merged: &[Merged]) -> Plan {
    let edit = |it: &Merged| {
        let entries = it.theirs.iter().map(|content| new_entry(*content, None)).collect();
        Edit { path: it.path.clone(), entries }
    };
    index.apply(merged.iter().map(edit).collect());
    let premise = |it: &Merged| match it.file {
        Some(stat) => Premise::Unchanged(Box::new(stat)),
        None => Premise::Absent,
    };
    let write = |it: &Merged| {
        it.theirs.map(|_| Write { entry: index.range_of(it.path.as_bstr()).start, premise: premise(it) })
    };
    let writes = merged.iter().filter_map(write).collect();
    let removals = merged.iter().filter(|it| it.theirs.is_none() && it.file.is_some());
    let removals = removals.map(|it| Removal { path: it.path.clone(), premise: premise(it), gitlink: false });
    Plan { writes, removals: removals.collect(), warnings: Vec::new(), index }
}

/// Resets the changed entries to their old content, except those of new files, which stay staged.
pub fn unstage(repo: &Repository, index: &mut Index, merged: &[Merged]) {
    let edits = merged.iter().filter_map(|it| {
        let ours = it.ours?;
        Some(Edit { path: it.path.clone(), entries: vec![new_entry(ours, None)] })
    });
    index.apply(edits.collect());
    cache_tree::complete(index, &|oid, _| repo.objects().contains(oid));
}

/// The staged changes of a stash, to be restored (`--index`).
#[derive(Debug)]
pub struct Staged(Vec<Difference>);

/// Finds the changes in the index of the stash, whose tree is `staged`. `merged` are the changes of
/// the worktree.
pub fn staged(
    repo: &Repository,
    index: &Index,
    merge: Merge,
    staged: ObjectId,
    merged: &[Merged],
) -> Result<Staged, Error> {
    let written: HashSet<&BStr> = merged.iter().map(|it| it.path.as_bstr()).collect();
    let mut found = Vec::new();
    for Difference { path, old, new } in differences(repo, merge.base, staged)? {
        if content_of(index, path.as_bstr()) != old {
            return Err(Error::Unsupported("merges of staged contents"));
        }
        // Git compares the files of all other paths with the index again.
        if !written.contains(path.as_bstr()) {
            return Err(Error::Unsupported("staged changes that the worktree lacks"));
        }
        found.push(Difference { path, old, new });
    }
    Ok(Staged(found))
}

impl Staged {
    /// Restores the staged changes in `index`, which has the content of the worktree. All other
    /// paths get their old content.
    pub fn apply(&self, index: &mut Index, merged: &[Merged]) {
        let staged: HashMap<&BStr, Option<Content>> =
            self.0.iter().map(|it| (it.path.as_bstr(), it.new)).collect();
        let edits = merged.iter().filter_map(|it| {
            let wanted = staged.get(it.path.as_bstr()).copied().unwrap_or(it.ours);
            // The entry already has this content and current stat data.
            if wanted == it.theirs {
                return None;
            }
            let entries = wanted.iter().map(|content| new_entry(*content, None)).collect();
            Some(Edit { path: it.path.clone(), entries })
        });
        index.apply(edits.collect());
    }
}

/// Returns the paths that differ between two trees, sorted.
fn differences(repo: &Repository, one: ObjectId, other: ObjectId) -> Result<Vec<Difference>, Error> {
    let nothing = Index::empty(repo.hash());
    let kind = Kind::TwoWay { initial: false };
    let found = trees::walk(repo.objects(), &nothing, kind, vec![Some(one), Some(other)])?;
    let content = |side: Side| match side {
        Side::Entry(mode, _) if mode.is_gitlink() => Err(Error::Unsupported("changes of submodules")),
        Side::Entry(mode, oid) => Ok(Some(Content { mode, oid })),
        Side::Missing | Side::Conflict => Ok(None),
    };
    let mut differences = Vec::new();
    for row in found.rows.into_iter().filter(|row| row.sides[0] != row.sides[1]) {
        let (old, new) = (content(row.sides[0])?, content(row.sides[1])?);
        if old != new {
            differences.push(Difference { path: row.path, old, new });
        }
    }
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(differences)
}

fn entry_of(index: &Index, path: &BStr) -> Option<Entry> {
    index.entries_in(index.range_of(path)).next()
}

fn content_of(index: &Index, path: &BStr) -> Option<Content> {
    entry_of(index, path).map(|entry| Content { mode: entry.mode, oid: entry.oid })
}
