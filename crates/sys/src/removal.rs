//! Checks whether the kernel would let this process remove an entry: mounts, immutable flags,
//! sticky directories.

use std::{io, os::fd::AsFd as _};

use rustix::{
    fs::{Access, AtFlags, StatxAttributes, StatxFlags},
    io::Errno,
};

use crate::{
    Dir, FileType,
    profile::{Phase, retried},
};

/// The properties that determine if an entry can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalFacts {
    /// Its type.
    pub file_type: FileType,
    /// Its owner's user id.
    pub uid: u32,
    /// True for a directory with the sticky bit: only the owner of an entry may remove it from
    /// there.
    pub sticky: bool,
    /// The number of the device that it is on.
    pub device: u64,
    /// A protection that applies to every user.
    pub protection: Protection,
}

/// The reason why an entry cannot be removed, whoever owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// No known protection.
    Unprotected,
    /// The immutable or append-only flag is set (`chattr +i`, `+a`).
    Immutable,
    /// The entry is a mount point.
    Mount,
    /// The protections are unknown: the kernel (before Linux 5.8) or the file system does not
    /// report them.
    Unknown,
}

impl Dir {
    /// Returns the removal facts of an entry, or `None` if it does not exist. Does not follow a
    /// symbolic link.
    pub fn removal_facts(&self, path: &[u8]) -> io::Result<Option<RemovalFacts>> {
        self.with_parent(path, |dir, name| removal_facts(dir, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Like [`Dir::removal_facts`], for the directory itself.
    pub fn removal_facts_of_self(&self) -> io::Result<RemovalFacts> {
        Ok(removal_facts(self.as_fd(), b"", AtFlags::EMPTY_PATH)?)
    }

    /// Returns true if this process may list the directory and remove its entries.
    pub fn may_be_emptied(&self) -> bool {
        let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        retried(Phase::Stat, || rustix::fs::accessat(self.as_fd(), c".", wanted, AtFlags::EACCESS)).is_ok()
    }
}

fn removal_facts(
    dir: std::os::fd::BorrowedFd<'_>,
    name: &[u8],
    flags: AtFlags,
) -> Result<RemovalFacts, Errno> {
    let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::UID;
    let statx = retried(Phase::Stat, || crate::stat::statx(dir, name, flags, wanted))?;
    let attributes = statx.stx_attributes;
    let protection = if !statx.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        Protection::Unknown
    } else if attributes.contains(StatxAttributes::MOUNT_ROOT) {
        Protection::Mount
    } else if attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND) {
        Protection::Immutable
    } else {
        Protection::Unprotected
    };
    let mode = u32::from(statx.stx_mode);
    Ok(RemovalFacts {
        file_type: FileType::of(rustix::fs::FileType::from_raw_mode(mode)),
        uid: statx.stx_uid,
        sticky: mode & 0o1000 != 0,
        device: rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor),
        protection,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_an_own_directory_are_unprotected() {
        let place = tempfile::tempdir().expect("a directory for tests");
        std::fs::create_dir_all(place.path().join("a/b")).expect("made");
        std::os::unix::fs::symlink("nowhere", place.path().join("a/l")).expect("made");
        let dir = Dir::open(place.path()).expect("opens");
        let own = dir.removal_facts_of_self().expect("there");
        for (path, file_type) in
            [("a", FileType::Directory), ("a/b", FileType::Directory), ("a/l", FileType::Symlink)]
        {
            let found = dir.removal_facts(path.as_bytes()).expect("asked").expect("there");
            assert_eq!((found.file_type, found.device), (file_type, own.device), "{path}");
            assert!(matches!(found.protection, Protection::Unprotected | Protection::Unknown), "{path}");
        }
        assert_eq!(dir.removal_facts(b"a/x").expect("asked"), None);
        assert!(dir.may_be_emptied());
        let proc = Dir::open("/proc".as_ref()).expect("opens").removal_facts_of_self().expect("there");
        assert!(matches!(proc.protection, Protection::Mount | Protection::Unknown));
    }
}
