//! For tests only: a hermetic environment for Git, and Git as oracle.
//!
//! - [`Sandbox`]: a temporary directory with its own environment (home, configuration, clock,
//!   identity), in which Git and the program under test run.
//! - [`Oracle`]: a repository in two copies. Git runs a command in one, the program under test in
//!   the other, and every visible result must be equal.
//! - [`weather`]: a directory on a slow, failing or data-losing disk, for real programs.
//! - [`CaseInsensitive`]: a file system that ignores case.
//! - [`RecordedDisk`]: a disk in each state that a power cut can leave.
//! - [`container`]: commands that may make only the system calls of a container.
//! - [`crash`]: kills a program before the n-th change that it makes on disk.
//! - [`disk`]: mounted file systems of other kinds, and a user without privileges.
//! - [`ErofsImage`]: a mounted read-only image.
//! - [`landlock`]: commands that may use only some directories.
//! - [`imports`]: the imports between the modules of a crate, and import cycles.
//! - [`servers`]: `nginx`, `git daemon`, `sshd`, and a proxy that injects faults.
//! - [`shim`]: runs other programs with sapwood in Git's place, and reads the log of its calls.
//! - [`wait_for_group`]: waits for a program and ends all processes that it started.
//! - [`shared_data`]: the bundles with real histories that slow tests check out.
//! - [`each_alone`]: steps that each run in a process of their own.
//! - [`noise`]: bytes that do not compress.
//! - [`FILTER_PROTOCOL`]: the beginning of scripts of long-running filters.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod alone;
pub mod container;
pub mod costs;
pub mod crash;
mod data;
pub mod disk;
mod filter;
mod group;
pub mod imports;
pub mod landlock;
mod mount;
pub mod mount_service;
mod oracle;
mod recorded;
mod sandbox;
pub mod servers;
pub mod shim;
mod tools;
pub mod weather;
pub mod wildcards;

pub use alone::each_alone;
pub use data::{noise, shared_data};
pub use disk::{Disk, NoMountsBelow};
pub use filter::FILTER_PROTOCOL;
pub use group::wait_for_group;
pub use mount::{CaseInsensitive, ErofsImage, detach};
pub use oracle::{Oracle, Snapshot, wording};
pub use recorded::{RecordedDisk, Unflushed};
pub use sandbox::{Repo, Run, Sandbox};
pub use tools::{copy_program, has_program, need_program, write_program};
