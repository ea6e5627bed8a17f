//! Linked worktrees: creation, search, checks and repair. Nothing is printed.
//!
//! A worktree and its administrative directory `worktrees/<id>` refer to each other: the worktree's
//! file `.git` contains the path of the directory, and the directory's file `gitdir` contains the
//! path of the worktree.
//!
//! - [`admin`]: creates the directory and writes the two files;
//! - [`prune`]: finds directories whose worktree no longer exists;
//! - [`repair`]: restores the two files;
//! - [`changes`]: detects changes that a removal would lose;
//! - [`removal`]: removes the files.
//!
//! Design: docs/design/worktree.md.

pub mod admin;
pub mod changes;
pub mod prune;
pub mod removal;
pub mod repair;

use std::{
    io,
    path::{Path, PathBuf},
};

/// The reason why a worktree was not created or changed. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("could not create leading directories of '{}': {}", .path.display(), sys::reason(.source))]
    Leading { path: PathBuf, source: io::Error },
    #[error("could not create directory of '{}': {}", .path.display(), sys::reason(.source))]
    Directory { path: PathBuf, source: io::Error },
    #[error("could not open '{}' for writing: {}", .path.display(), sys::reason(.source))]
    Write { path: PathBuf, source: io::Error },
    #[error("Invalid path '{}': {}", .path.display(), sys::reason(.source))]
    Path { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The repository's configuration could not be changed to set `extensions.relativeWorktrees`.
    #[error(transparent)]
    Config(#[from] store::config::Error),
    /// The repository has an unknown extension.
    #[error("cannot upgrade repository format: unknown extension {0}")]
    Upgrade(bstr::BString),
}

/// Resolves the symbolic links of a path.
fn canonical(path: &Path) -> Result<PathBuf, Error> {
    sys::by_path::canonical(path).map_err(|source| Error::Path { path: path.to_owned(), source })
}
