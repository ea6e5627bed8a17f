//! Sparse checkouts: the paths that belong in the worktree, and their flags in the index.
//!
//! [`Patterns`] represent the file `info/sparse-checkout`; [`Cone`] is its cone mode, which lists
//! directories. This module only evaluates patterns. A plan applies them
//! ([`crate::checkout::plan()`]). A sparse index is expanded when it is read ([`expand()`]), or as
//! far as needed when trees are merged into it ([`settle()`]), and collapsed when it is written
//! ([`collapse()`]).
//!
//! Sources: `git-sparse-checkout(1)`, and Git's technical note `sparse-checkout`.

mod collapse;
mod cone;
mod expand;
mod patterns;
mod present;
mod settle;

pub use collapse::{Trees, collapse, directories};
pub use cone::Cone;
pub use expand::{collapsed, expand, is_inside};
pub use patterns::{LoadError, Loaded, Patterns, Walk, is_on, load, path};
pub use present::{clear, clear_present, present};
pub use settle::{Purpose, settle};
