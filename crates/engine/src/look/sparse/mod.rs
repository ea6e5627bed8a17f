//! Sparse checkouts: which paths belong in the worktree, and what of the index says so.
//!
//! [`Patterns`] are the file `info/sparse-checkout`, of either kind; [`Cone`] is the kind that names directories.
//! Applying them is planning ([`crate::checkout::plan()`]); here are only the questions. A sparse index is made full when it is read
//! ([`expand()`]), or as far as need be when trees are merged into it ([`settle()`]), and sparse again when it is written ([`collapse()`]).
//!
//! Source: `git-sparse-checkout(1)`, and Git's technical note `sparse-checkout`.

mod collapse;
mod cone;
mod expand;
mod patterns;
mod present;
mod settle;

pub use collapse::{Trees, collapse, directories};
pub use cone::Cone;
pub use expand::{collapsed, expand, is_inside};
pub use patterns::{LoadError, Loaded, Patterns, is_on, load, path};
pub use present::{clear, clear_present, present};
pub use settle::{Course, settle};
