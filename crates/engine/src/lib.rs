//! What sapwood exists for: planning and executing changes of a worktree.

pub mod add;
pub mod checkout;
pub mod clean;
pub mod clone;
pub mod crew;
pub mod diff;
pub mod guard;
pub mod look;
pub mod status;
pub mod switch;
pub mod trash;
pub mod worktree;

pub use look::{ignore, monitor, pathspec, shared, sparse, stat, submodules, untracked};
