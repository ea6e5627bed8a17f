//! Bad weather: a directory served through FUSE as if it were on a slow, failing or data-losing
//! disk.
//!
//! A [`Mount`] passes all operations through to a backing directory and modifies them according to
//! its [`Profile`]. Each operation takes a set time, with a set number served at once, or waits for
//! the single arm of a disk. Flushes take a time of their own, and concurrent ones are shared. Some
//! operations fail ([`Fault`]). Unsynced data are lost in a power cut ([`Mount::pull_plug`]). Names
//! may ignore case. The mount counts its requests ([`Counts`]) and measures the lateness of its
//! replies ([`Report`]).
//!
//! A mount ends when its value is dropped, also during a panic of the test, and when the process is
//! killed.

mod contents;
mod counts;
mod disk;
mod faults;
mod listing;
mod mount;
mod names;
mod power;
mod profile;
mod requests;
mod timer;
mod tree;

pub use counts::{Counts, Operation};
pub use faults::{At, Fault, Nth, Struck, What};
pub use mount::{Mount, Unusable, usable};
pub use power::Survivors;
pub use profile::{Caching, Closing, Journal, Latency, Names, Profile, Writes, Xattrs};
pub use rustix::io::Errno;
pub use timer::{Lateness, Report};
