//! The process at the other end of a connection.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, Mode, OFlags, open, openat, stat, statat},
};

use crate::wire::Code;

/// The user at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    /// The group, and the supplementary groups.
    pub(crate) groups: Vec<u32>,
}

/// Returns the mount namespace of the process `pid`, which `pidfd` means too.
///
/// The process is in the user namespace of the service. So its mount namespace belongs to that user
/// namespace too: nobody may enter another one without rights there, and no process returns to an
/// outer user namespace. It is in no sandbox that it could leave by a mount: rules for paths
/// (Landlock) and lists of system calls come with these two marks, which no process can remove.
///
/// All facts are read from one directory of `/proc`; `pidfd` then tells that the id still means
/// this process.
pub(crate) fn examine(pid: i32, pidfd: &OwnedFd) -> Result<OwnedFd, Code> {
    let gone = |_| Code::Namespace;
    let (found, is_inside, is_free) = facts(pid).map_err(gone)?;
    let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
    let is_over =
        poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_err(|_| Code::Namespace)? > 0;
    match (is_inside && !is_over, is_free) {
        (false, _) => Err(Code::Namespace),
        (_, false) => Err(Code::Sandbox),
        _ => Ok(found),
    }
}

/// Returns the mount namespace of a process, true if it is in the user namespace of this process,
/// and true if it has neither mark of a sandbox.
fn facts(pid: i32) -> io::Result<(OwnedFd, bool, bool)> {
    let dir =
        open(format!("/proc/{pid}"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let read = |name: &str| openat(&dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let namespace = read("ns/mnt")?;
    let (user, own) = (statat(&dir, "ns/user", AtFlags::empty())?, stat("/proc/self/ns/user")?);
    let mut status = String::new();
    File::from(read("status")?).read_to_string(&mut status)?;
    let is_zero = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.is_some_and(|value| value.trim() == "0")
    };
    let is_inside = (user.st_dev, user.st_ino) == (own.st_dev, own.st_ino);
    Ok((namespace, is_inside, is_zero("NoNewPrivs") && is_zero("Seccomp")))
}
