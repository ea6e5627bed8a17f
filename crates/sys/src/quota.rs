//! Project quotas of ext4 and xfs: limits for directories, whoever writes there.
//!
//! A project is a number that files carry. Files and directories that are made in a directory of a
//! project belong to it too. Source: `ioctl_fsgetxattr(2)`, `quotactl_fd(2)`, `linux/quota.h`.

use std::{
    fs, io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::Path,
};

use rustix::{
    io::Errno,
    ioctl::{Getter, Opcode, Setter, ioctl, opcode},
};

use crate::profile::{Phase, call};

/// `struct fsxattr` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    unused: [u8; 8],
}

const FS_IOC_FSGETXATTR: Opcode = opcode::read::<FsXattr>(b'X', 31);
const FS_IOC_FSSETXATTR: Opcode = opcode::write::<FsXattr>(b'X', 32);
/// New entries of a directory get its project.
const FS_XFLAG_PROJINHERIT: u32 = 0x200;

/// The project of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its number; 0 for none.
    pub id: u32,
    /// New entries belong to it too. Nothing of another project can be renamed into the directory.
    pub is_inherited: bool,
}

/// Returns the project of a directory; `None` if the file system has no projects.
pub fn project(dir: &Path) -> io::Result<Option<Project>> {
    let dir = call(Phase::Open, || fs::File::open(dir))?;
    match attributes(&dir) {
        Ok(found) => {
            let is_inherited = found.flags & FS_XFLAG_PROJINHERIT != 0;
            Ok(Some(Project { id: found.project, is_inherited }))
        }
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Puts an empty directory into a project. New entries of the directory belong to it too.
pub fn set_project(dir: &Path, id: u32) -> io::Result<()> {
    let dir = call(Phase::Open, || fs::File::open(dir))?;
    let mut attributes = attributes(&dir)?;
    attributes.project = id;
    attributes.flags |= FS_XFLAG_PROJINHERIT;
    // SAFETY: the opcode is that of `linux/fs.h`, and `FsXattr` is the structure it reads.
    let request = unsafe { Setter::<FS_IOC_FSSETXATTR, FsXattr>::new(attributes) };
    crate::changes::before_change();
    // SAFETY: as above.
    Ok(call(Phase::Write, || unsafe { ioctl(&dir, request) })?)
}

fn attributes(dir: &fs::File) -> Result<FsXattr, Errno> {
    // SAFETY: the opcode is that of `linux/fs.h`, and `FsXattr` is the structure it fills in. Any
    // bytes are a valid one.
    call(Phase::Stat, || unsafe { ioctl(dir, Getter::<FS_IOC_FSGETXATTR, FsXattr>::new()) })
}

/// `struct if_dqblk` of `linux/quota.h`. Limits are in KiB.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Quota {
    hard_limit: u64,
    soft_limit: u64,
    space: u64,
    inode_hard_limit: u64,
    inode_soft_limit: u64,
    inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

/// `struct fs_quota_stat` of `linux/dqblk_xfs.h`. Only the flags are read.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct State {
    version: i8,
    flags: u16,
    padding: i8,
    rest: [u64; 12],
}

const PROJECTS: u32 = 2;
const Q_GETQUOTA: u32 = 0x80_0007;
const Q_SETQUOTA: u32 = 0x80_0008;
/// `Q_XGETQSTAT`, which ext4 serves too.
const Q_GETSTATE: u32 = (b'X' as u32) << 8 | 5;
/// The limits of projects are in force.
const PROJECTS_ENFORCED: u16 = 1 << 5;
/// Only the limits of blocks are set.
const BLOCK_LIMITS: u32 = 1;

/// Returns true if the file system of a directory holds projects to their limits. False as well if
/// the kernel is too old to answer: Linux 5.14 is needed.
pub fn is_enforced(dir: &Path) -> io::Result<bool> {
    match control(dir, Q_GETSTATE, 0, State::default()) {
        Ok(state) => Ok(state.flags & PROJECTS_ENFORCED != 0),
        Err(Errno::NOSYS | Errno::SRCH | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NODEV) => {
            Ok(false)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// The use of a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectUse {
    /// The bytes that its files have on the disk.
    pub space: u64,
    /// The number of its files and directories.
    pub inodes: u64,
    /// The most bytes that it may have; 0 for no limit.
    pub limit: u64,
}

/// Returns the use of a project of the file system of a directory. An ordinary user may ask only
/// for the project of the directory itself, whose number of files is unknown then.
pub fn project_use(dir: &Path, id: u32) -> io::Result<ProjectUse> {
    match control(dir, Q_GETQUOTA, id, Quota::default()) {
        Ok(Quota { space, inodes, hard_limit, .. }) => {
            Ok(ProjectUse { space, inodes, limit: hard_limit.saturating_mul(1024) })
        }
        // xfs knows only projects that have files or a limit.
        Err(Errno::NOENT) => Ok(ProjectUse::default()),
        Err(Errno::PERM) => use_by_file_system(dir),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns the use of the project of a directory: if it has a limit, the kernel shows it as a file
/// system of its own. The directory above belongs to another project.
fn use_by_file_system(dir: &Path) -> io::Result<ProjectUse> {
    let blocks = |dir: &Path| call(Phase::Stat, || rustix::fs::statvfs(dir));
    let found = blocks(dir)?;
    if let Some(above) = dir.parent()
        && blocks(above)?.f_blocks == found.f_blocks
    {
        return Ok(ProjectUse { space: space_below(dir), inodes: 0, limit: 0 });
    }
    let space = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    Ok(ProjectUse { space, inodes: 0, limit: found.f_blocks.saturating_mul(found.f_frsize) })
}

/// Returns the bytes on the disk of everything in a directory that this user can see.
fn space_below(dir: &Path) -> u64 {
    let (mut space, mut pending) = (0_u64, vec![dir.to_owned()]);
    while let Some(dir) = pending.pop() {
        let Ok(entries) = call(Phase::Open, || fs::read_dir(&dir)) else { continue };
        for entry in entries.flatten() {
            let Ok(stat) = call(Phase::Stat, || entry.metadata()) else { continue };
            space = space.saturating_add(stat.blocks().saturating_mul(512));
            if stat.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    space
}

/// Returns the bytes that can still be written in a directory: what its project may have, or what
/// the disk has left.
pub fn space_left(dir: &Path) -> io::Result<u64> {
    let found = call(Phase::Stat, || rustix::fs::statvfs(dir))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Limits a project of the file system of a directory to this number of bytes, in steps of a KiB; 0
/// for no limit.
pub fn limit_project(dir: &Path, id: u32, bytes: u64) -> io::Result<()> {
    let quota = Quota { hard_limit: bytes.div_ceil(1024), valid: BLOCK_LIMITS, ..Quota::default() };
    Ok(control(dir, Q_SETQUOTA, id, quota).map(drop)?)
}

/// Calls `quotactl_fd` for projects. The kernel reads `data` or fills it in.
fn control<T>(dir: &Path, command: u32, id: u32, mut data: T) -> Result<T, Errno> {
    let open = || rustix::fs::open(dir, rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let dir = call(Phase::Open, open)?;
    let command = command << 8 | PROJECTS;
    let answer = call(Phase::Stat, || {
        // SAFETY: each caller gives a structure that the kernel has for the command, which lives
        // until the call returns, and in which any bytes are valid.
        unsafe { libc::syscall(libc::SYS_quotactl_fd, dir.as_raw_fd(), command, id, &raw mut data) }
    });
    if answer == 0 { Ok(data) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_disk_is_no_limit() {
        const SIZE: u64 = 1 << 20;
        let dir = tempfile::tempdir().expect("a directory for tests");
        let below = dir.path().join("project/below");
        fs::create_dir_all(&below).expect("created");
        fs::write(below.join("file"), vec![7; SIZE as usize]).expect("written");
        let found = use_by_file_system(&dir.path().join("project")).expect("it can be examined");
        assert_eq!(found.limit, 0);
        assert!((SIZE..2 * SIZE).contains(&found.space), "{found:?}");
    }
}
