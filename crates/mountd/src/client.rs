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
    /// The upper layer.
    pub upper: &'a Path,
    /// The work directory.
    pub work: &'a Path,
    /// The lower layers, from top to bottom.
    pub lower: Vec<&'a Path>,
    /// `fsync` in it does nothing.
    pub is_volatile: bool,
}

impl Service {
    /// Connects to the service at `socket`. A process without root's rights is no service.
    pub fn connect(socket: &Path) -> Result<Service, Error> {
        let connected = || -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC;
            let made = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            connect(&made, &SocketAddrUnix::new(socket)?)?;
            if !socket_peercred(&made)?.uid.is_root() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            set_socket_timeout(&made, Timeout::Recv, Some(PATIENCE))?;
            set_socket_timeout(&made, Timeout::Send, Some(PATIENCE))?;
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
        let mut files = vec![file(image)?, directory(at)?];
        for device in devices {
            files.push(file(device)?);
        }
        self.call(&Request::Image, &files)
    }

    /// Mounts an overlay.
    pub fn mount_overlay(&self, overlay: &Overlay<'_>) -> Result<(), Error> {
        let Overlay { top, upper, work, lower, is_volatile } = overlay;
        let all = [top, upper, work].into_iter().chain(lower);
        let dirs = all.map(|dir| directory(dir)).collect::<Result<Vec<_>, _>>()?;
        self.call(&Request::Overlay { is_volatile: *is_volatile }, &dirs)
    }

    /// Shows the directory `dir` at `at`.
    pub fn bind(&self, dir: &Path, at: &Path) -> Result<(), Error> {
        self.call(&Request::Bind, &[directory(at)?, directory(dir)?])
    }

    /// Ends the mount at `path`, which this user made.
    pub fn unmount(&self, path: &Path, is_lazy: bool) -> Result<(), Error> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::Refused(Code::NoMount.into()));
        };
        set_socket_timeout(&self.0, Timeout::Recv, None).map_err(|errno| Error::Silent(errno.into()))?;
        self.call(&Request::Unmount { name: name.as_bytes().to_vec(), is_lazy }, &[directory(above)?])
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

fn directory(path: &Path) -> Result<OwnedFd, Error> {
    opened(path, OFlags::PATH | OFlags::DIRECTORY)
}
