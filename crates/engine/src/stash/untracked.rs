//! The untracked files of a stash: restores them, and removes the empty directories that a push
//! leaves behind.

use std::{cell::Cell, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Index};
use repo::Repository;
use sys::{Dir, FileType};

use super::Error;
use crate::{
    checkout::{self, Files, Force, Merge, Operation, Plan, PlanOptions, Premise, Sparse, Vouched, Write},
    files::Worktree,
    guard,
};

/// Plans the restoration of the untracked files of `tree`. Returns [`Error::Unsupported`] if a path
/// is occupied. Git then reports it.
pub fn plan(repo: &Repository, root: &Dir, tree: ObjectId) -> Result<Plan, Error> {
    let mut plan = list(repo, root, tree)?;
    for (at, entry) in plan.index.entries().iter().enumerate() {
        let path = plan.index.path(entry);
        if entry.mode.is_gitlink() {
            return Err(Error::Unsupported("untracked submodules"));
        }
        check_directories(root, path)?;
        let stat = root.stat(path).map_err(|source| Error::Examine { path: path.to_owned(), source })?;
        if stat.is_some() {
            return Err(Error::Unsupported("untracked files in the place of those in the stash"));
        }
        plan.writes.push(Write { entry: at, premise: Premise::Absent });
    }
    Ok(plan)
}

/// Returns a plan without steps whose index contains the files of a tree.
fn list(repo: &Repository, root: &Dir, tree: ObjectId) -> Result<Plan, Error> {
    let options = PlanOptions {
        merge: Merge::Overlay { trees: vec![tree] },
        force: Force::No,
        files: Files::Ignore,
        overwrite_ignored: false,
        refresh: false,
        original_cwd: None,
        sparse: Sparse::Ignored,
        operation: Operation::Plumbing,
        vouched: Vouched::Examined,
    };
    let mut plan = checkout::plan(repo, root, Index::empty(repo.hash()), &options)?;
    plan.writes.clear();
    plan.removals.clear();
    Ok(plan)
}

/// Returns an error if a directory of `path` is a file or a link.
pub(super) fn check_directories(root: &Dir, path: &BStr) -> Result<(), Error> {
    for slash in path.find_iter("/") {
        let above = path[..slash].as_bstr();
        let stat = root.stat(above).map_err(|source| Error::Examine { path: above.to_owned(), source })?;
        match stat {
            Some(stat) if stat.file_type == FileType::Directory => {}
            Some(_) => return Err(Error::Unsupported("files in the place of directories")),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Removes these untracked directories and the directories below them, deepest first, if they are
/// empty. Files and `.git` directories stay. `kept` is the command's current directory, which also
/// stays. Returns true if it would have been removed otherwise.
pub fn remove_empty_directories(
    repo: &Repository,
    top: &Path,
    root: &Dir,
    directories: &[BString],
    kept: Option<&BStr>,
) -> Result<bool, guard::Error> {
    let worktree = Worktree::of(repo, top, root)?;
    let cleaner = Cleaner { worktree, root, kept, is_kept: Cell::new(false) };
    for directory in directories {
        if let Some(directory) = directory.strip_suffix(b"/") {
            cleaner.remove(directory.as_bstr());
        }
    }
    Ok(cleaner.is_kept.get())
}

struct Cleaner<'a> {
    worktree: Worktree<'a>,
    root: &'a Dir,
    kept: Option<&'a BStr>,
    /// True if `kept` is empty and was not removed.
    is_kept: Cell<bool>,
}

impl Cleaner<'_> {
    /// Returns true if the directory was removed.
    fn remove(&self, directory: &BStr) -> bool {
        let Ok(listed) = self.root.open_dir(directory).and_then(|dir| dir.list()) else { return false };
        let mut is_empty = true;
        for (name, file_type) in listed {
            let path = BString::from(bstr::concat([directory.as_bytes(), b"/", &name]));
            let is_directory = file_type == FileType::Directory && name != b".git";
            is_empty &= is_directory && self.remove(path.as_bstr());
        }
        if is_empty && self.kept == Some(directory) {
            self.is_kept.set(true);
            return false;
        }
        is_empty && self.worktree.remove_empty(directory).is_ok()
    }
}
