//! What sapwood exists for: planning and executing changes of a worktree.

pub mod add;
pub mod beside;
pub mod checkout;
pub mod clean;
pub mod clone;
mod crew;
pub mod diff;
pub mod guard;
mod handle;
pub mod ignore;
pub mod monitor;
mod parallel;
pub mod pathspec;
pub mod shared;
pub mod sparse;
pub mod stat;
pub mod status;
pub mod switch;
pub mod trash;
pub mod untracked;
pub mod worktree;
