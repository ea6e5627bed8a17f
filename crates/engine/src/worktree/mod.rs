//! Linked worktrees: making, finding, checking and mending them. Nothing is printed.
//!
//! A worktree and its administrative directory `worktrees/<id>` name each other: `.git` in the one, `gitdir` in the other.
//!
//! - [`admin`]: making the directory, writing the two names;
//! - [`prune`]: which directories name a worktree that is gone;
//! - [`repair`]: making the two name each other again;
//! - [`changes`]: whether a worktree holds anything that would be lost with it.
//!
//! Design: docs/design/worktree.md.

pub mod admin;
pub mod changes;
pub mod prune;
pub mod repair;

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a worktree was not made or changed. Messages are Git's.
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
    /// Of the repository's configuration, which is to say that worktrees are named by relative paths.
    #[error(transparent)]
    Config(#[from] store::config::Error),
    /// The repository has an extension that is not known.
    #[error("cannot upgrade repository format: unknown extension {0}")]
    Upgrade(bstr::BString),
}

/// The path without links.
fn canonical(path: &Path) -> Result<PathBuf, Error> {
    sys::by_path::canonical(path).map_err(|source| Error::Path { path: path.to_owned(), source })
}
