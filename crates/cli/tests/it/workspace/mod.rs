//! Workspaces: beside an ordinary worktree, and what may go wrong in their lives.

mod contents;
mod create;
mod disks;
mod failures;
mod killed;
mod many;
mod monitor;
mod ordinary;
mod power;
mod random;
pub(crate) mod readme;
mod with;
