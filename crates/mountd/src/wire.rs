//! Messages between a user and the service: one packet for a request, one for its answer.
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 0 | version | version |
//! | 4 | operation | code |
//! | 8 | flags | error number of the kernel |
//! | 12 | length of the name | length of the text |
//! | 16 | name, zeros | messages of the kernel, a line each, zeros |
//!
//! Numbers have 32 bits in the machine's order. Descriptors go along with a request
//! (`SCM_RIGHTS`), in the order that [`Request`] gives.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recv, recvmsg, sendmsg, shutdown,
};

const VERSION: u32 = 2;
const HEAD: usize = 16;
/// The longest name, as in the kernel.
const NAME: usize = 255;
/// The length of a request.
pub const REQUEST: usize = HEAD + NAME + 1;
/// The length of an answer.
pub const ANSWER: usize = 512;
/// The greatest number of descriptors of a request.
pub const DESCRIPTORS: usize = 128;

const LAZY: u32 = 1;
const VOLATILE: u32 = 1;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks whether the service serves this user. No descriptors.
    Hello,
    /// Mounts an image. Descriptors: the directory that the mount point lies in, the image, the
    /// extra devices.
    Image {
        /// The name of the mount point in that directory.
        name: Vec<u8>,
    },
    /// Mounts an overlay. Descriptors: the directory that the mount point lies in, the directory
    /// with the upper layer `upper` and the work directory `work`, the lower layers from top to
    /// bottom.
    Overlay {
        /// The name of the mount point in that directory.
        name: Vec<u8>,
        /// `fsync` in it does nothing.
        is_volatile: bool,
    },
    /// Shows a Git directory as `.git` of an overlay of the caller. Descriptors: the root of the
    /// overlay, the Git directory.
    Git,
    /// Ends a mount of the caller. Descriptor: the directory that the mount point lies in.
    Unmount {
        /// The name of the mount point in that directory.
        name: Vec<u8>,
        /// Detach it also if it is in use.
        is_lazy: bool,
    },
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// It was done.
    Done,
    /// The message is malformed, or of another version.
    Malformed,
    /// The service serves users, and root needs none.
    Root,
    /// Too many connections.
    Busy,
    /// The caller is in a user namespace, or has ended.
    Namespace,
    /// The caller is in a sandbox: it has a filter of system calls, or `no_new_privs`.
    Sandbox,
    /// A descriptor is missing, of another type, or not open for reading.
    Descriptor,
    /// A descriptor leads to something that the caller does not own.
    Owner,
    /// The file system of a descriptor is not one on which the service mounts.
    FileSystem,
    /// The mount point is not empty, or something is mounted there.
    MountPoint,
    /// The image is not one that the writer makes, or not the caller's.
    Image,
    /// A limit of the user is reached.
    Limit,
    /// The upper layer is mounted.
    InUse,
    /// There is no mount of the caller.
    NoMount,
    /// The kernel refused. The error number says why.
    Kernel,
}

impl Code {
    #[rustfmt::skip]
    const ALL: [Code; 15] = [
        Code::Done, Code::Malformed, Code::Root, Code::Busy, Code::Namespace, Code::Sandbox, Code::Descriptor,
        Code::Owner, Code::FileSystem, Code::MountPoint, Code::Image, Code::Limit, Code::InUse, Code::NoMount,
        Code::Kernel,
    ];
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The outcome.
    pub code: Code,
    /// The error number of the kernel, or 0.
    pub errno: i32,
    /// Messages of the kernel, or the flaw of an image.
    pub messages: Vec<String>,
}

impl Answer {
    /// Returns an answer without more facts.
    pub fn of(code: Code) -> Answer {
        Answer { code, errno: 0, messages: Vec::new() }
    }
}

impl From<Code> for Answer {
    fn from(code: Code) -> Answer {
        Answer::of(code)
    }
}

/// A refusal by the kernel.
impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Answer {
        Answer { errno: error.raw_os_error().unwrap_or(0), ..Answer::of(Code::Kernel) }
    }
}

impl From<rustix::io::Errno> for Answer {
    fn from(errno: rustix::io::Errno) -> Answer {
        io::Error::from(errno).into()
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
}

/// Returns the bytes of a message.
fn message<const N: usize>(kind: u32, extra: u32, text: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    put(&mut bytes, 0, VERSION);
    put(&mut bytes, 4, kind);
    put(&mut bytes, 8, extra);
    put(&mut bytes, 12, text.len() as u32);
    bytes[HEAD..HEAD + text.len()].copy_from_slice(text);
    bytes
}

/// Returns kind, extra number and text of a message.
fn parsed(bytes: &[u8]) -> Option<(u32, u32, &[u8])> {
    let text = bytes[HEAD..].get(..number(bytes, 12) as usize)?;
    let is_padded = bytes[HEAD + text.len()..].iter().all(|&byte| byte == 0);
    (number(bytes, 0) == VERSION && is_padded).then_some((number(bytes, 4), number(bytes, 8), text))
}

impl Request {
    /// Returns the bytes of the request. A name that is too long is cut: the service finds nothing.
    pub fn encode(&self) -> [u8; REQUEST] {
        let (kind, flags, name): (u32, u32, &[u8]) = match self {
            Request::Hello => (0, 0, b""),
            Request::Image { name } => (1, 0, name),
            Request::Overlay { name, is_volatile } => (2, if *is_volatile { VOLATILE } else { 0 }, name),
            Request::Git => (3, 0, b""),
            Request::Unmount { name, is_lazy } => (4, if *is_lazy { LAZY } else { 0 }, name),
        };
        message(kind, flags, &name[..name.len().min(NAME)])
    }

    /// Parses a request. Returns `None` if any byte is none that [`Request::encode`] writes.
    pub fn decode(bytes: &[u8; REQUEST]) -> Option<Request> {
        let request = match parsed(bytes)? {
            (0, 0, b"") => Request::Hello,
            (1, 0, name) if is_name(name) => Request::Image { name: name.to_vec() },
            (2, flags @ (0 | VOLATILE), name) if is_name(name) => {
                Request::Overlay { name: name.to_vec(), is_volatile: flags == VOLATILE }
            }
            (3, 0, b"") => Request::Git,
            (4, flags @ (0 | LAZY), name) if is_name(name) => {
                Request::Unmount { name: name.to_vec(), is_lazy: flags == LAZY }
            }
            _ => return None,
        };
        Some(request)
    }
}

/// Returns true for one component of a path that leads neither here nor up.
fn is_name(name: &[u8]) -> bool {
    let is_word = !name.is_empty() && name.len() <= NAME && name != b"." && name != b"..";
    is_word && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

impl Answer {
    /// Returns the bytes of the answer. Messages that do not fit are cut.
    pub fn encode(&self) -> [u8; ANSWER] {
        let text = self.messages.join("\n").into_bytes();
        message(self.code as u32, self.errno as u32, &text[..text.len().min(ANSWER - HEAD)])
    }

    /// Parses an answer.
    pub fn decode(bytes: &[u8; ANSWER]) -> Option<Answer> {
        let (code, errno, text) = parsed(bytes)?;
        let code = Code::ALL.into_iter().find(|known| *known as u32 == code)?;
        let text = String::from_utf8_lossy(text);
        let messages = text.lines().map(str::to_owned).collect();
        Some(Answer { code, errno: errno as i32, messages })
    }
}

/// Sends one packet with descriptors.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket.as_fd(), &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Refuses a connection. A close with unread requests would destroy the answer, so they are read.
pub(crate) fn refuse(socket: impl AsFd, code: Code) -> io::Result<()> {
    shutdown(socket.as_fd(), Shutdown::Read)?;
    while let Ok((1.., _)) = recv(socket.as_fd(), &mut [0; REQUEST], RecvFlags::DONTWAIT) {}
    send(socket, &Answer::of(code).encode(), &[])
}

/// A packet of the expected length, with its descriptors.
pub(crate) struct Packet<const N: usize> {
    pub(crate) bytes: [u8; N],
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Receives one packet. Returns `None` at the end of the connection, and an error of the kind
/// `InvalidData` for a packet of another length or with too many descriptors.
pub(crate) fn receive<const N: usize>(socket: impl AsFd) -> io::Result<Option<Packet<N>>> {
    let mut bytes = [0; N];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(socket.as_fd(), &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(list) = part {
            descriptors.extend(list);
        }
    }
    if received.bytes == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if received.bytes != N || is_cut {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Some(Packet { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_back_requests_and_answers() {
        let unmount = |name: &[u8], is_lazy| Request::Unmount { name: name.to_vec(), is_lazy };
        for request in [
            Request::Hello,
            Request::Image { name: b"top".to_vec() },
            Request::Overlay { name: b"top".to_vec(), is_volatile: true },
            Request::Overlay { name: b"a b".to_vec(), is_volatile: false },
            Request::Git,
            unmount(b"a b\xff", true),
            unmount(&[b'n'; 255], false),
        ] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"/"] {
            assert_eq!(Request::decode(&unmount(name, false).encode()), None);
        }
        for code in Code::ALL {
            let answer = Answer { code, errno: 22, messages: vec!["one".into(), "two".into()] };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let long = Answer { messages: vec!["é".repeat(1000)], ..Answer::of(Code::Kernel) };
        assert!(Answer::decode(&long.encode()).is_some());
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_would_be_written(
            kind in 0u32..6, flags in 0u32..3, length in 0u32..300, name: Vec<u8>, at in 0..REQUEST, byte: u8,
        ) {
            let mut bytes = [0; REQUEST];
            put(&mut bytes, 0, VERSION);
            put(&mut bytes, 4, kind);
            put(&mut bytes, 8, flags);
            put(&mut bytes, 12, length);
            let length = name.len().min(NAME);
            bytes[HEAD..HEAD + length].copy_from_slice(&name[..length]);
            bytes[at] = byte;
            if let Some(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }
    }
}
