//! Bad weather: a directory served through FUSE as if it lay on a slow, failing or losing disk.
//!
//! A [`Mount`] passes everything through to a backing directory and does to it what its [`Profile`] says: each
//! operation takes a set time with a set number served at once, or waits for a disk's one arm; some fail
//! ([`Fault`]); what was not synced is gone when the plug is pulled ([`Mount::pull_plug`]); names are the same in
//! either case. What was served is counted ([`Counts`]), and how late the answers were is told ([`Report`]).
//!
//! A mount ends when its value is dropped, also while a test panics, and when the process is killed.

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
