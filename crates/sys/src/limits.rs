//! Process limits, and error numbers that have no stable `io::ErrorKind`.

use std::io;

/// Returns true for `ELOOP`: a call that follows no symbolic link found one.
pub fn is_symlink_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Returns true for `EMFILE` or `ENFILE`: this process, or the system, has no file descriptor left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns true for `ENAMETOOLONG`, `EINVAL` or `EILSEQ`: the file system cannot store such a name,
/// so a retry does not help.
pub fn is_name_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENAMETOOLONG | libc::EINVAL | libc::EILSEQ))
}

/// Returns the number of file descriptors that this process may have open (`RLIMIT_NOFILE`, the
/// soft limit).
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns true for `ENOTCONN`: the program that serves a FUSE file system has ended.
pub fn is_disconnected(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOTCONN)
}
