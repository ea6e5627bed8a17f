//! Workspaces: beside an ordinary worktree, and what may go wrong in their lives.

mod create;
mod monitor;
mod power;
mod random;
mod readme;
