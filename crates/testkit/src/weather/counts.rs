//! Counts the served operations.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

macro_rules! operations {
    ($($name:ident $text:literal,)*) => {
        /// A request of the kernel. One system call may cause several requests, or none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Operation { $($name,)* }

        impl Operation {
            /// All operations.
            pub const ALL: &[Operation] = &[$(Operation::$name,)*];

            /// Returns its name for reports.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$name => $text,)* }
            }
        }
    };
}

operations! {
    Lookup "lookup",
    Getattr "getattr",
    Setattr "setattr",
    Readlink "readlink",
    Mknod "mknod",
    Mkdir "mkdir",
    Unlink "unlink",
    Rmdir "rmdir",
    Symlink "symlink",
    Rename "rename",
    Link "link",
    Open "open",
    Read "read",
    Write "write",
    Create "create",
    Flush "flush",
    Release "release",
    Fsync "fsync",
    Opendir "opendir",
    Readdir "readdir",
    Fsyncdir "fsyncdir",
    Statfs "statfs",
    Setxattr "setxattr",
    Getxattr "getxattr",
    Listxattr "listxattr",
    Removexattr "removexattr",
    Access "access",
    Fallocate "fallocate",
}

/// Counters while the mount is in use.
#[derive(Debug)]
pub(super) struct Counters {
    operations: [AtomicU64; Operation::ALL.len()],
    flushes: AtomicU64,
    written: AtomicU64,
}

impl Counters {
    pub(super) fn new() -> Counters {
        Counters {
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            flushes: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, operation: Operation) {
        self.operations[operation as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Counts {
        Counts {
            operations: std::array::from_fn(|which| self.operations[which].load(Ordering::Relaxed)),
            flushes: self.flushes.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
        }
    }
}

/// The number of served operations of each kind, failed ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    operations: [u64; Operation::ALL.len()],
    flushes: u64,
    written: u64,
}

impl Counts {
    /// Returns the count of one kind.
    pub fn of(&self, operation: Operation) -> u64 {
        self.operations[operation as usize]
    }

    /// Returns the sum without [`Operation::Release`], for which no program waits.
    pub fn all(&self) -> u64 {
        self.operations.iter().sum::<u64>() - self.of(Operation::Release)
    }

    /// Returns the number of flushes of the disk's cache. Syncs that arrive during a flush share
    /// the next flush, so there may be fewer flushes than syncs.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Returns the number of bytes written to files.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the requests since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            operations: std::array::from_fn(|which| self.operations[which] - earlier.operations[which]),
            flushes: self.flushes - earlier.flushes,
            written: self.written - earlier.written,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut served: Vec<_> = Operation::ALL.iter().map(|&kind| (self.of(kind), kind.name())).collect();
        served.retain(|(count, _)| *count > 0);
        served.sort_by(|left, right| right.cmp(left));
        let words: Vec<String> = served.iter().map(|(count, name)| format!("{count} {name}")).collect();
        write!(f, "{}; {} flushes, {} bytes written", words.join(", "), self.flushes, self.written)
    }
}
