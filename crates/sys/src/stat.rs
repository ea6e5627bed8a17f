//! File metadata.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{AtFlags, Mode, Statx, StatxFlags},
    io::Errno,
};

use crate::{
    File,
    profile::{Phase, retried},
};

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else: fifo, socket, device.
    Other,
}

impl FileType {
    pub(crate) fn of(file_type: rustix::fs::FileType) -> FileType {
        match file_type {
            rustix::fs::FileType::RegularFile => FileType::File,
            rustix::fs::FileType::Directory => FileType::Directory,
            rustix::fs::FileType::Symlink => FileType::Symlink,
            _ => FileType::Other,
        }
    }
}

/// The result of a `stat`, in the kernel's full width. Times are seconds and nanoseconds since
/// 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The file type, which `mode` also contains.
    pub file_type: FileType,
    /// Permission bits and type, as in `st_mode`.
    pub mode: u32,
    /// The time of the last inode change.
    pub ctime: (i64, u32),
    /// The time of the last content change.
    pub mtime: (i64, u32),
    /// The device, encoded as `st_dev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Owner's user id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
}

impl Stat {
    fn of(statx: &Statx) -> Stat {
        let mode = u32::from(statx.stx_mode);
        Stat {
            file_type: FileType::of(rustix::fs::FileType::from_raw_mode(mode)),
            mode,
            ctime: (statx.stx_ctime.tv_sec, statx.stx_ctime.tv_nsec),
            mtime: (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
            dev: rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor),
            ino: statx.stx_ino,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            size: statx.stx_size,
        }
    }

    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast)]
    fn of_all(stat: &rustix::fs::Stat) -> Stat {
        Stat {
            file_type: FileType::of(rustix::fs::FileType::from_raw_mode(stat.st_mode as u32)),
            mode: stat.st_mode as u32,
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            uid: stat.st_uid as u32,
            gid: stat.st_gid as u32,
            size: stat.st_size as u64,
        }
    }

    /// Returns true for a regular file with the owner's executable bit.
    pub fn is_executable(&self) -> bool {
        self.file_type == FileType::File && self.mode & 0o100 != 0
    }
}

// Only the fields that an index entry stores: a network file system may need a request for the
// others.
const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::UID)
    .union(StatxFlags::GID)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::MTIME);

/// Runs `lstat` on `path` relative to `dir`, in one system call. Returns `None` if the path does
/// not exist.
pub(crate) fn stat_at<P>(dir: BorrowedFd<'_>, path: P, flags: AtFlags) -> io::Result<Option<Stat>>
where
    P: rustix::path::Arg + Copy,
{
    none_if_missing(retried(Phase::Stat, || statx(dir, path, flags, WANTED).map(|statx| Stat::of(&statx))))
}

/// Runs `statx` without mounting anything. gVisor refuses that flag, and mounts nothing either.
pub(crate) fn statx<P>(
    dir: BorrowedFd<'_>,
    path: P,
    flags: AtFlags,
    wanted: StatxFlags,
) -> Result<rustix::fs::Statx, Errno>
where
    P: rustix::path::Arg + Copy,
{
    match rustix::fs::statx(dir, path, flags | AtFlags::NO_AUTOMOUNT, wanted) {
        Err(Errno::INVAL) => rustix::fs::statx(dir, path, flags, wanted),
        found => found,
    }
}

/// Like [`stat_at`] without following links, but through `fstatat`. It is a few percent cheaper,
/// but always requests all fields.
pub(crate) fn lstat_at<P>(dir: BorrowedFd<'_>, path: P) -> io::Result<Option<Stat>>
where
    P: rustix::path::Arg + Copy,
{
    none_if_missing(retried(Phase::Stat, || {
        rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Stat::of_all(&stat))
    }))
}

/// Converts `ENOENT` and `ENOTDIR` to `None`.
fn none_if_missing<T>(answer: Result<T, Errno>) -> io::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Runs `fstat` on an open file or directory.
pub fn stat_of(file: impl AsFd) -> io::Result<Stat> {
    // fstat is used because statx of an open file is slow before Linux 6.11: it resolves an empty
    // path.
    Ok(Stat::of_all(&retried(Phase::Stat, || rustix::fs::fstat(&file))?))
}

/// Sets the permission bits; the umask does not apply.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    // The file may be open for reading only.
    crate::changes::before_change();
    Ok(retried(Phase::Write, || rustix::fs::fchmod(file, Mode::from_raw_mode(mode)))?)
}

/// Sets the executable bit for every class of users that may read the file, or clears it for all.
pub fn set_executable(file: &File, executable: bool) -> io::Result<()> {
    let mode = stat_of(file)?.mode & 0o7777;
    let wanted = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
    if wanted == mode { Ok(()) } else { set_mode(file, wanted) }
}
