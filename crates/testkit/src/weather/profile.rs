//! What the weather is like: small values, put together by the presets below.

use std::time::Duration;

/// What a mount does to those who use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// How long an operation takes.
    pub latency: Latency,
    /// What the kernel may answer by itself, and for how long.
    pub caching: Caching,
    /// Whether `A` and `a` are one name.
    pub names: Names,
    /// Whether what was not synced is remembered, and by which rules. With it no inode is ever forgotten, and the
    /// backing directory is read into memory: for small trees.
    pub power: Option<Journal>,
    /// Whether extended attributes are served.
    pub xattrs: Xattrs,
    /// Whether the server is told when a file is closed.
    pub closing: Closing,
}

/// How long an operation takes, from its arrival to its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// As long as the backing directory takes.
    None,
    /// A server far away.
    Slots {
        /// What each operation takes once it is served.
        each: Duration,
        /// How many are served at once; the others wait in the order of arrival.
        at_once: usize,
    },
    /// A disk with one arm, which serves one operation at a time, and of those that wait the one that comes next in its
    /// sweep over the disk.
    Arm {
        /// What an operation takes where the arm already is.
        settle: Duration,
        /// What the longest way takes besides; others take it times the square root of their share of that way.
        stroke: Duration,
    },
}

/// What the kernel keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// For how long a name that was found is known to lead where it led. Names that were not found are never kept.
    pub entries: Duration,
    /// For how long attributes are known.
    pub attributes: Duration,
    /// What becomes of written data.
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

/// Whether there are extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xattrs {
    /// Passed through. The kernel then asks for one before each write.
    Served,
    /// Not supported, as on NFSv3.
    Refused,
}

/// What becomes of `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The server is not asked.
    Free,
    /// The server is asked each time, and may refuse: where a network mount says that what was written did not fit.
    Told,
}

/// What a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// Only what POSIX promises: the synced file's content and mode, or the synced directory's names.
    Strict,
    /// As on ext4 with `data=ordered`: whatever is synced, all that reached the disk before becomes durable with it,
    /// names and data.
    Ordered,
}

impl Profile {
    /// No latency; the kernel keeps attributes for a second, and writes arrive at once.
    pub fn calm() -> Profile {
        let second = Duration::from_secs(1);
        Profile {
            latency: Latency::None,
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

    /// A disk with one arm at 7,200 turns. The kernel keeps what it has seen for as long as a run takes.
    pub fn hdd() -> Profile {
        let kept = Duration::from_secs(60);
        Profile {
            latency: Latency::Arm { settle: Duration::from_micros(400), stroke: Duration::from_millis(9) },
            caching: Caching { entries: kept, attributes: kept, writes: Writes::Back },
            xattrs: Xattrs::Refused,
            ..Profile::calm()
        }
    }

    /// A disk for faults: the kernel keeps nothing, so that the same operations come in each run, and closing may fail.
    pub fn bare() -> Profile {
        let caching =
            Caching { entries: Duration::ZERO, attributes: Duration::ZERO, writes: Writes::Through };
        Profile { caching, closing: Closing::Told, xattrs: Xattrs::Refused, ..Profile::calm() }
    }

    /// Names without regard to case. The kernel keeps no name, as it would keep each spelling by itself.
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
            "bare" => Profile::bare(),
            "casefold" => Profile::casefold(),
            _ => return None,
        })
    }
}
