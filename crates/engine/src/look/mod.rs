//! Reads the index, trees, files, ignore rules, pathspecs and sparse patterns.
//!
//! Nothing here changes the repository or the worktree. The operations above (checkout, status,
//! diff, ...) import this module; it imports only [`crate::crew`]. See ARCHITECTURE.md.

pub(crate) mod cache_tree;
pub(crate) mod compare;
pub(crate) mod content;
mod error;
pub(crate) mod facts;
pub(crate) mod handle;
pub mod ignore;
pub mod monitor;
pub mod pathspec;
pub(crate) mod scan;
pub mod shared;
pub mod sparse;
pub mod stat;
pub mod submodules;
pub mod tree_cache;
pub(crate) mod tree_limits;
pub mod tree_watch;
pub(crate) mod trees;
pub mod unlinked;
pub mod untracked;

pub use error::LookError;
pub(crate) use error::copy_error;
use format::path::Protect;
use repo::keys;

/// Returns the additional paths that the configuration forbids in an index (`core.protectHFS`,
/// `core.protectNTFS`).
pub(crate) fn protect(repo: &repo::Repository) -> Result<Protect, repo::Error> {
    Ok(Protect { hfs: repo.config(&keys::core::PROTECT_HFS)?, ntfs: repo.config(&keys::core::PROTECT_NTFS)? })
}
