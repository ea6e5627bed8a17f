//! What is known of a file without reading it.

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

/// What kind of thing a directory entry is.
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

/// A `stat`, in the kernel's full width. Times are seconds and nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is; also in `mode`.
    pub file_type: FileType,
    /// Permission bits and type, as in `st_mode`.
    pub mode: u32,
    /// When the inode was last changed.
    pub ctime: (i64, u32),
    /// When the content was last changed.
    pub mtime: (i64, u32),
    /// The device, encoded as `st_dev`.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
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

    // The fields' widths differ between architectures.
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

    /// A regular file with the owner's executable bit.
    pub fn is_executable(&self) -> bool {
        self.file_type == FileType::File && self.mode & 0o100 != 0
    }
}

// What an index entry keeps, and no more: a network file system may have to ask for the rest.
const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::UID)
    .union(StatxFlags::GID)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::CTIME)
    .union(StatxFlags::MTIME);

/// `lstat` of `path` relative to `dir`; one system call. `None` if there is nothing.
pub(crate) fn stat_at<P>(dir: BorrowedFd<'_>, path: P, flags: AtFlags) -> io::Result<Option<Stat>>
where
    P: rustix::path::Arg + Copy,
{
    present(retried(Phase::Stat, || {
        rustix::fs::statx(dir, path, flags | AtFlags::NO_AUTOMOUNT, WANTED).map(|statx| Stat::of(&statx))
    }))
}

/// As [`stat_at`] without following links, by `fstatat`: a few hundredths cheaper, but what it asks for cannot be chosen.
pub(crate) fn lstat_at<P>(dir: BorrowedFd<'_>, path: P) -> io::Result<Option<Stat>>
where
    P: rustix::path::Arg + Copy,
{
    present(retried(Phase::Stat, || {
        rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Stat::of_all(&stat))
    }))
}

/// What is there, if anything is.
fn present<T>(answer: Result<T, Errno>) -> io::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// `fstat` of an open file or directory.
pub fn stat_of(file: impl AsFd) -> io::Result<Stat> {
    // fstat, not statx: before Linux 6.11 statx of an open file pays for an empty path.
    Ok(Stat::of_all(&retried(Phase::Stat, || rustix::fs::fstat(&file))?))
}

/// Sets the permission bits, umask ignored.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    Ok(retried(Phase::Write, || rustix::fs::fchmod(file, Mode::from_raw_mode(mode)))?)
}

/// Makes a file executable by whoever may read it, or by nobody.
pub fn set_executable(file: &File, executable: bool) -> io::Result<()> {
    let mode = stat_of(file)?.mode & 0o7777;
    let wanted = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
    if wanted == mode { Ok(()) } else { set_mode(file, wanted) }
}
