//! The same changes made by Git and by this crate in twin repositories: not a byte may differ.

#![allow(clippy::disallowed_methods, missing_docs)]

mod config;
mod refs;
