//! What the kernel and the sandbox around this process allow, probed into a value.

use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::{
    file::Closing,
    profile::{Phase, retried},
};

/// What is at hand. A [`Dir`](crate::Dir) probes when it is opened by path; every directory opened
/// beneath it inherits the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `openat2(2)`: Linux 5.6 and newer, unless a seccomp filter refuses it (`EPERM` or `ENOSYS`).
    /// Without it paths are resolved one component at a time.
    pub openat2: bool,
}

impl Capabilities {
    /// Nothing beyond what any kernel has. Every operation still works, and is contained as well.
    pub const NONE: Capabilities = Capabilities { openat2: false };

    /// Asks by opening `dir` itself once more.
    pub(crate) fn probe(dir: impl AsFd) -> Capabilities {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let answer = retried(Phase::Open, || {
            rustix::fs::openat2(&dir, c".", flags, Mode::empty(), ResolveFlags::BENEATH)
        });
        Capabilities { openat2: answer.map(Closing::new).is_ok() }
    }
}
