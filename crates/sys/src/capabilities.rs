//! The optional system calls that the kernel and a surrounding sandbox allow.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::{
    file::Closing,
    profile::{Phase, retried},
};

/// The optional system calls that are available. A [`Dir`](crate::Dir) probes them when it is
/// opened by path. Every directory opened beneath it inherits the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// True if `openat2(2)` works: Linux 5.6 and newer, unless a seccomp filter refuses it (`EPERM`
    /// or `ENOSYS`). Without it, [`Dir`](crate::Dir) resolves paths one component at a time.
    pub openat2: bool,
}

impl Capabilities {
    /// No optional system call. Every operation still works, and still stays beneath its directory.
    pub const NONE: Capabilities = Capabilities { openat2: false };

    /// Probes `openat2` by opening `dir` itself again.
    pub(crate) fn probe(dir: impl AsFd) -> Capabilities {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let answer = retried(Phase::Open, || {
            rustix::fs::openat2(&dir, c".", flags, Mode::empty(), ResolveFlags::BENEATH)
        });
        Capabilities { openat2: answer.map(Closing::new).is_ok() }
    }
}
