//! The process that serves one connection, which is its standard input.
//!
//! Order: read who connected; open what only root may open; take the files of that user, with no
//! effective capability; then read the first byte that the user wrote.

use std::{
    ffi::{CStr, CString},
    io::{self, Write as _},
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    path::PathBuf,
};

use rustix::{
    fs::{Mode, OFlags, fstat, open, readlink},
    net::sockopt::{Timeout, set_socket_timeout, socket_peercred},
};

use crate::{
    checks, confine,
    disks::Use,
    image, mounts,
    peer::{self, Caller},
    policy::Policy,
    table::{Entry, Table},
    wire::{self, Answer, Code, Packet, REQUEST, Request},
};

/// A worker after its start.
struct Worker<'p> {
    policy: &'p Policy,
    caller: Caller,
    images: OwnedFd,
    table: Table,
    /// A user namespace with the caller's ids only.
    ids: OwnedFd,
    /// The mount namespaces.
    own: OwnedFd,
    theirs: OwnedFd,
    /// True while this process is in the caller's mount namespace.
    is_away: bool,
}

/// Waits until the process that accepted the connection has closed it, which closes the writing end
/// of the pipe that is the standard output. The last holder of a connection closes the descriptors
/// that nobody received, and a close may wait as long as the user likes.
fn await_start() {
    while let Ok(1..) = rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdout(), &mut [0; 1])) {
    }
}

/// Refuses the connection, because the user has too many.
pub fn refuse() -> io::Result<()> {
    await_start();
    let socket = io::stdin();
    rustix::io::ioctl_fionbio(&socket, true)?;
    wire::refuse(&socket, Code::Busy)
}

/// Serves the connection.
pub fn run(policy: &Policy) -> io::Result<()> {
    await_start();
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    for which in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, which, Some(policy.patience()))?;
    }
    let peer = socket_peercred(&socket)?;
    if peer.uid.is_root() {
        return wire::refuse(&socket, Code::Root);
    }
    let pidfd = sys::peer_pidfd(&socket)?;
    let groups = [vec![peer.gid.as_raw()], sys::peer_groups(&socket)?].concat();
    let caller = Caller { uid: peer.uid.as_raw(), groups };
    let dir = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let images = open(&policy.images, dir, Mode::empty())?;
    let table = Table::new(open(&policy.state, dir, Mode::empty())?, policy.patience());
    let own = open("/proc/self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let ids = sys::namespace::of_ids(caller.uid, &caller.groups)?;
    confine::become_caller(&caller, policy.memory())?;
    // As this user, so the kernel decides whether the user may see this process.
    let theirs = match peer::examine(peer.pid.as_raw_nonzero().get(), &pidfd) {
        Ok(theirs) => theirs,
        Err(code) => return wire::refuse(&socket, code),
    };
    let mut worker = Worker { policy, caller, images, table, ids, own, theirs, is_away: false };
    loop {
        let packet = match wire::receive::<REQUEST>(&socket) {
            Ok(Some(packet)) => packet,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return wire::refuse(&socket, Code::Malformed);
            }
            // The end, or a caller without a word for too long.
            Ok(None) | Err(_) => return Ok(()),
        };
        let answer = worker.answer(packet);
        wire::send(&socket, &answer.encode(), &[])?;
    }
}

/// A mount, or an end of one, for the log.
struct Done {
    what: &'static str,
    mount: u64,
    bytes: u64,
}

impl Worker<'_> {
    fn answer(&mut self, packet: Packet<REQUEST>) -> Answer {
        let Packet { bytes, descriptors } = packet;
        let Some(request) = Request::decode(&bytes) else { return Code::Malformed.into() };
        let uid = self.caller.uid;
        match self.serve(&request, descriptors) {
            Ok(None) => Code::Done.into(),
            Ok(Some(Done { what, mount, bytes })) => {
                log(format_args!("user {uid}: {what} {mount}, {bytes} bytes"));
                Code::Done.into()
            }
            Err(answer) => {
                log(format_args!("user {uid}: {request:?} refused: {:?} {}", answer.code, answer.errno));
                answer
            }
        }
    }

    fn serve(&mut self, request: &Request, descriptors: Vec<OwnedFd>) -> Result<Option<Done>, Answer> {
        let mut given = descriptors.into_iter();
        let mut next = || given.next().ok_or(Answer::of(Code::Descriptor));
        let name = |name: &[u8]| CString::new(name).map_err(|_| Answer::of(Code::Malformed));
        match request {
            Request::Hello => Ok(None),
            Request::Image { name: place } => {
                let (dir, file) = (next()?, next()?);
                self.mount_image(&dir, &name(place)?, &file, given.collect()).map(Some)
            }
            Request::Overlay { name: place, is_volatile } => {
                let (dir, layers) = (next()?, next()?);
                self.mount_overlay(&dir, &name(place)?, &layers, &given.collect::<Vec<_>>(), *is_volatile)
                    .map(Some)
            }
            Request::Git => {
                let (top, git) = (next()?, next()?);
                self.show_git(&top, &git).map(Some)
            }
            Request::Unmount { name: place, is_lazy } => {
                let dir = next()?;
                self.go(true)?;
                let ended = mounts::unmount(&dir, &name(place)?, *is_lazy, self.caller.uid, &self.table)?;
                Ok(Some(Done { what: "ended", mount: ended, bytes: 0 }))
            }
        }
    }

    fn mount_image(
        &mut self,
        dir: &OwnedFd,
        name: &CStr,
        file: &OwnedFd,
        devices: Vec<OwnedFd>,
    ) -> Result<Done, Answer> {
        let place = checks::place(dir, name, &self.caller)?;
        checks::empty_but_for_git(&place)?;
        devices.iter().try_for_each(checks::readable_file)?;
        let _turn = self.table.turn(self.caller.uid)?;
        let limit = self.policy.image_bytes;
        let copy = image::copy(file, devices.len(), &self.caller, limit, &self.images)?;
        let forbids_programs = checks::forbids_programs(devices.iter().chain([file, &place]))?;
        self.go(false)?;
        let made = mounts::image(&copy.file, &devices, forbids_programs)?;
        let mount = self.attach(made, &place, copy.bytes, (0, 0))?;
        Ok(Done { what: "mounted image", mount, bytes: copy.bytes })
    }

    fn mount_overlay(
        &mut self,
        dir: &OwnedFd,
        name: &CStr,
        layers: &OwnedFd,
        lower: &[OwnedFd],
        is_volatile: bool,
    ) -> Result<Done, Answer> {
        let place = checks::place(dir, name, &self.caller)?;
        checks::empty_but_for_git(&place)?;
        checks::directory(layers, &self.caller, Use::Upper)?;
        lower.iter().try_for_each(|dir| checks::directory(dir, &self.caller, Use::Lower))?;
        let forbids_programs = checks::forbids_programs(lower.iter().chain([layers, &place]))?;
        self.go(false)?;
        let path = path_of(layers)?.join("upper");
        self.go(true)?;
        // The kernel empties the work directory. The ids keep it from files of other users.
        let mount = mounts::bind(layers, Some(&self.ids))?;
        let upper = checks::layer(layers, mount.root(), c"upper", &self.caller)?;
        let work = checks::layer(layers, mount.root(), c"work", &self.caller)?;
        let key = fstat(&upper)?;
        let layers = mounts::Layers { upper: &upper, work: &work, lower, path: &path };
        let made = mounts::overlay(&layers, is_volatile, forbids_programs)?;
        let mount = self.attach(made, &place, 0, (key.st_dev, key.st_ino))?;
        Ok(Done { what: "mounted overlay", mount, bytes: 0 })
    }

    /// Shows a Git directory in an overlay of the caller. So there is at most one such mount for
    /// each overlay, and none in a place that another mount shows.
    fn show_git(&mut self, top: &OwnedFd, git: &OwnedFd) -> Result<Done, Answer> {
        checks::directory(git, &self.caller, Use::Upper)?;
        let found = sys::unique_mount(top, c"")?;
        let overlay = self.table.lock()?.find(found.id)?;
        let is_ours = |entry: &Entry| entry.uid == self.caller.uid && entry.upper != (0, 0);
        if !found.is_root || !overlay.as_ref().is_some_and(is_ours) {
            return Err(Code::NoMount.into());
        }
        let place = checks::place(top, c".git", &self.caller)?;
        self.go(true)?;
        let mount = self.attach(mounts::bind(git, None)?, &place, 0, (0, 0))?;
        Ok(Done { what: "showed Git directory", mount, bytes: 0 })
    }

    fn attach(
        &mut self,
        made: mounts::Detached,
        place: &OwnedFd,
        bytes: u64,
        upper: (u64, u64),
    ) -> Result<u64, Answer> {
        self.go(true)?;
        let facts = Entry { id: 0, uid: self.caller.uid, namespace: 0, bytes, upper };
        made.attach(place, facts, &self.table, self.policy)
    }

    /// Goes to the mount namespace of the caller, or back.
    fn go(&mut self, is_away: bool) -> io::Result<()> {
        if self.is_away != is_away {
            let to = if is_away { &self.theirs } else { &self.own };
            mounts::join(to)?;
            self.is_away = is_away;
        }
        Ok(())
    }
}

/// Returns the path of an open directory. This process is in its own mount namespace.
fn path_of(dir: &OwnedFd) -> Result<PathBuf, Answer> {
    let path = readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new())?;
    Ok(sys::os_str(path.as_bytes()).into())
}

/// Writes a line to standard error, which is the journal.
pub(crate) fn log(line: std::fmt::Arguments<'_>) {
    // Nobody can be told that the log is full.
    let _ = io::stderr().write_all(format!("sapwood-mountd: {line}\n").as_bytes());
}
