//! For tests only: a hermetic place to run Git in, and Git as oracle.
//!
//! - [`Sandbox`]: a temporary directory with an environment of its own (home, configuration, clock,
//!   identity), in which Git and the program under test are run.
//! - [`Oracle`]: the same repository made twice; one command is run in one copy by Git, in the other
//!   by the program under test, and everything one can see afterwards must be the same.
//! - [`weather`]: a directory on a slow, failing or losing disk, for real programs.
//! - [`CaseInsensitive`]: a file system that ignores case.
//! - [`imports`]: the imports between the modules of a crate, and circles of them.
//! - [`shim`]: sapwood in Git's place for other people's programs, and the log of its calls.
//! - [`wait_for_group`]: waiting for a program and ending all that it started.
//! - [`shared_data`]: the bundles with real histories that slow tests check out.
//! - [`FILTER_PROTOCOL`]: what scripts of long-running filters begin with.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod data;
mod filter;
mod group;
pub mod imports;
mod mount;
mod oracle;
mod sandbox;
pub mod shim;
pub mod weather;
pub mod wildcards;

pub use data::shared_data;
pub use filter::FILTER_PROTOCOL;
pub use group::wait_for_group;
pub use mount::CaseInsensitive;
pub use oracle::{Oracle, Snapshot};
pub use sandbox::{Repo, Run, Sandbox};
