//! Workspaces: compared with an ordinary worktree, and their failures.

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
