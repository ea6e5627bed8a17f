//! Worktrees that are linked to a repository, as Git's `worktree` makes them.
//!
//! - [`add`], [`list`], [`lock`], [`prune`], [`relocate`] (move), [`remove`], [`repair`],
//!   [`unlock`]: the operations;
//! - [`records`]: the search for a worktree, its locks and its links, for these and for others.

pub mod add;
pub mod list;
pub mod lock;
pub mod prune;
pub mod records;
pub mod relocate;
pub mod remove;
pub mod repair;
pub mod unlock;
