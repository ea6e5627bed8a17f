//! Identities of mounts that the kernel never uses again (Linux 6.8).

use std::{ffi::CStr, io, os::fd::AsFd};

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};

use crate::profile::{Phase, call, retried};

/// `STATX_MNT_ID_UNIQUE` of `linux/stat.h`.
const UNIQUE_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A mount, as seen from a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueMount {
    /// The identity of the mount that the path lies on.
    pub id: u64,
    /// True if the path is the root of that mount.
    pub is_root: bool,
}

/// Returns the mount of `name` in `dir`, or that of `dir` itself if `name` is empty. Follows no
/// link. Returns `ENOSYS` if the kernel does not report it.
pub fn unique_mount(dir: impl AsFd, name: &CStr) -> io::Result<UniqueMount> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = retried(Phase::Stat, || statx(dir.as_fd(), name, flags, UNIQUE_ID))?;
    if found.stx_mask & UNIQUE_ID.bits() == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let is_root = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(UniqueMount { id: found.stx_mnt_id, is_root })
}

/// `struct mnt_id_req` of `linux/mount.h`, in its first version.
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    param: u64,
}

/// The begin of `struct statmount` of `linux/mount.h`.
#[repr(C)]
struct StatMount {
    before: [u64; 5],
    id: u64,
    parent: u64,
    rest: [u64; 57],
}

const SYS_STATMOUNT: libc::c_long = 457;
/// `STATMOUNT_MNT_BASIC`
const BASIC: u64 = 2;

/// Returns the mount on which a mount of this mount namespace lies; `None` if there is no such
/// mount here.
pub fn parent_mount(id: u64) -> io::Result<Option<u64>> {
    let request = Request { size: size_of::<Request>() as u32, spare: 0, id, param: BASIC };
    let mut found = StatMount { before: [0; 5], id: 0, parent: 0, rest: [0; 57] };
    let result = call(Phase::Stat, || {
        // SAFETY: both structures have the kernel's layout and live during the call. The kernel
        // writes at most the given length.
        unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, &raw mut found, size_of::<StatMount>(), 0) }
    });
    match result {
        0 => Ok(Some(found.parent)),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_mount_of_proc() {
        let proc = std::fs::File::open("/proc").expect("mounted");
        let root = std::fs::File::open("/").expect("opened");
        let found = unique_mount(&proc, c"").expect("Linux 6.8");
        assert!(found.is_root);
        assert_eq!(unique_mount(&root, c"proc").expect("Linux 6.8"), found);
        assert!(!unique_mount(&proc, c"self").expect("Linux 6.8").is_root);
        let below = unique_mount(&root, c"").expect("Linux 6.8");
        assert_eq!(parent_mount(found.id).expect("Linux 6.8"), Some(below.id));
        assert_eq!(parent_mount(u64::MAX / 2).expect("Linux 6.8"), None);
    }
}
