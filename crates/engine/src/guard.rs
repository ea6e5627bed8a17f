//! The last check before a command overwrites or deletes anything in a worktree: no step changes
//! the repository itself.
//!
//! Users can name any directory as worktree (`GIT_WORK_TREE`, `core.worktree`) and any directory as
//! Git directory (`GIT_DIR`), one inside the other. The check compares the locations of these
//! directories, not the way in which they were specified.
//!
//! The check compares paths without symbolic links, and no step follows a link, so a step costs no
//! system call. Design: docs/design/guard.md.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString};
use repo::Repository;
use sys::{FileType, by_path};

/// A refusal. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The worktree is the repository, or a part of it.
    #[error(
        "refusing to change '{}': it belongs to this repository's Git directory '{}'",
        .root.display(), .own.display()
    )]
    Root {
        /// The worktree's root.
        root: PathBuf,
        /// The repository's directory.
        own: PathBuf,
    },
    /// A step would change the repository.
    #[error("refusing to change '{path}': this repository's Git directory is '{own}'")]
    Step {
        /// The path of the step, from the root.
        path: BString,
        /// The path of the repository's directory, from the root.
        own: BString,
    },
    /// A tree to be removed or moved contains the repository.
    #[error(
        "refusing to remove or move '{}': it holds this repository's Git directory '{}'",
        .path.display(), .own.display()
    )]
    Tree {
        /// The tree.
        path: PathBuf,
        /// The repository's directory.
        own: PathBuf,
    },
}

/// Names that Git uses in a Git directory. A directory with another name may be a worktree.
const GIT_DIRECTORY_NAMES: &[&str] = &[
    "branches",
    "hooks",
    "info",
    "logs",
    "modules",
    "objects",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "sapwood",
    "sequencer",
    "worktrees",
];

/// The paths below one root that no step may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Paths from the root, without a slash at the end.
    closed: Vec<BString>,
}

impl Guard {
    /// Builds the guard for steps below `root`. The path `root` may contain symbolic links and need
    /// not exist. Returns an error if `root` is the repository or one of Git's own directories in
    /// it.
    pub fn of(repo: &Repository, root: &Path) -> Result<Guard, Error> {
        // The repository resolved the links of its worktree's path when it was opened.
        let root =
            if repo.work_tree() == Some(root) { root.to_owned() } else { by_path::realpath_forgiving(root) };
        let mut own = repo.own_directories();
        own.extend(repo.work_tree().map(|top| top.join(".git")));
        let mut closed: Vec<BString> = Vec::new();
        for own in own {
            if root.strip_prefix(&own).is_ok_and(|inside| is_git_directory(&own, inside, &root)) {
                return Err(Error::Root { root, own });
            }
            if let Ok(inside) = own.strip_prefix(&root)
                && inside != Path::new("")
            {
                closed.push(inside.as_os_str().as_bytes().into());
            }
        }
        Ok(Guard { closed })
    }

    /// Returns an error if `path` is a directory of the repository or lies in one.
    pub fn check(&self, path: &BStr) -> Result<(), Error> {
        match self.closed.iter().find(|own| is_at_or_below(path, own)) {
            None => Ok(()),
            Some(own) => Err(Error::Step { path: path.to_owned(), own: own.clone() }),
        }
    }

    /// Like [`Guard::check`]; also returns an error if a directory of the repository lies below
    /// `path`.
    pub fn check_tree(&self, path: &BStr) -> Result<(), Error> {
        self.check(path)?;
        match self.closed.iter().find(|own| is_at_or_below(own, path)) {
            None => Ok(()),
            Some(own) => Err(Error::Step { path: path.to_owned(), own: own.clone() }),
        }
    }
}

/// A tree that contains no directory of the repository, and so may be removed or moved.
#[derive(Clone, Copy, Debug)]
pub struct Removable<'p> {
    path: &'p Path,
}

impl<'p> Removable<'p> {
    /// Returns an error if the tree at `path` contains a directory of the repository.
    pub fn of(repo: &Repository, path: &'p Path) -> Result<Removable<'p>, Error> {
        let real = by_path::realpath_forgiving(path);
        match repo.own_directories().into_iter().find(|own| own.starts_with(&real)) {
            None => Ok(Removable { path }),
            Some(own) => Err(Error::Tree { path: path.to_owned(), own }),
        }
    }

    /// Returns the path of the tree.
    pub fn path(&self) -> &'p Path {
        self.path
    }
}

/// Returns true if `root` is the repository's directory `own` or one of Git's directories in it.
/// `inside` is the path of `root` from `own`.
fn is_git_directory(own: &Path, inside: &Path, root: &Path) -> bool {
    let Some(first) = inside.components().next() else { return true };
    let first = first.as_os_str();
    let is_git = GIT_DIRECTORY_NAMES.iter().any(|name| first == *name)
        || matches!(by_path::stat(&own.join(first)), Ok(Some(stat)) if stat.file_type != FileType::Directory);
    // Git's own directories contain no `.git`. A directory with one is a worktree inside `own`.
    is_git && !matches!(by_path::stat(&root.join(".git")), Ok(Some(_)))
}

/// Returns true if `path` is `dir` or lies below it. The comparison ignores case, because the file
/// system may do so.
fn is_at_or_below(path: &[u8], dir: &[u8]) -> bool {
    path.len() >= dir.len()
        && path[..dir.len()].eq_ignore_ascii_case(dir)
        && matches!(path.get(dir.len()), None | Some(b'/'))
}
