//! Checks of the descriptors that a user passes. Each fact is read from the descriptor itself, so
//! it cannot change between the check and the use.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{FileType, Mode, OFlags, RawDir, StatVfsMountFlags, fstat, fstatfs, fstatvfs, openat};

use crate::wire::{Answer, Code};

/// The user at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The supplementary groups.
    pub(crate) groups: Vec<u32>,
}

impl Caller {
    pub(crate) fn has_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// File systems that keep what is written, and that ask no other program and no other machine:
/// ext4, XFS, btrfs, F2FS, bcachefs, ZFS. A file of an overlay could lie on the image that is being
/// mounted, and so nest mounts deeper than the kernel's stack.
const DISKS: [u32; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];
const TMPFS: u32 = 0x0102_1994;
const OVERLAY: u32 = 0x794c_7630;
const EROFS: u32 = 0xe0f5_e1e2;

/// The uses of a directory. Each takes other file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The upper layer and the work directory.
    Upper,
    /// A lower layer: a directory, or the mount of an image.
    Lower,
    /// A directory that is covered, or shown at another place.
    Place,
}

fn kind_of(file: impl AsFd) -> io::Result<u32> {
    // The type has another width on other machines.
    #[allow(clippy::unnecessary_cast)]
    Ok(fstatfs(file)?.f_type as u32)
}

/// Returns an error unless `dir` is a directory of the caller on a file system for this use.
pub(crate) fn directory(dir: &OwnedFd, caller: &Caller, purpose: Use) -> Result<(), Answer> {
    let stat = fstat(dir)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Code::Descriptor.into());
    }
    if stat.st_uid != caller.uid {
        return Err(Code::Owner.into());
    }
    let kind = kind_of(dir)?;
    let is_fit = DISKS.contains(&kind)
        || kind == TMPFS
        || match purpose {
            Use::Upper => false,
            // All files of an image have one owner. Only root and this service mount images.
            Use::Lower => kind == EROFS,
            Use::Place => kind == OVERLAY,
        };
    if is_fit { Ok(()) } else { Err(Code::FileSystem.into()) }
}

/// Returns an error unless `file` is a regular file on a disk that the caller opened for reading.
pub(crate) fn readable_file(file: &OwnedFd) -> Result<(), Answer> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    let access = flags & OFlags::RWMODE;
    // A descriptor of `O_PATH` proves no right to read.
    if flags.contains(OFlags::PATH) || access == OFlags::WRONLY {
        return Err(Code::Descriptor.into());
    }
    if FileType::from_raw_mode(fstat(file)?.st_mode) != FileType::RegularFile {
        return Err(Code::Descriptor.into());
    }
    if DISKS.contains(&kind_of(file)?) { Ok(()) } else { Err(Code::FileSystem.into()) }
}

/// Returns an error unless the directory holds nothing but `.git`.
pub(crate) fn empty_but_for_git(dir: &OwnedFd) -> Result<(), Answer> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = openat(dir, c".", flags, Mode::empty())?;
    let mut buffer = Vec::with_capacity(4096);
    let mut entries = RawDir::new(open, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b".." | b".git") {
            return Err(Code::MountPoint.into());
        }
    }
    Ok(())
}

/// Returns true if no program may be run from the mount of one of these files.
pub(crate) fn forbids_programs<'f>(files: impl IntoIterator<Item = BorrowedFd<'f>>) -> io::Result<bool> {
    for file in files {
        if fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Ok(true);
        }
    }
    Ok(false)
}
