//! Reads, indexes and checks Git's objects.
//!
//! [`Objects`] reads an object directory with its alternates. [`pack_indexing`] finds the objects
//! of a pack that arrives, [`fsck`] checks them. [`Commits`] looks up the links of commits, with
//! the help of a [`CommitGraph`].
//!
//! This crate knows no repository: no configuration, no refs, no environment. Settings come as
//! values. It is the only crate that uses gix, and its public interface contains no type of gix.

mod database;
pub mod fsck;
mod graph;
mod links;
pub mod pack_indexing;

pub use database::{
    Content, ContentError, Contents, Counts, Error, Fault, Kind, Limits, Location, MAX_TREE_DEPTH, Objects,
    Options, PackError, Promisors, Reader, Replacements, alternates_in,
};
pub use graph::{Commit, CommitGraph};
pub use links::{Commits, Links, signature_date, tag_target};
