//! Makes the same changes with Git and with this crate in twin repositories. Every byte must be
//! equal.

#![allow(clippy::disallowed_methods, missing_docs)]

mod config;
mod refs;
