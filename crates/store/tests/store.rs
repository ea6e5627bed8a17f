//! Makes the same changes with Git and with this crate in twin repositories: every byte must be
//! equal. Also writes objects on simulated disks that count flushes, and lose power.

#![allow(clippy::disallowed_methods, missing_docs)]

mod config;
mod objects;
mod refs;
