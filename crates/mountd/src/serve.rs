//! Accepts connections, and starts a worker for each. This process reads no byte of a user.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, chmod, fstat, open},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen as start_listening,
        socket_with, sockopt::socket_peercred,
    },
};

use crate::{
    policy::Policy,
    wire::{self, Code},
    worker::log,
};

/// The word on the command line of a worker.
pub const WORKER: &str = "--worker";

/// The number of connections of all users, in those of one.
const USERS: u64 = 8;

/// Makes a socket at `path` that every user may connect to.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    chmod(path, Mode::from_raw_mode(0o666))?;
    start_listening(&socket, 128)?;
    Ok(socket)
}

/// Serves a listening socket. Returns only with an error.
pub fn serve(listener: impl AsFd, policy: &Policy) -> io::Result<()> {
    private(&policy.images)?;
    private(&policy.state)?;
    rustix::io::ioctl_fionbio(&listener, true)?;
    let mut workers: Vec<(u32, Child)> = Vec::new();
    loop {
        // Ended workers are counted until they are reaped.
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let wait = (!workers.is_empty()).then_some(&tick);
        let mut ready = [PollFd::new(&listener, PollFlags::IN)];
        match poll(&mut ready, wait) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        workers.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        while let Ok(connection) = accept_with(&listener, SocketFlags::CLOEXEC) {
            match start(connection, &workers, policy) {
                Ok(Some(started)) => workers.push(started),
                Ok(None) => {}
                Err(error) => log(format_args!("no worker: {error}")),
            }
        }
    }
}

/// Starts a worker. Returns `None` if there are too many.
fn start(connection: OwnedFd, workers: &[(u32, Child)], policy: &Policy) -> io::Result<Option<(u32, Child)>> {
    let uid = socket_peercred(&connection)?.uid.as_raw();
    let own = workers.iter().filter(|(other, _)| *other == uid).count() as u64;
    let is_full = workers.len() as u64 >= policy.connections.saturating_mul(USERS);
    if is_full || own >= policy.connections {
        rustix::io::ioctl_fionbio(&connection, true)?;
        let _ = wire::refuse(&connection, Code::Busy);
        return Ok(None);
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg(WORKER).args(policy.args()).env_clear().current_dir("/");
    let child = command.stdin(Stdio::from(connection)).stdout(Stdio::null()).spawn()?;
    Ok(Some((uid, child)))
}

/// Returns an error unless only this user may enter a directory.
fn private(path: &Path) -> io::Result<()> {
    match sys::by_path::create_private_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = fstat(open(path, flags, Mode::empty())?)?;
    if found.st_uid == sys::user::effective_uid() && found.st_mode & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("others may enter '{}'", path.display())))
}
