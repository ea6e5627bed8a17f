//! Directory handles whose operations cannot leave the directory; the kernel enforces this.
//!
//! Promise: no operation of a [`Dir`] touches anything outside the directory it was opened on, even
//! while another process replaces directories by symbolic links. Paths are relative and separated
//! by single slashes. `.`, `..` and empty components are refused with `EINVAL`.
//!
//! Method: a path of one component names an entry of the directory itself. The kernel resolves no
//! further components, so a single `*at` call that does not follow links cannot leave the
//! directory. A longer path goes through openat2 with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
//! RESOLVE_NO_MAGICLINKS`. Calls that have no such form first open the last component's parent that
//! way. Without openat2, the parent is opened one component at a time, each with `O_NOFOLLOW |
//! O_DIRECTORY`.
//!
//! A [`Dir`] only reads. [`DirMut`](crate::DirMut) has the calls that change entries.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
    path::Arg,
};

use crate::{
    Capabilities, File, Stat,
    file::Closing,
    profile::{Phase, call, retried},
    stat::{lstat_at, stat_at, stat_of},
};

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

// With O_PATH, the file system does not open the directory, and a directory with search permission
// but no read permission works.
const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory. All paths are relative, separated by `/`, and resolved beneath it. No
/// symbolic link is followed. A leading component that is a link or not a directory gives `ENOTDIR`
/// or `ELOOP`.
#[derive(Debug)]
pub struct Dir {
    fd: Closing<OwnedFd>,
    capabilities: Capabilities,
    /// True if the directory is on a network file system. Cached, because the query costs a round
    /// trip there.
    remote: OnceLock<bool>,
}

impl Dir {
    fn new(fd: Closing<OwnedFd>, capabilities: Capabilities) -> Dir {
        Dir { fd, capabilities, remote: OnceLock::new() }
    }

    /// Opens a directory by any path and follows links, for example the root of a worktree.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let fd = open_root(path)?;
        let capabilities = Capabilities::probe(fd.get());
        Ok(Dir::new(fd, capabilities))
    }

    /// Like [`Dir::open`], with given capabilities instead of probed ones.
    pub fn open_with(path: &Path, capabilities: Capabilities) -> io::Result<Dir> {
        Ok(Dir::new(open_root(path)?, capabilities))
    }

    /// Opens a directory beneath this one.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<Dir> {
        Ok(Dir::new(self.open_at(path, HANDLE, Mode::empty())?, self.capabilities))
    }

    /// Like [`Dir::open_dir`], with permission to read the names in it.
    pub(crate) fn open_to_read(&self, path: &[u8]) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Dir::new(self.open_at(path, flags, Mode::empty())?, self.capabilities))
    }

    /// Returns a path that leads to this directory in this process, wherever it lies.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.as_fd().as_raw_fd()).into()
    }

    /// Returns a second handle to the same directory.
    pub fn try_clone(&self) -> io::Result<Dir> {
        Ok(Dir::new(Closing::new(self.as_fd().try_clone_to_owned()?), self.capabilities))
    }

    /// Opens a file for reading. Returns `ELOOP` if the last component is a link. Opening a fifo
    /// does not block.
    pub fn open_file(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from_fd(self.open_at(path, flags, Mode::empty())?))
    }

    /// Like [`Dir::open_file`], but follows links among the leading components, wherever they lead.
    /// Use it only for reading.
    pub fn open_file_through_links(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = open_with(|| rustix::fs::openat(self.as_fd(), path, flags, Mode::empty()))?;
        Ok(File::from_fd(opened))
    }

    /// Runs `lstat`. Returns `None` if the path does not exist (`ENOENT`, or a leading component is
    /// not a directory).
    pub fn stat(&self, path: &[u8]) -> io::Result<Option<Stat>> {
        match self.parent_of(path) {
            Ok((parent, name)) => stat_at(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Like [`Dir::stat`], in one system call for any path, but follows links among the leading
    /// components. For callers that have checked that the leading components are directories, and
    /// that only read.
    pub fn stat_below(&self, path: impl Arg + Copy) -> io::Result<Option<Stat>> {
        stat_at(self.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Like [`Dir::stat_below`] for local disks: requesting all fields is cheaper there than a
    /// selection.
    pub fn stat_local(&self, path: impl Arg + Copy) -> io::Result<Option<Stat>> {
        lstat_at(self.as_fd(), path)
    }

    /// Returns true if `path` does not exist (`ENOENT`), even with links among its leading
    /// components followed, wherever they lead. Use it only for reading.
    pub fn is_absent_through_links(&self, path: &[u8]) -> bool {
        self.stat_through_links(path).err() == Some(Errno::NOENT)
    }

    /// Returns true if `path` exists, with links among its leading components followed.
    pub fn is_present_through_links(&self, path: &[u8]) -> bool {
        self.stat_through_links(path).is_ok()
    }

    fn stat_through_links(&self, path: &[u8]) -> Result<rustix::fs::Stat, Errno> {
        call(Phase::Stat, || rustix::fs::statat(self.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Runs `fstat` on the directory itself.
    pub fn stat_self(&self) -> io::Result<Stat> {
        stat_of(self.as_fd())
    }

    /// Returns true if the directory is on XFS, which serializes file creation within one of its
    /// allocation groups. The upper bits of an inode number are the number of the group. XFS places
    /// each new directory in the next group in turn, and its files in the same group.
    pub fn is_on_xfs(&self) -> bool {
        const XFS_SUPER_MAGIC: rustix::fs::FsWord = 0x5846_5342;
        call(Phase::Stat, || rustix::fs::fstatfs(self.as_fd()))
            .is_ok_and(|found| found.f_type == XFS_SUPER_MAGIC)
    }

    /// Like [`by_path::is_remote`](crate::by_path::is_remote). Returns false if the file system
    /// cannot be queried.
    pub fn is_remote(&self) -> bool {
        let ask = || call(Phase::Stat, || rustix::fs::fstatfs(self.as_fd()));
        *self.remote.get_or_init(|| ask().is_ok_and(|found| crate::by_path::is_remote_type(&found)))
    }

    /// Returns the free bytes of the file system for users without privileges.
    pub fn available(&self) -> io::Result<u64> {
        let found = call(Phase::Stat, || rustix::fs::fstatvfs(self.as_fd()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.at(Phase::Read, path, |dir, name| rustix::fs::readlinkat(dir, name, Vec::new()))
            .map(|target| target.into_bytes())
    }

    /// Runs `fsync` on the directory: the names in it survive a crash from then on.
    pub fn sync(&self) -> io::Result<()> {
        let fd = self.reopen()?;
        crate::sync_file(fd.get())
    }

    /// Opens the same directory again for reading, at its first entry.
    pub(crate) fn reopen(&self) -> Result<Closing<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open_with(|| rustix::fs::openat(self.as_fd(), c".", flags, Mode::empty()))
    }

    /// Calls `call` with the directory that contains the last component of `path`, and with that
    /// component. Returns `None` if it does not exist (`ENOENT`, or a leading component is not a
    /// directory).
    pub(crate) fn with_parent<T>(
        &self,
        path: &[u8],
        call: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> io::Result<Option<T>> {
        let answer = self.parent_of(path).and_then(|(parent, name)| call(parent.as_fd(), name));
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Runs one system call of this kind on the last component of `path`.
    pub(crate) fn at<T>(
        &self,
        kind: Phase,
        path: &[u8],
        mut call: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let (parent, name) = self.parent_of(path)?;
        Ok(retried(kind, || call(parent.as_fd(), name))?)
    }

    pub(crate) fn open_at(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<Closing<OwnedFd>, Errno> {
        if self.capabilities.openat2 && path.contains(&b'/') {
            check(path)?;
            return open_with(|| rustix::fs::openat2(self.as_fd(), path, flags, mode, RESOLVE));
        }
        let (parent, name) = self.parent_of(path)?;
        open_with(|| rustix::fs::openat(parent.as_fd(), name, flags, mode))
    }

    /// Returns the directory that contains the last component, and that component.
    pub(crate) fn parent_of<'a>(&self, path: &'a [u8]) -> Result<(Parent<'_>, &'a [u8]), Errno> {
        check(path)?;
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else {
            return Ok((Parent::Borrowed(self.as_fd()), path));
        };
        let (leading, name) = (&path[..slash], &path[slash + 1..]);
        if self.capabilities.openat2 {
            let fd =
                open_with(|| rustix::fs::openat2(self.as_fd(), leading, HANDLE, Mode::empty(), RESOLVE))?;
            return Ok((Parent::Opened(fd), name));
        }
        let mut parent = Parent::Borrowed(self.as_fd());
        for component in leading.split(|&byte| byte == b'/') {
            let fd = open_with(|| rustix::fs::openat(parent.as_fd(), component, HANDLE, Mode::empty()))?;
            parent = Parent::Opened(fd);
        }
        Ok((parent, name))
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get().as_fd()
    }
}

pub(crate) enum Parent<'a> {
    Borrowed(BorrowedFd<'a>),
    Opened(Closing<OwnedFd>),
}

impl Parent<'_> {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Borrowed(fd) => *fd,
            Parent::Opened(fd) => fd.get().as_fd(),
        }
    }
}

fn open_root(path: &Path) -> io::Result<Closing<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open_with(|| rustix::fs::open(path, flags, Mode::empty()))?)
}

fn open_with(open: impl FnMut() -> Result<OwnedFd, Errno>) -> Result<Closing<OwnedFd>, Errno> {
    retried(Phase::Open, open).map(Closing::new)
}

/// Refuses paths with `.`, `..` or empty components.
fn check(path: &[u8]) -> Result<(), Errno> {
    let plain = |component: &[u8]| !matches!(component, b"" | b"." | b"..");
    if path.split(|&byte| byte == b'/').all(plain) { Ok(()) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
