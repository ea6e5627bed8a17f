//! The paths in which HEAD, the index and the worktree differ.

use std::{collections::BTreeMap, sync::atomic::AtomicBool};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Flags, Index},
};
use repo::{Repository, submodule::Ignore};
use sys::{Dir, FileType, Stat};

use super::Error;
use crate::{
    add::{Found, PathProbe},
    diff::{self, Side, SubmoduleIgnore},
    look::{
        pathspec::Pathspecs,
        stat::{StatRules, index_stat},
        untracked::Others,
    },
    status,
};

/// The selected changes.
pub struct Scope<'a> {
    /// The selected paths.
    pub pathspecs: &'a Pathspecs,
    /// The search for untracked files; `None` skips it.
    pub untracked: Option<status::Untracked<'a>>,
    /// Flag that stops the search early.
    pub interrupt: &'a AtomicBool,
}

/// The changes of a worktree.
#[derive(Debug, Default)]
pub struct Changes {
    /// Tracked paths, in order.
    pub paths: Vec<Changed>,
    /// Untracked files, in order.
    pub untracked: Vec<(BString, Stat)>,
    /// True if outdated stat data in the index were refreshed.
    pub is_refreshed: bool,
}

/// The mode and the object of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The mode of the file.
    pub mode: Mode,
    /// The blob.
    pub oid: ObjectId,
}

/// A tracked path that differs between HEAD, the index and the worktree.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The path.
    pub path: BString,
    /// Its content in HEAD.
    pub head: Option<Content>,
    /// Its content in the index.
    pub index: Option<Content>,
    /// Its state in the worktree.
    pub file: File,
}

/// The state of a path in the worktree.
#[derive(Clone, Debug)]
pub enum File {
    /// The file is missing.
    Missing,
    /// The file has the content of the index.
    AsIndexed(Stat),
    /// The file differs from the index. The mode is the one that it would have in the index.
    Other(Stat, Mode),
}

impl File {
    /// Returns the file's stat data, if it exists.
    pub fn stat(&self) -> Option<&Stat> {
        match self {
            File::Missing => None,
            File::AsIndexed(stat) | File::Other(stat, _) => Some(stat),
        }
    }
}

/// Finds the changes relative to the tree `head`, and refreshes stat data in `index`. Returns
/// [`Error::Unsupported`] for states that only Git supports.
pub fn collect(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    head: ObjectId,
    scope: Scope<'_>,
) -> Result<Changes, Error> {
    check_index(index)?;
    let options = status::Options {
        untracked: scope.untracked,
        submodules: SubmoduleIgnore::Given(Ignore::Dirty),
        ..status::Options::tracked(scope.pathspecs, scope.interrupt)
    };
    let found = status::examine(repo, root, index, &options)?;
    if !found.unreadable.is_empty() || !found.warnings.is_empty() || !found.found.warnings.is_empty() {
        return Err(Error::Unsupported("files that cannot be examined"));
    }
    let is_refreshed = !found.refreshed.is_empty();
    for (at, stat) in found.refreshed {
        index.update(at, |entry| entry.stat = stat);
    }
    let staged = diff::staged(repo, root, index, Some(head), scope.pathspecs, Some(Ignore::Dirty), None)?;
    let mut finder = Finder { probe: PathProbe::new(root), root, rules: StatRules::of(repo)?, index };
    let mut paths: BTreeMap<BString, Changed> = BTreeMap::new();
    for pair in found.changes {
        let (old, new) = (content(pair.old)?, pair.new.map(|side| side.mode));
        if new.is_some_and(|mode| mode.is_gitlink()) {
            return Err(Error::Unsupported("changes of submodules"));
        }
        let stat = finder.stat(pair.path.as_bstr())?;
        let file = match (stat, new) {
            (Some(stat), Some(mode)) => File::Other(stat, mode),
            (None, None) => File::Missing,
            _ => return Err(Error::Unsupported("files that change meanwhile")),
        };
        let path = pair.path.clone();
        paths.insert(pair.path, Changed { path, head: old, index: old, file });
    }
    for pair in staged {
        let (head, indexed) = (content(pair.old)?, content(pair.new)?);
        if let Some(changed) = paths.get_mut(&pair.path) {
            changed.head = head;
            continue;
        }
        let file = match (finder.stat(pair.path.as_bstr())?, indexed) {
            (None, _) => File::Missing,
            (Some(stat), None) => {
                let mode = finder.rules.mode(None, &stat);
                File::Other(stat, mode)
            }
            (Some(stat), Some(_)) => finder.as_indexed(pair.path.as_bstr(), stat)?,
        };
        let path = pair.path.clone();
        paths.insert(pair.path, Changed { path, head, index: indexed, file });
    }
    let paths: Vec<Changed> = paths.into_values().collect();
    let untracked = finder.untracked(found.found.untracked)?;
    Ok(Changes { paths, untracked, is_refreshed })
}

/// Returns an error for an index with special entries: unmerged, sparse, intent-to-add or
/// assume-unchanged ones.
pub fn check_index(index: &Index) -> Result<(), Error> {
    if index.is_unmerged() {
        return Err(Error::Unsupported("unmerged paths"));
    }
    if index.sparse || index.has_any(Flags::SKIP_WORKTREE) {
        return Err(Error::Unsupported("sparse worktrees"));
    }
    if index.has_any(Flags::INTENT_TO_ADD | Flags::ASSUME_VALID) {
        Err(Error::Unsupported("entries that are intended to be added or assumed unchanged"))
    } else {
        Ok(())
    }
}

fn content(side: Option<Side>) -> Result<Option<Content>, Error> {
    let Some(side) = side else { return Ok(None) };
    match side.oid {
        _ if side.mode.is_gitlink() => Err(Error::Unsupported("changes of submodules")),
        Some(oid) => Ok(Some(Content { mode: side.mode, oid })),
        None => Err(Error::Unsupported("sides without an object")),
    }
}

/// Examines single files.
struct Finder<'a> {
    probe: PathProbe<'a>,
    root: &'a Dir,
    rules: StatRules,
    index: &'a Index,
}

impl Finder<'_> {
    /// Returns the stat data of a file or link; `None` if the path is missing. Returns an error,
    /// which leaves the stash to Git, if the path is a directory or a directory of the path is a
    /// file or link.
    fn stat(&mut self, path: &BStr) -> Result<Option<Stat>, Error> {
        match self.probe.probe(path) {
            Found::Present(stat) if matches!(stat.file_type, FileType::File | FileType::Symlink) => {
                Ok(Some(stat))
            }
            Found::Present(_) => Err(Error::Unsupported("directories in the place of files")),
            Found::BeyondLink => Err(Error::Unsupported("links in the place of directories")),
            Found::Unreadable(source) => Err(Error::Examine { path: path.to_owned(), source }),
            Found::Missing => super::untracked::check_directories(self.root, path).map(|()| None),
        }
    }

    /// Returns the state of a file that status found to be clean.
    fn as_indexed(&self, path: &BStr, stat: Stat) -> Result<File, Error> {
        let entry = self.index.entries_in(self.index.range_of(path)).next();
        if entry.is_some_and(|entry| entry.stat == index_stat(&stat)) {
            Ok(File::AsIndexed(stat))
        } else {
            // The stat data differ, because the file was only compared by content or has
            // changed since. It is stored again.
            let mode = self.rules.mode(entry.map(|entry| entry.mode), &stat);
            Ok(File::Other(stat, mode))
        }
    }

    fn untracked(&mut self, found: Vec<BString>) -> Result<Vec<(BString, Stat)>, Error> {
        let mut others = Others::of(self.index);
        let mut untracked = Vec::with_capacity(found.len());
        for path in found {
            if path.ends_with(b"/") {
                return Err(Error::Unsupported("untracked repositories"));
            }
            if !others.is_other(path.as_bstr()) {
                continue;
            }
            match self.stat(path.as_bstr())? {
                Some(stat) => untracked.push((path, stat)),
                None => return Err(Error::Unsupported("files that change meanwhile")),
            }
        }
        Ok(untracked)
    }
}
