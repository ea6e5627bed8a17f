//! Makes the same changes with Git and with this crate in twin repositories: every byte must be
//! equal. And writes objects on disks that count, and lose their power.

#![allow(clippy::disallowed_methods, missing_docs)]

mod config;
mod objects;
mod refs;
