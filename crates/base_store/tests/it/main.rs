//! Remotes against real servers.

#![allow(clippy::disallowed_methods, clippy::print_stdout, missing_docs)]

mod access;
mod answers;
mod contract;
mod faults;
mod keys;
mod requests;
mod servers;
