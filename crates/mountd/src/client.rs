//! A user's side: opens everything with the user's rights, and passes descriptors.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags, open},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::{Timeout, set_socket_timeout, socket_peercred},
    },
};

use crate::wire::{self, ANSWER, Answer, Code, Request};

/// The socket of the service of the machine.
pub const SOCKET: &str = "/run/sapwood/mountd.sock";

/// The time in which the service answers. An unmount may wait for the disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no service, or it ended.
    #[error("the mount service does not answer: {0}")]
    Silent(#[source] io::Error),
    /// A file or directory of the request cannot be opened.
    #[error("cannot open '{}': {source}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The service refused.
    #[error("the mount service refused ({:?}, error {})", .0.code, .0.errno)]
    Refused(Answer),
}

/// A connection.
#[derive(Debug)]
pub struct Service(OwnedFd);

/// The directories of an overlay.
#[derive(Clone, Debug)]
pub struct Overlay<'a> {
    /// The mount point.
    pub top: &'a Path,
    /// The directory with the upper layer `upper` and the work directory `work`.
    pub layers: &'a Path,
    /// The lower layers, from top to bottom.
    pub lower: Vec<&'a Path>,
    /// `fsync` in it does nothing.
    pub is_volatile: bool,
}

impl Service {
    /// Connects to the service at `socket`. A process without root's rights is no service.
    pub fn connect(socket: &Path) -> Result<Service, Error> {
        Service::connect_within(socket, PATIENCE)
    }

    fn connect_within(socket: &Path, patience: Duration) -> Result<Service, Error> {
        let connected = || -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC;
            let made = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            // A service whose queue is full makes the connection wait too.
            set_socket_timeout(&made, Timeout::Recv, Some(patience))?;
            set_socket_timeout(&made, Timeout::Send, Some(patience))?;
            connect(&made, &SocketAddrUnix::new(socket)?)?;
            if !socket_peercred(&made)?.uid.is_root() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(made)
        };
        connected().map(Service).map_err(Error::Silent)
    }

    /// Returns an error unless the service serves this process.
    pub fn hello(&self) -> Result<(), Error> {
        self.call(&Request::Hello, &[])
    }

    /// Mounts the image in the file `image`, with its extra devices, at the empty directory `at`.
    pub fn mount_image(&self, image: &Path, devices: &[PathBuf], at: &Path) -> Result<(), Error> {
        let (dir, name) = place(&followed(at)?)?;
        let mut files = vec![dir, file(image)?];
        for device in devices {
            files.push(file(device)?);
        }
        self.call(&Request::Image { name }, &files)
    }

    /// Mounts an overlay.
    pub fn mount_overlay(&self, overlay: &Overlay<'_>) -> Result<(), Error> {
        let Overlay { top, layers, lower, is_volatile } = overlay;
        let (dir, name) = place(&followed(top)?)?;
        let mut dirs = vec![dir, directory(layers)?];
        for dir in lower {
            dirs.push(directory(dir)?);
        }
        self.call(&Request::Overlay { name, is_volatile: *is_volatile }, &dirs)
    }

    /// Shows the Git directory `git` as `.git` of the overlay at `top`.
    pub fn show_git(&self, git: &Path, top: &Path) -> Result<(), Error> {
        self.call(&Request::Git, &[directory(top)?, directory(git)?])
    }

    /// Ends the mount at `path`, which this user made. `is_lazy` counts for an overlay only.
    pub fn unmount(&self, path: &Path, is_lazy: bool) -> Result<(), Error> {
        let (dir, name) = place(path)?;
        set_socket_timeout(&self.0, Timeout::Recv, None).map_err(|errno| Error::Silent(errno.into()))?;
        self.call(&Request::Unmount { name, is_lazy }, &[dir])
    }

    /// Sends a request, and waits for its answer.
    pub fn call(&self, request: &Request, descriptors: &[OwnedFd]) -> Result<(), Error> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        // A service that refuses a connection closes it before it reads, and its answer says why.
        let sent = wire::send(&self.0, &request.encode(), &descriptors);
        let answer = match wire::receive::<ANSWER>(&self.0) {
            Ok(Some(packet)) => Answer::decode(&packet.bytes),
            Ok(None) => {
                return Err(Error::Silent(sent.err().unwrap_or(io::ErrorKind::UnexpectedEof.into())));
            }
            Err(error) => return Err(Error::Silent(sent.err().unwrap_or(error))),
        };
        match answer {
            Some(Answer { code: Code::Done, .. }) => Ok(()),
            Some(answer) => Err(Error::Refused(answer)),
            None => Err(Error::Silent(io::ErrorKind::InvalidData.into())),
        }
    }
}

fn opened(path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
    let made = rustix::io::retry_on_intr(|| open(path, flags | OFlags::CLOEXEC, Mode::empty()));
    made.map_err(|errno| Error::Open { path: path.to_owned(), source: errno.into() })
}

fn file(path: &Path) -> Result<OwnedFd, Error> {
    opened(path, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Returns the path without links: the service follows none.
fn followed(path: &Path) -> Result<PathBuf, Error> {
    sys::by_path::canonical(path).map_err(|source| Error::Open { path: path.to_owned(), source })
}

/// Returns the directory that a mount point lies in, and its name there.
fn place(path: &Path) -> Result<(OwnedFd, Vec<u8>), Error> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((directory(above)?, name.as_bytes().to_vec())),
        _ => Err(Error::Refused(Code::MountPoint.into())),
    }
}

fn directory(path: &Path) -> Result<OwnedFd, Error> {
    opened(path, OFlags::PATH | OFlags::DIRECTORY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that accepts nothing stops a client for a bounded time.
    #[test]
    fn a_connection_that_nobody_accepts_ends() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let path = dir.path().join("socket");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let new = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a socket");
        let address = SocketAddrUnix::new(&path).expect("a short path");
        let listener = new();
        rustix::net::bind(&listener, &address).expect("a new path");
        rustix::net::listen(&listener, 0).expect("bound");
        let mut queued = Vec::new();
        let full = loop {
            queued.push(new());
            if let Err(errno) = connect(queued.last().expect("pushed"), &address) {
                break errno;
            }
        };
        assert_eq!(full, rustix::io::Errno::AGAIN);
        let is_full = |made: &Result<Service, Error>| matches!(made, Err(Error::Silent(error)) if error.kind() == io::ErrorKind::WouldBlock);
        assert!(is_full(&Service::connect_within(&path, Duration::from_millis(50))));
        rustix::net::accept(&listener).expect("one waits");
        assert!(!is_full(&Service::connect_within(&path, Duration::from_secs(60))));
    }
}
