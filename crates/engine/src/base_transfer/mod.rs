//! Bases that machines share over a remote.
//!
//! - [`push`]: a commit's contents and history go to a remote;
//! - [`pull`]: they come from there into a repository and a base directory;
//! - [`records`]: branches, and the nearest commit that has a base;
//! - [`lease`], [`prune`]: keeping bases and removing them;
//! - [`pulled`]: the packs and commits that came to a repository;
//! - `stock`: manifests and tables, read, checked, and kept in the base directory;
//! - `scratch`: files on their way.
//!
//! Promise: a file of a remote is used only after it was compared with its digest, and a content
//! only after it was compared with its object id. A manifest is written last. A failed or killed
//! step leaves data files that no manifest names, or contents that arrived; the next run uses both.
//!
//! Design: docs/design/fleet.md.

mod error;
pub mod lease;
pub mod prune;
pub mod pull;
pub mod pulled;
pub mod push;
pub mod records;
mod scratch;
mod stock;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use base_store::Remote;
use repo::Repository;

pub use error::Error;

use crate::{crew::Workers, workspace::base::Bases};

/// How long a data file stays that no manifest names, and a manifest that no branch names. A push
/// takes less.
pub const GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The parts that a transfer works with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// The remote.
    pub remote: &'a Remote,
    /// The base directory. It also keeps tables that came from remotes.
    pub bases: &'a Bases,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
    /// How files of the repository are locked; also `core.sharedRepository`.
    pub locks: &'a store::LockOptions,
    /// The number of workers that compress.
    pub workers: Workers,
    /// The number of workers that send and receive.
    pub connections: usize,
    /// Set to stop.
    pub interrupt: &'a AtomicBool,
    /// Called from time to time, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The work done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The kind of work.
    pub phase: Phase,
    /// The part that is done.
    pub done: u64,
    /// All of it.
    pub total: u64,
}

/// The phases of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Compressing and sending contents; counts bytes of contents.
    Sending,
    /// Receiving packs; counts bytes.
    History,
    /// Receiving tables; counts tables.
    Tables,
    /// Receiving contents; counts bytes as they are sent.
    Receiving,
}

impl Context<'_> {
    fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn report(&self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }
}

/// Returns the seconds since the epoch.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
