//! Limits, and error numbers that `io::ErrorKind` has no stable name for.

use std::io;

/// `ELOOP`: a symbolic link stands where none is followed.
pub fn is_symlink_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// `EMFILE` or `ENFILE`: this process, or the system, has no file descriptor left.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// `ENAMETOOLONG`, `EINVAL` or `EILSEQ`: the file system has no room for such a name, today or tomorrow.
pub fn is_name_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENAMETOOLONG | libc::EINVAL | libc::EILSEQ))
}

/// How many file descriptors this process may have open (`RLIMIT_NOFILE`, the soft limit).
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}
