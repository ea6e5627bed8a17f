//! Directory handles with containment enforced by the kernel.
//!
//! Promise: no operation of a [`Dir`] touches anything outside the directory it was opened on, even
//! while somebody else replaces directories by symbolic links. Paths are relative, separated by
//! single slashes; `.`, `..` and empty components are refused with `EINVAL`.
//!
//! How: a path of one component names an entry of the directory itself; nothing is resolved, so the
//! plain `*at` call with "do not follow" cannot escape and is the only call made. A longer path goes
//! through openat2 with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`, directly or,
//! for calls without such a form, by first opening the last component's parent that way. Where openat2 is
//! missing, the parent is opened one component at a time, each with `O_NOFOLLOW | O_DIRECTORY`.
//!
//! On failure nothing is left behind: an operation here makes or removes one thing or nothing.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
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

// O_PATH: a handle for further calls costs the file system no open of its own, and a directory
// that may be searched but not read still serves.
const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory. All paths are relative, `/`-separated and resolved beneath it, no symbolic
/// link followed anywhere. A leading directory that is a link or no directory gives `ENOTDIR` or `ELOOP`.
#[derive(Debug)]
pub struct Dir {
    fd: Closing<OwnedFd>,
    capabilities: Capabilities,
    /// Whether it is on a network disk, once that was asked: there it is a round trip.
    remote: OnceLock<bool>,
}

impl Dir {
    fn new(fd: Closing<OwnedFd>, capabilities: Capabilities) -> Dir {
        Dir { fd, capabilities, remote: OnceLock::new() }
    }

    /// Opens a directory by any path, following links (the worktree's root, say).
    pub fn open(path: &Path) -> io::Result<Dir> {
        let fd = open_root(path)?;
        let capabilities = Capabilities::probe(fd.get());
        Ok(Dir::new(fd, capabilities))
    }

    /// As [`Dir::open`], with capabilities given, not probed.
    pub fn open_with(path: &Path, capabilities: Capabilities) -> io::Result<Dir> {
        Ok(Dir::new(open_root(path)?, capabilities))
    }

    /// Opens a directory beneath this one.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<Dir> {
        Ok(Dir::new(self.open_at(path, HANDLE, Mode::empty())?, self.capabilities))
    }

    /// As [`Dir::open_dir`], with permission to read the names in it.
    pub(crate) fn open_to_read(&self, path: &[u8]) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Dir::new(self.open_at(path, flags, Mode::empty())?, self.capabilities))
    }

    /// A second handle on the same directory.
    pub fn try_clone(&self) -> io::Result<Dir> {
        Ok(Dir::new(Closing::new(self.as_fd().try_clone_to_owned()?), self.capabilities))
    }

    /// `O_CREAT | O_EXCL | O_WRONLY`, mode 0666 or 0777 by `executable`, umask applied.
    /// `path` is one or more components.
    pub fn create_new(&self, path: &[u8], executable: bool) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
        Ok(File::from_fd(self.open_at(path, flags, mode)?))
    }

    /// Opens for reading; the last component must not be a link either (`ELOOP`). Opening a fifo does not block.
    pub fn open_file(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from_fd(self.open_at(path, flags, Mode::empty())?))
    }

    /// As [`Dir::open_file`], links among the leading components followed, wherever they lead. To look, never to act.
    pub fn open_file_through_links(&self, path: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = open_with(|| rustix::fs::openat(self.as_fd(), path, flags, Mode::empty()))?;
        Ok(File::from_fd(opened))
    }

    /// `lstat`; `None` if there is nothing (`ENOENT`, or a leading component is no directory).
    pub fn stat(&self, path: &[u8]) -> io::Result<Option<Stat>> {
        match self.parent_of(path) {
            Ok((parent, name)) => stat_at(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// As [`Dir::stat`], in one call whatever the path's length: links among the leading components would be followed. For who has
    /// seen that these are directories, and only looks.
    pub fn stat_below(&self, path: impl Arg + Copy) -> io::Result<Option<Stat>> {
        stat_at(self.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// As [`Dir::stat_below`] of what is on a disk of our own: asking for everything is cheaper there than saying what is wanted.
    pub fn stat_local(&self, path: impl Arg + Copy) -> io::Result<Option<Stat>> {
        lstat_at(self.as_fd(), path)
    }

    /// Whether nothing is at `path` (`ENOENT`) even if links among its leading components are followed,
    /// wherever they lead. To look, never to act.
    pub fn is_absent_through_links(&self, path: &[u8]) -> bool {
        self.stat_through_links(path).err() == Some(Errno::NOENT)
    }

    /// Whether something is at `path`, links on the way followed.
    pub fn is_present_through_links(&self, path: &[u8]) -> bool {
        self.stat_through_links(path).is_ok()
    }

    fn stat_through_links(&self, path: &[u8]) -> Result<rustix::fs::Stat, Errno> {
        call(Phase::Stat, || rustix::fs::statat(self.as_fd(), path, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// `fstat` of the directory itself.
    pub fn stat_self(&self) -> io::Result<Stat> {
        stat_of(self.as_fd())
    }

    /// Whether this is on XFS, which serialises what is created in one of its allocation groups. Their number is the upper
    /// part of an inode number, a new directory goes into the next group in turn and its files into its own.
    pub fn is_on_xfs(&self) -> bool {
        const XFS_SUPER_MAGIC: rustix::fs::FsWord = 0x5846_5342;
        call(Phase::Stat, || rustix::fs::fstatfs(self.as_fd()))
            .is_ok_and(|found| found.f_type == XFS_SUPER_MAGIC)
    }

    /// As [`by_path::is_remote`](crate::by_path::is_remote); what cannot be asked is not.
    pub fn is_remote(&self) -> bool {
        let ask = || call(Phase::Stat, || rustix::fs::fstatfs(self.as_fd()));
        *self.remote.get_or_init(|| ask().is_ok_and(|found| crate::by_path::is_remote_type(&found)))
    }

    /// `mkdir` with mode 0777 and umask.
    pub fn create_dir(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::MakeDir, path, |dir, name| rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777)))
    }

    /// `unlink` (never a directory: `EISDIR`).
    pub fn remove_file(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::Remove, path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    /// `rmdir`.
    pub fn remove_dir(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::Remove, path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    /// Creates a symbolic link.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> io::Result<()> {
        self.at(Phase::Link, path, |dir, name| rustix::fs::symlinkat(target, dir, name))
    }

    /// Reads a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.at(Phase::Read, path, |dir, name| rustix::fs::readlinkat(dir, name, Vec::new()))
            .map(|target| target.into_bytes())
    }

    /// `link`: a second name `to` beneath this directory for `from` beneath `source`. A symbolic link
    /// is not followed.
    pub fn link_from(&self, source: &Dir, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = source.parent_of(from)?;
        let (to_dir, to) = self.parent_of(to)?;
        let flags = AtFlags::empty();
        Ok(retried(Phase::Link, || rustix::fs::linkat(from_dir.as_fd(), from, to_dir.as_fd(), to, flags))?)
    }

    /// Rename beneath this directory. An existing file at `to` is replaced.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = self.parent_of(from)?;
        let (to_dir, to) = self.parent_of(to)?;
        Ok(retried(Phase::Link, || rustix::fs::renameat(from_dir.as_fd(), from, to_dir.as_fd(), to))?)
    }

    /// `fsync` of the directory: the names in it survive a crash from here on.
    pub fn sync(&self) -> io::Result<()> {
        let fd = self.reopen()?;
        crate::sync_file(fd.get())
    }

    /// The same directory opened for reading, at its beginning.
    pub(crate) fn reopen(&self) -> Result<Closing<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open_with(|| rustix::fs::openat(self.as_fd(), c".", flags, Mode::empty()))
    }

    /// Calls with the directory holding the last component of `path`, and that component. `None` if there is
    /// no such thing (`ENOENT`, or a leading component is no directory).
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

    /// Makes a call of this kind for the last component.
    fn at<T>(
        &self,
        kind: Phase,
        path: &[u8],
        mut call: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> io::Result<T> {
        let (parent, name) = self.parent_of(path)?;
        Ok(retried(kind, || call(parent.as_fd(), name))?)
    }

    fn open_at(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<Closing<OwnedFd>, Errno> {
        if self.capabilities.openat2 && path.contains(&b'/') {
            check(path)?;
            return open_with(|| rustix::fs::openat2(self.as_fd(), path, flags, mode, RESOLVE));
        }
        let (parent, name) = self.parent_of(path)?;
        open_with(|| rustix::fs::openat(parent.as_fd(), name, flags, mode))
    }

    /// The directory holding the last component, and that component.
    fn parent_of<'a>(&self, path: &'a [u8]) -> Result<(Parent<'_>, &'a [u8]), Errno> {
        check(path)?;
        let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else {
            return Ok((Parent::Held(self.as_fd()), path));
        };
        let (leading, name) = (&path[..slash], &path[slash + 1..]);
        if self.capabilities.openat2 {
            let fd =
                open_with(|| rustix::fs::openat2(self.as_fd(), leading, HANDLE, Mode::empty(), RESOLVE))?;
            return Ok((Parent::Opened(fd), name));
        }
        let mut parent = Parent::Held(self.as_fd());
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

enum Parent<'a> {
    Held(BorrowedFd<'a>),
    Opened(Closing<OwnedFd>),
}

impl Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Held(fd) => *fd,
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

/// Refuses paths that are not made of plain names.
fn check(path: &[u8]) -> Result<(), Errno> {
    let plain = |component: &[u8]| !matches!(component, b"" | b"." | b"..");
    if path.split(|&byte| byte == b'/').all(plain) { Ok(()) } else { Err(Errno::INVAL) }
}

#[cfg(test)]
#[path = "dir_tests.rs"]
mod tests;
