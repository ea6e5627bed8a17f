//! Checks of the descriptors that a user passes. Each fact is read from the descriptor itself, so
//! it cannot change between the check and the use.

use std::{
    ffi::CStr,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::fs::{FileType, Mode, OFlags, RawDir, StatVfsMountFlags, fstat, fstatvfs, openat};

use crate::{
    disks::Use,
    peer::Caller,
    wire::{Answer, Code},
};

/// Flags to open a directory by its name. The descriptor gives no right to read.
const NAMED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns an error unless `dir` is a directory of the caller on a file system for this use.
pub(crate) fn directory(dir: &OwnedFd, caller: &Caller, purpose: Use) -> Result<(), Answer> {
    let stat = fstat(dir)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Code::Descriptor.into());
    }
    if stat.st_uid != caller.uid {
        return Err(Code::Owner.into());
    }
    if purpose.takes(dir)? { Ok(()) } else { Err(Code::FileSystem.into()) }
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
    if Use::File.takes(file)? { Ok(()) } else { Err(Code::FileSystem.into()) }
}

/// Opens the mount point `name` in `dir`. It belongs to the caller, and nothing is mounted on it:
/// the name would lead to the uppermost mount.
pub(crate) fn place(dir: &OwnedFd, name: &CStr, caller: &Caller) -> Result<OwnedFd, Answer> {
    let place = openat(dir, name, NAMED, Mode::empty())?;
    directory(&place, caller, Use::Place)?;
    if sys::unique_mount(&place, c"")?.is_root { Err(Code::MountPoint.into()) } else { Ok(place) }
}

/// Opens the directory `name` of the caller in `dir`, by way of `mount`, another mount of `dir`.
pub(crate) fn layer(dir: &OwnedFd, mount: &OwnedFd, name: &CStr, caller: &Caller) -> Result<OwnedFd, Answer> {
    let seen = openat(dir, name, NAMED, Mode::empty())?;
    directory(&seen, caller, Use::Upper)?;
    let opened = openat(mount, name, NAMED, Mode::empty())?;
    let (seen, found) = (fstat(&seen)?, fstat(&opened)?);
    // They differ if something is mounted there.
    if (seen.st_dev, seen.st_ino) == (found.st_dev, found.st_ino) {
        Ok(opened)
    } else {
        Err(Code::Owner.into())
    }
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
pub(crate) fn forbids_programs<'f>(files: impl IntoIterator<Item = &'f OwnedFd>) -> Result<bool, Answer> {
    for file in files {
        let file: BorrowedFd<'_> = file.as_fd();
        if fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Ok(true);
        }
    }
    Ok(false)
}
