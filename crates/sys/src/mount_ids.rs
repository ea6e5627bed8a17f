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

/// `struct mnt_id_req` of `linux/mount.h`, in its second version (Linux 6.11).
#[repr(C)]
struct Request {
    size: u32,
    spare: u32,
    id: u64,
    param: u64,
    namespace: u64,
}

/// The begin of `struct statmount` of `linux/mount.h`.
#[repr(C)]
struct StatMount {
    before: [u64; 5],
    id: u64,
    parent: u64,
    between: [u64; 7],
    namespace: u64,
    rest: [u64; 49],
}

const SYS_STATMOUNT: libc::c_long = 457;
/// `STATMOUNT_MNT_BASIC | STATMOUNT_MNT_NS_ID`
const WANTED: u64 = 0x02 | 0x40;

/// The place of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountPlace {
    /// The identity of the mount that it lies on.
    pub parent: u64,
    /// The identity of its mount namespace, which is never used again.
    pub namespace: u64,
}

/// Returns the place of a mount in this mount namespace; `None` if there is no such mount here.
pub fn mount_place(id: u64) -> io::Result<Option<MountPlace>> {
    stat_mount(id, 0)
}

/// Returns true if a mount namespace has this mount. False for a namespace that has ended, and for
/// one in which this process may not mount.
pub fn has_mount(namespace: u64, id: u64) -> io::Result<bool> {
    stat_mount(id, namespace).map(|found| found.is_some())
}

fn stat_mount(id: u64, namespace: u64) -> io::Result<Option<MountPlace>> {
    let request = Request { size: size_of::<Request>() as u32, spare: 0, id, param: WANTED, namespace };
    // SAFETY: zeros are a value of each field.
    let mut found: StatMount = unsafe { std::mem::zeroed() };
    let result = call(Phase::Stat, || {
        // SAFETY: both structures have the kernel's layout and live during the call. The kernel
        // writes at most the given length.
        unsafe { libc::syscall(SYS_STATMOUNT, &raw const request, &raw mut found, size_of::<StatMount>(), 0) }
    });
    match result {
        0 => Ok(Some(MountPlace { parent: found.parent, namespace: found.namespace })),
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
        let place = mount_place(found.id).expect("Linux 6.11").expect("it is mounted");
        assert_eq!(place.parent, below.id);
        assert_eq!(mount_place(u64::MAX / 2).expect("Linux 6.11"), None);
        assert!(has_mount(place.namespace, found.id).expect("Linux 6.11"));
        assert!(!has_mount(place.namespace, u64::MAX / 2).expect("Linux 6.11"));
        assert!(!has_mount(u64::MAX / 2, found.id).expect("Linux 6.11"));
    }
}
