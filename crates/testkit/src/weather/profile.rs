//! The profile of a mount, and the presets.

use std::time::Duration;

/// The behaviour of a mount.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The time that an operation takes.
    pub latency: Latency,
    /// The time for flushing the disk's cache when a file or a directory is synced, instead of
    /// `latency`. The disk runs one flush at a time. Syncs that arrive during a flush share the
    /// next flush, as on a block device. `None`: a sync takes the same time as every other
    /// operation.
    pub flush: Option<Duration>,
    /// The data that the kernel may cache, and for how long.
    pub caching: Caching,
    /// The comparison of names: exact, or without regard to case.
    pub names: Names,
    /// The rules by which unsynced data are recorded; `None` for no power cuts. With power cuts no
    /// inode is dropped, and the backing directory is read into memory, so they suit only small
    /// trees.
    pub power: Option<Journal>,
    /// The support for extended attributes.
    pub xattrs: Xattrs,
    /// The handling of `close`.
    pub closing: Closing,
}

/// The time that an operation takes, from its arrival to its reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// As long as the backing directory takes.
    None,
    /// A remote server.
    Slots {
        /// The time of each operation.
        each: Duration,
        /// The number of operations served in parallel; the others wait in the order of arrival.
        at_once: usize,
    },
    /// A disk with one arm. It serves one operation at a time, and next the waiting operation that
    /// is first in the direction of its sweep.
    Arm {
        /// The time of an operation at the arm's current place.
        settle: Duration,
        /// The additional time of the longest seek. A shorter seek takes this time multiplied by
        /// the square root of its share of the disk.
        stroke: Duration,
    },
}

/// The cache of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// The time for which a found name is cached. Missing names are never cached.
    pub entries: Duration,
    /// The time for which attributes are cached.
    pub attributes: Duration,
    /// The treatment of written data.
    pub writes: Writes,
}

/// The time at which written data reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// At once: `write` fails if the server does.
    Through,
    /// When the kernel writes them back, at the latest when the file is closed, as on a network
    /// mount.
    Back,
}

/// The comparison of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// By their bytes.
    Exact,
    /// Without regard to case; the first spelling is kept.
    Folded,
}

/// The support for extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xattrs {
    /// Passed through. The kernel then requests one before each write.
    Served,
    /// Not supported, as on NFSv3.
    Refused,
}

/// The handling of `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// No request is sent to the server.
    Free,
    /// The server receives each `close` and may fail it: a network mount reports there that written
    /// data did not fit.
    Told,
}

/// The data that a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Only what POSIX promises: the synced file's content and mode, or the synced directory's
    /// names.
    Strict,
    /// As on ext4 with `data=ordered`: a sync also makes all names and data durable that reached
    /// the disk before it.
    Ordered,
}

impl Profile {
    /// No latency; the kernel caches attributes for a second, and writes are sent immediately.
    pub fn calm() -> Profile {
        let second = Duration::from_secs(1);
        Profile {
            latency: Latency::None,
            flush: None,
            caching: Caching { entries: second, attributes: second, writes: Writes::Through },
            names: Names::Exact,
            power: None,
            xattrs: Xattrs::Served,
            closing: Closing::Free,
        }
    }

    /// A network mount: attributes are cached for three seconds (NFS' `acregmin`).
    fn far(each: Duration, at_once: usize) -> Profile {
        let kept = Duration::from_secs(3);
        Profile {
            latency: Latency::Slots { each, at_once },
            caching: Caching { entries: kept, attributes: kept, writes: Writes::Back },
            xattrs: Xattrs::Refused,
            ..Profile::calm()
        }
    }

    /// An NFS server in the same zone.
    pub fn nfs() -> Profile {
        Profile::far(Duration::from_millis(1), 64)
    }

    /// Amazon's EFS, which replies when several zones have the data.
    pub fn efs() -> Profile {
        Profile::far(Duration::from_millis(3), 128)
    }

    /// A block volume across the network.
    pub fn ebs() -> Profile {
        Profile::far(Duration::from_micros(500), 32)
    }

    /// A disk with one arm at 7,200 rpm. The kernel caches everything for the duration of a run.
    pub fn hdd() -> Profile {
        let kept = Duration::from_secs(60);
        Profile {
            latency: Latency::Arm { settle: Duration::from_micros(400), stroke: Duration::from_millis(9) },
            caching: Caching { entries: kept, attributes: kept, writes: Writes::Back },
            xattrs: Xattrs::Refused,
            ..Profile::calm()
        }
    }

    /// A local disk on which only flushes take time: 1 ms on a good SSD with a volatile cache, 5 ms
    /// on a cheap one or across a network, 20 ms on a rotating disk. The kernel caches everything
    /// for the duration of a run.
    pub fn flushing(flush: Duration) -> Profile {
        Profile { latency: Latency::None, flush: Some(flush), ..Profile::hdd() }
    }

    /// A disk for fault injection: the kernel caches nothing, so that each run has the same
    /// operations, and `close` may fail.
    pub fn bare() -> Profile {
        let caching =
            Caching { entries: Duration::ZERO, attributes: Duration::ZERO, writes: Writes::Through };
        Profile { caching, closing: Closing::Told, xattrs: Xattrs::Refused, ..Profile::calm() }
    }

    /// Names that ignore case. The kernel caches no names, because it would cache each spelling
    /// separately.
    pub fn casefold() -> Profile {
        let calm = Profile::calm();
        let caching = Caching { entries: Duration::ZERO, ..calm.caching };
        Profile { names: Names::Folded, caching, ..calm }
    }

    /// A disk with power cuts.
    pub fn power(journal: Journal) -> Profile {
        Profile { power: Some(journal), ..Profile::calm() }
    }

    /// Returns the preset with this name.
    pub fn named(name: &str) -> Option<Profile> {
        Some(match name {
            "calm" => Profile::calm(),
            "nfs" => Profile::nfs(),
            "efs" => Profile::efs(),
            "ebs" => Profile::ebs(),
            "hdd" => Profile::hdd(),
            "flush1" => Profile::flushing(Duration::from_millis(1)),
            "flush5" => Profile::flushing(Duration::from_millis(5)),
            "flush20" => Profile::flushing(Duration::from_millis(20)),
            "bare" => Profile::bare(),
            "casefold" => Profile::casefold(),
            _ => return None,
        })
    }
}
