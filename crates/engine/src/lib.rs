//! The engine: plans and executes changes of a worktree.
//!
//! Three floors, whose imports only point downwards (a test in `tests/it/floors.rs` checks this):
//!
//! 1. [`crew`]: the number of workers, and the distribution of work among them;
//! 2. [`look`]: reads the state of the repository and the worktree: stat data, trees, ignore rules,
//!    pathspecs, sparse patterns;
//! 3. the operations: [`checkout`], [`checkpoint`], [`status`], [`diff`], [`add`], [`stash`],
//!    [`clean`], [`clone`], [`switch`], [`mv`], [`rm`], [`worktree`], [`workspace`],
//!    [`pack_indexing`], [`fetch`], [`bundles`], [`landing`], [`base_transfer`], and the modules
//!    that they share ([`files`], [`guard`], [`trash`]). Their imports form no cycles.

pub mod add;
pub mod base_transfer;
pub mod bundles;
pub mod checkout;
pub mod checkpoint;
pub mod clean;
pub mod clone;
pub mod commit_graph;
pub mod crew;
pub mod diff;
pub mod fetch;
pub mod files;
pub mod guard;
pub mod landing;
pub mod look;
pub mod midx;
pub mod mv;
pub mod pack_indexing;
pub mod rm;
pub mod stash;
pub mod status;
pub mod switch;
pub mod trash;
pub mod workspace;
pub mod worktree;

pub use look::{
    ignore, monitor, pathspec, shared, sparse, stat, submodules, tree_cache, tree_watch, unlinked, untracked,
};
