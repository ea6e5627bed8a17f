//! The process that serves one connection, which is its standard input.
//!
//! Order: read who connected; open what only root may open; become that user with two capabilities;
//! then read the first byte that the user wrote.

use std::{
    ffi::CString,
    io::{self, Write as _},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags, fstat, open, stat},
    net::sockopt::{Timeout, set_socket_timeout, socket_peercred},
};

use crate::{
    checks::{self, Caller, Use},
    confine, image, mounts,
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
    own: Namespace,
    theirs: Namespace,
    /// True while this process is in the caller's mount namespace.
    is_away: bool,
}

/// A mount namespace.
struct Namespace {
    file: OwnedFd,
    number: u64,
}

impl Namespace {
    fn open(path: &str) -> io::Result<Namespace> {
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Namespace { number: fstat(&file)?.st_ino, file })
    }
}

/// Serves the connection.
pub fn run(policy: &Policy) -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    for which in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, which, Some(policy.patience()))?;
    }
    let peer = socket_peercred(&socket)?;
    let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
    if uid == 0 {
        return wire::refuse(&socket, Code::Root);
    }
    let pidfd = sys::peer_pidfd(&socket)?;
    let caller = Caller { uid, gid, groups: sys::peer_groups(&socket)? };
    let dir = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let images = open(&policy.images, dir, Mode::empty())?;
    let table = Table::new(open(&policy.state, dir, Mode::empty())?);
    let own = Namespace::open("/proc/self/ns/mnt")?;
    confine::become_caller(&caller, policy.memory())?;
    // As this user, so the kernel decides whether the user may see this process.
    let Ok(theirs) = namespace_of(peer.pid.as_raw_nonzero().get(), &pidfd) else {
        return wire::refuse(&socket, Code::Namespace);
    };
    let mut worker = Worker { policy, caller, images, table, own, theirs, is_away: false };
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

/// Returns the mount namespace of a process, which is in the user namespace of the service. So its
/// mount namespace belongs to that user namespace too: nobody may enter another one without rights
/// there, and no process returns to an outer user namespace. The namespaces are opened by the
/// process id; `pidfd` then tells that the id still means this process.
fn namespace_of(pid: i32, pidfd: &OwnedFd) -> io::Result<Namespace> {
    let found = Namespace::open(&format!("/proc/{pid}/ns/mnt"))?;
    let (user, own) = (stat(format!("/proc/{pid}/ns/user"))?, stat("/proc/self/ns/user")?);
    let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
    let is_over = poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0;
    if (user.st_dev, user.st_ino) != (own.st_dev, own.st_ino) || is_over {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(found)
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
        match request {
            Request::Hello => Ok(None),
            Request::Image => {
                let (file, place) = (next()?, next()?);
                self.mount_image(&file, &place, given.collect()).map(Some)
            }
            Request::Overlay { is_volatile } => {
                let (place, upper, work) = (next()?, next()?, next()?);
                self.mount_overlay(&place, &upper, &work, given.collect(), *is_volatile).map(Some)
            }
            Request::Bind => {
                let (place, dir) = (next()?, next()?);
                self.bind(&place, &dir).map(Some)
            }
            Request::Unmount { name, is_lazy } => {
                let dir = next()?;
                let name = CString::new(name.as_slice()).map_err(|_| Answer::of(Code::Malformed))?;
                self.go(true)?;
                let ended = mounts::unmount(&dir, &name, *is_lazy, self.caller.uid, &self.table)?;
                Ok(Some(Done { what: "ended", mount: ended, bytes: 0 }))
            }
        }
    }

    fn mount_image(
        &mut self,
        file: &OwnedFd,
        place: &OwnedFd,
        devices: Vec<OwnedFd>,
    ) -> Result<Done, Answer> {
        self.check_place(place)?;
        devices.iter().try_for_each(checks::readable_file)?;
        let limit = self.policy.image_bytes;
        let copy = image::copy(file, devices.len(), &self.caller, limit, &self.images)?;
        let all = devices.iter().chain([file, place]).map(AsFd::as_fd);
        let forbids_programs = checks::forbids_programs(all)?;
        self.go(false)?;
        let made = mounts::image(&copy.file, &devices, forbids_programs)?;
        let mount = self.attach(made, place, copy.bytes, (0, 0))?;
        Ok(Done { what: "mounted image", mount, bytes: copy.bytes })
    }

    fn mount_overlay(
        &mut self,
        place: &OwnedFd,
        upper: &OwnedFd,
        work: &OwnedFd,
        lower: Vec<OwnedFd>,
        is_volatile: bool,
    ) -> Result<Done, Answer> {
        self.check_place(place)?;
        for dir in [upper, work] {
            checks::directory(dir, &self.caller, Use::Upper)?;
        }
        lower.iter().try_for_each(|dir| checks::directory(dir, &self.caller, Use::Lower))?;
        let all = lower.iter().chain([place, upper, work]).map(AsFd::as_fd);
        let forbids_programs = checks::forbids_programs(all)?;
        let key = fstat(upper)?;
        self.go(true)?;
        let made = mounts::overlay(upper, work, &lower, is_volatile, forbids_programs)?;
        let mount = self.attach(made, place, 0, (key.st_dev, key.st_ino))?;
        Ok(Done { what: "mounted overlay", mount, bytes: 0 })
    }

    fn bind(&mut self, place: &OwnedFd, dir: &OwnedFd) -> Result<Done, Answer> {
        for dir in [place, dir] {
            checks::directory(dir, &self.caller, Use::Place)?;
        }
        self.go(true)?;
        let mount = self.attach(mounts::bind(dir)?, place, 0, (0, 0))?;
        Ok(Done { what: "bound", mount, bytes: 0 })
    }

    fn check_place(&self, place: &OwnedFd) -> Result<(), Answer> {
        checks::directory(place, &self.caller, Use::Place)?;
        checks::empty_but_for_git(place)
    }

    fn attach(
        &mut self,
        made: mounts::Detached,
        place: &OwnedFd,
        bytes: u64,
        upper: (u64, u64),
    ) -> Result<u64, Answer> {
        self.go(true)?;
        let facts = Entry { id: 0, uid: self.caller.uid, namespace: self.theirs.number, bytes, upper };
        made.attach(place, facts, &self.table, self.policy)
    }

    /// Goes to the mount namespace of the caller, or back.
    fn go(&mut self, is_away: bool) -> io::Result<()> {
        if self.is_away != is_away {
            let to = if is_away { &self.theirs } else { &self.own };
            confine::joining(|| mounts::join(&to.file))?;
            self.is_away = is_away;
        }
        Ok(())
    }
}

/// Writes a line to standard error, which is the journal.
pub(crate) fn log(line: std::fmt::Arguments<'_>) {
    // Nobody can be told that the log is full.
    let _ = io::stderr().write_all(format!("sapwood-mountd: {line}\n").as_bytes());
}
