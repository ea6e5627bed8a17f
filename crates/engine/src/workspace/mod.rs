//! Workspaces: linked worktrees whose files come from a read-only base. Nothing is printed.
//!
//! - [`base`]: the bases: one tree each, as an image or a directory, with its index;
//! - [`record`]: the workspaces of a repository, where their files are, and their locks;
//! - [`backend`]: the ways to join a base and an upper layer: mounting and unmounting;
//! - [`remove`]: the removal of files and state;
//! - [`frozen`]: ignored files that workspaces share;
//! - [`rebase`]: another base for a workspace;
//! - [`upper`]: the changes in the upper layer, and the answer to `core.fsmonitor`.
//!
//! Design: docs/design/workspace.md.

pub mod backend;
pub mod base;
pub mod frozen;
pub mod rebase;
pub mod record;
pub mod remove;
pub mod upper;
