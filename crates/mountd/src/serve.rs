//! Accepts connections, and starts a worker for each.
//!
//! This process reads no byte of a user, and is never the last one that holds a connection: with
//! its last holder, the kernel closes the descriptors that were sent along.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, chmod, fstat, open},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen as start_listening,
        socket_with, sockopt::socket_peercred,
    },
};

use crate::{policy::Policy, worker::log};

/// The word on the command line of a worker.
pub const WORKER: &str = "--worker";
/// The word on the command line of a worker that refuses its connection.
pub const REFUSE: &str = "--refuse";

/// The number of connections of all users, in those of one.
const USERS: usize = 8;
/// The number of connections that wait for a worker.
const WAITING: usize = 512;

/// Makes a socket at `path` that every user may connect to.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    chmod(path, Mode::from_raw_mode(0o666))?;
    start_listening(&socket, 128)?;
    Ok(socket)
}

/// A worker, the user whom it serves, and true if it refuses the connection.
struct Worker {
    uid: u32,
    child: Child,
    refuses: bool,
}

/// Serves a listening socket. Returns only with an error.
pub fn serve(listener: impl AsFd, policy: &Policy) -> io::Result<()> {
    private(&policy.images)?;
    private(&policy.state)?;
    rustix::io::ioctl_fionbio(&listener, true)?;
    let mut workers: Vec<Worker> = Vec::new();
    let mut waiting: Vec<(u32, OwnedFd)> = Vec::new();
    let mut is_short = false;
    loop {
        // Ended workers are counted until they are reaped.
        let tick = Timespec { tv_sec: 0, tv_nsec: if waiting.is_empty() { 100_000_000 } else { 10_000_000 } };
        let wait = (!workers.is_empty() || !waiting.is_empty()).then_some(&tick);
        let mut ready = [PollFd::new(&listener, PollFlags::IN)];
        // A listener that is not looked at keeps its connections.
        let pauses = is_short || waiting.len() >= WAITING;
        match poll(&mut ready[usize::from(pauses)..], if pauses { Some(&tick) } else { wait }) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        workers.retain_mut(|worker| matches!(worker.child.try_wait(), Ok(None)));
        is_short = false;
        while waiting.len() < WAITING && !is_short {
            match accept_with(&listener, SocketFlags::CLOEXEC) {
                Ok(connection) => waiting.push((socket_peercred(&connection)?.uid.as_raw(), connection)),
                Err(Errno::AGAIN) => break,
                // No descriptors are left, or no memory.
                Err(_) => is_short = true,
            }
        }
        waiting = waiting.into_iter().filter_map(|one| served(one, &mut workers, policy)).collect();
    }
}

/// Starts a worker for a connection. Returns the connection if it has to wait: the workers that
/// refuse are limited too, and so are the processes of the machine.
fn served(
    (uid, connection): (u32, OwnedFd),
    workers: &mut Vec<Worker>,
    policy: &Policy,
) -> Option<(u32, OwnedFd)> {
    let most = policy.connections as usize;
    let count = |refuses: bool| {
        let all = workers.iter().filter(|worker| worker.refuses == refuses);
        (all.clone().count(), all.filter(|worker| worker.uid == uid).count())
    };
    let is_full = |(all, own): (usize, usize)| own >= most || all >= most.saturating_mul(USERS);
    let refuses = is_full(count(false));
    if refuses && is_full(count(true)) {
        return Some((uid, connection));
    }
    match start(&connection, if refuses { REFUSE } else { WORKER }, policy) {
        Ok((child, released)) => {
            workers.push(Worker { uid, child, refuses });
            drop(connection);
            drop(released);
            None
        }
        Err(error) => {
            log(format_args!("no worker: {error}"));
            Some((uid, connection))
        }
    }
}

/// Starts a worker. It begins when the second value is dropped.
fn start(connection: &OwnedFd, word: &str, policy: &Policy) -> io::Result<(Child, io::PipeWriter)> {
    let (begun, released) = io::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(word).args(policy.args()).env_clear().current_dir("/");
    let child = command.stdin(Stdio::from(connection.try_clone()?)).stdout(begun).spawn()?;
    Ok((child, released))
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
