//! Workspaces: compared with an ordinary worktree, and their failures.

mod agents;
mod at;
mod builds;
mod classes;
mod conflicts;
mod contents;
pub(crate) mod create;
mod differences;
mod disks;
mod failures;
mod gone;
mod killed;
mod large;
mod lfs;

mod lost;
mod maintained;
mod many;
mod monitor;
mod mounted;
mod no_door;
mod ordinary;
mod power;
mod quota;
mod random;
mod remedies;
mod replaced;
mod sealed;
mod seen;
mod service;
mod shared;
mod submodules;
mod synced;
mod timer;
mod times;
mod unions;
mod with;
