//! The weather of a mount: small values, and the presets below.

use std::time::Duration;

/// The behaviour of a mount.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// How long an operation takes.
    pub latency: Latency,
    /// How long the disk flushes its cache when a file or a directory is synced, instead of
    /// `latency`. It flushes once at a time. Syncs that come meanwhile share the next flush, as
    /// those of a block device do. None: a sync takes as long as every other operation.
    pub flush: Option<Duration>,
    /// The data that the kernel may cache, and for how long.
    pub caching: Caching,
    /// Tells if `A` and `a` are one name.
    pub names: Names,
    /// The rules by which unsynced data are recorded, if they are. Then no inode is forgotten, and
    /// the backing directory is read into memory: for small trees.
    pub power: Option<Journal>,
    /// Tells if extended attributes are served.
    pub xattrs: Xattrs,
    /// Tells if the server sees the closing of files.
    pub closing: Closing,
}

/// How long an operation takes, from its arrival to its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// As long as the backing directory takes.
    None,
    /// A server far away.
    Slots {
        /// The time of each operation.
        each: Duration,
        /// How many are served at once; the others wait in the order of arrival.
        at_once: usize,
    },
    /// A disk with one arm. It serves one operation at a time, and next the waiting one that its
    /// sweep over the disk meets first.
    Arm {
        /// The time of an operation at the arm's current place.
        settle: Duration,
        /// The additional time of the longest move. Shorter moves take it times the square root of
        /// their share.
        stroke: Duration,
    },
}

/// The cache of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// The time for which a found name is cached. Missing names are never cached.
    pub entries: Duration,
    /// For how long attributes are known.
    pub attributes: Duration,
    /// The treatment of written data.
    pub writes: Writes,
}

/// When written data reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// At once: `write` fails if the server does.
    Through,
    /// When the kernel thinks fit, at the latest when the file is closed, as on a network mount.
    Back,
}

/// How names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// By their bytes.
    Exact,
    /// Without regard to case, which is kept as it was first written.
    Folded,
}

/// Tells if there are extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xattrs {
    /// Passed through. The kernel then asks for one before each write.
    Served,
    /// Not supported, as on NFSv3.
    Refused,
}

/// The treatment of `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The server is not asked.
    Free,
    /// The server sees each `close` and may refuse it: a network mount reports there that written
    /// data did not fit.
    Told,
}

/// The data that a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Only what POSIX promises: the synced file's content and mode, or the synced directory's
    /// names.
    Strict,
    /// As on ext4 with `data=ordered`: a sync also makes everything durable that reached the disk
    /// before it, names and data.
    Ordered,
}

impl Profile {
    /// No latency; the kernel keeps attributes for a second, and writes arrive at once.
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

    /// A network mount: attributes are kept for three seconds (NFS' `acregmin`).
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

    /// Amazon's EFS, which answers when several zones have the data.
    pub fn efs() -> Profile {
        Profile::far(Duration::from_millis(3), 128)
    }

    /// A block volume across the network.
    pub fn ebs() -> Profile {
        Profile::far(Duration::from_micros(500), 32)
    }

    /// A disk with one arm at 7,200 turns. The kernel caches everything for the time of a run.
    pub fn hdd() -> Profile {
        let kept = Duration::from_secs(60);
        Profile {
            latency: Latency::Arm { settle: Duration::from_micros(400), stroke: Duration::from_millis(9) },
            caching: Caching { entries: kept, attributes: kept, writes: Writes::Back },
            xattrs: Xattrs::Refused,
            ..Profile::calm()
        }
    }

    /// A local disk on which only flushes take time: 1 ms on a good SSD with a cache that may lose
    /// power, 5 ms on a cheap one or across a network, 20 ms on a turning disk. The kernel caches
    /// everything for the time of a run.
    pub fn flushing(flush: Duration) -> Profile {
        Profile { latency: Latency::None, flush: Some(flush), ..Profile::hdd() }
    }

    /// A disk for faults: the kernel caches nothing, so that each run has the same operations, and
    /// closing may fail.
    pub fn bare() -> Profile {
        let caching =
            Caching { entries: Duration::ZERO, attributes: Duration::ZERO, writes: Writes::Through };
        Profile { caching, closing: Closing::Told, xattrs: Xattrs::Refused, ..Profile::calm() }
    }

    /// Names that ignore case. The kernel caches no name, because it would cache each spelling
    /// separately.
    pub fn casefold() -> Profile {
        let calm = Profile::calm();
        let caching = Caching { entries: Duration::ZERO, ..calm.caching };
        Profile { names: Names::Folded, caching, ..calm }
    }

    /// A disk whose plug can be pulled.
    pub fn power(journal: Journal) -> Profile {
        Profile { power: Some(journal), ..Profile::calm() }
    }

    /// The preset of this name.
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
