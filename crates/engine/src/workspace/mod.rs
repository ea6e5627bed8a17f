//! Workspaces: linked worktrees whose files come from a read-only base. Nothing is printed.
//!
//! - [`base`]: the bases, each a read-only tree of files as an image or a directory, with its
//!   index;
//! - `boot`: the boot of the machine, for what is not on the disk yet;
//! - [`record`]: the stored facts about the workspaces of a repository, and their locks;
//! - [`backend`]: the ways to combine a base and an upper layer: mounting and unmounting;
//! - [`crash`]: the repair of an upper layer after a crash of the machine;
//! - [`remove`]: the removal of files and state;
//! - [`frozen`]: ignored files that workspaces share;
//! - [`inner`]: submodules that are mounted inside a workspace;
//! - [`newer`]: files of the base that changed after a build;
//! - [`orphans`]: mounts whose repository was deleted;
//! - [`quota`]: the most bytes that an upper layer may have;
//! - [`rebase`]: moves a workspace to another base;
//! - [`sealed`]: the Git directory of a workspace that is a repository of its own;
//! - [`session`]: a workspace at another path, for the processes of one session;
//! - [`uncommitted`]: what a workspace has that its HEAD lacks, from the upper layer;
//! - [`union`]: unions that the user mounted;
//! - [`upper`]: the changes in the upper layer, and the responses to `core.fsmonitor`.
//!
//! Design: docs/design/workspace.md.

pub mod backend;
pub mod base;
mod boot;
pub mod crash;
pub mod frozen;
pub mod inner;
pub mod newer;
pub mod orphans;
pub mod quota;
pub mod rebase;
pub mod record;
pub mod remove;
pub mod sealed;
pub mod session;
pub mod uncommitted;
pub mod union;
pub mod upper;
