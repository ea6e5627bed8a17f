//! The process at the other end of a Unix socket.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// `SO_PEERGROUPS` and `SO_PEERPIDFD` of `asm-generic/socket.h`.
const PEER_GROUPS: libc::c_int = 59;
const PEER_PIDFD: libc::c_int = 77;

/// Returns a descriptor of the process that connected (Linux 6.5). It never means another process,
/// also if the process id is used again.
pub fn peer_pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length = mem::size_of_val(&fd) as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: `fd` is an integer of `length` bytes, which the kernel fills in.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, PEER_PIDFD, (&raw mut fd).cast(), &raw mut length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for the caller, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the supplementary groups that the process had when it connected.
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    /// The kernel's limit.
    const MOST: usize = 65_536;
    let socket = socket.as_fd().as_raw_fd();
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = mem::size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: `groups` has `length` bytes, which the kernel fills in.
        let result = unsafe {
            libc::getsockopt(
                socket,
                libc::SOL_SOCKET,
                PEER_GROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result == 0 {
            groups.truncate(length as usize / mem::size_of::<u32>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= MOST {
            return Err(error);
        }
        groups.resize(MOST, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn names_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let pidfd = peer_pidfd(&one).expect("Linux 6.5");
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::CONT).expect("it lives");
        let mut groups = peer_groups(&one).expect("known");
        let mut own = crate::user::groups();
        groups.sort_unstable();
        own.sort_unstable();
        own.retain(|group| groups.contains(group) || *group != crate::user::effective_gid());
        assert_eq!(groups, own);
    }
}
