//! Operations on names, applied to the backing directory.

use std::{ffi::OsStr, os::fd::OwnedFd, sync::Arc};

use fuser::INodeNo;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat, chmodat, fchmod, fstat, linkat, mkdirat,
        mknodat, openat, readlinkat, renameat_with, statat, symlinkat, unlinkat,
    },
    io::Errno,
};

use super::tree::{Inode, Result, Tree, Way};

/// An entry for the kernel: its inode and its attributes.
pub(super) type Entry = (Arc<Inode>, Stat);

impl Tree {
    pub(super) fn lookup(&self, parent: INodeNo, name: &OsStr) -> Result<Entry> {
        let dir = self.find_dir(parent)?;
        let name = self.spelled(&dir, name)?;
        let stat = statat(dir.fd(), &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((self.enter(&dir, &name, &stat)?, stat))
    }

    pub(super) fn create(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Entry, OwnedFd)> {
        let dir = self.find_dir(parent)?;
        let name = self.spelled(&dir, name)?;
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let fd = openat(dir.fd(), &*name, flags, mode)?;
        let mut stat = fstat(&fd)?;
        // The umask of this process must not apply.
        if stat.st_size == 0 && Mode::from_raw_mode(stat.st_mode) != mode {
            fchmod(&fd, mode)?;
            stat = fstat(&fd)?;
        }
        self.added(&dir, &name);
        let inode = self.enter(&dir, &name, &stat)?;
        self.changed(inode.number);
        Ok(((inode, stat), fd))
    }

    pub(super) fn mkdir(&self, parent: INodeNo, name: &OsStr, mode: u32) -> Result<Entry> {
        let dir = self.free(parent, name)?;
        let mode = Mode::from_raw_mode(mode);
        mkdirat(dir.fd(), name, mode)?;
        self.entered(&dir, name, mode)
    }

    pub(super) fn mknod(&self, parent: INodeNo, name: &OsStr, mode: u32, device: u32) -> Result<Entry> {
        let dir = self.free(parent, name)?;
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode));
        mknodat(dir.fd(), name, kind, mode, device.into())?;
        self.entered(&dir, name, mode)
    }

    pub(super) fn symlink(&self, parent: INodeNo, name: &OsStr, target: &OsStr) -> Result<Entry> {
        let dir = self.free(parent, name)?;
        symlinkat(target, dir.fd(), name)?;
        self.entered(&dir, name, Mode::from_raw_mode(0o777))
    }

    pub(super) fn link(&self, number: INodeNo, parent: INodeNo, name: &OsStr) -> Result<Entry> {
        let inode = self.find(number)?;
        let dir = self.free(parent, name)?;
        match self.way(&inode)? {
            Way::Named(from, called) => linkat(from.fd(), &called, dir.fd(), name, AtFlags::empty())?,
            way => linkat(CWD, way.path(), dir.fd(), name, AtFlags::SYMLINK_FOLLOW)?,
        }
        self.added(&dir, name);
        let stat = statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((self.enter(&dir, name, &stat)?, stat))
    }

    /// Returns the directory. Returns an error if it contains `name`.
    fn free(&self, parent: INodeNo, name: &OsStr) -> Result<Arc<Inode>> {
        let dir = self.find_dir(parent)?;
        match &*self.spelled(&dir, name)? {
            other if other != name => Err(Errno::EXIST),
            _ => Ok(dir),
        }
    }

    fn entered(&self, dir: &Arc<Inode>, name: &OsStr, mode: Mode) -> Result<Entry> {
        self.added(dir, name);
        let mut stat = statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        if Mode::from_raw_mode(stat.st_mode) != mode && !FileType::from_raw_mode(stat.st_mode).is_symlink() {
            chmodat(dir.fd(), name, mode, AtFlags::empty())?;
            stat = statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let inode = self.enter(dir, name, &stat)?;
        self.changed(inode.number);
        Ok((inode, stat))
    }

    pub(super) fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<()> {
        let dir = self.find_dir(parent)?;
        let name = self.spelled(&dir, name)?;
        let inode = self.losing(&dir, &name)?;
        unlinkat(dir.fd(), &*name, flags)?;
        self.lost(&dir, &name, inode.as_ref());
        Ok(())
    }

    pub(super) fn rename(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (to_parent, to_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        let (dir, to_dir) = (self.find_dir(parent)?, self.find_dir(to_parent)?);
        let (name, there) = (self.spelled(&dir, name)?, self.spelled(&to_dir, to_name)?);
        let inode = self.known(&dir, &name)?;
        let replaced = self.losing(&to_dir, &there);
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = replaced?;
            renameat_with(dir.fd(), &*name, to_dir.fd(), &*there, flags)?;
            self.lost(&dir, &name, inode.as_ref());
            self.lost(&to_dir, &there, other.as_ref());
            self.linked(&dir, &name, other.as_ref());
            self.linked(&to_dir, &there, inode.as_ref());
            return Ok(());
        }
        let replaced = replaced.ok();
        let is_same = replaced.as_ref().and_then(Option::as_ref).map(|inode| inode.number)
            == inode.as_ref().map(|inode| inode.number);
        if &*there == to_name || is_same {
            renameat_with(dir.fd(), &*name, to_dir.fd(), to_name, flags)?;
        } else {
            // The file under another spelling is replaced; the new spelling is kept.
            renameat_with(dir.fd(), &*name, to_dir.fd(), &*there, flags)?;
            renameat_with(to_dir.fd(), &*there, to_dir.fd(), to_name, RenameFlags::NOREPLACE)?;
        }
        if let Some(replaced) = replaced {
            self.lost(&to_dir, &there, replaced.as_ref());
        }
        self.lost(&dir, &name, inode.as_ref());
        self.linked(&to_dir, to_name, inode.as_ref());
        Ok(())
    }

    pub(super) fn readlink(&self, number: INodeNo) -> Result<Vec<u8>> {
        let inode = self.find(number)?;
        let target = match self.way(&inode)? {
            Way::Held(fd) => readlinkat(&*fd, "", Vec::new())?,
            Way::Dir(_) => return Err(Errno::INVAL),
            Way::Named(dir, name) => readlinkat(dir.fd(), &name, Vec::new())?,
        };
        Ok(target.into_bytes())
    }

    /// Returns the paths that an operation on a name affects.
    pub(super) fn paths_of(&self, parent: INodeNo, name: &OsStr) -> Vec<bstr::BString> {
        self.find(parent).map(|dir| vec![dir.path_of(name)]).unwrap_or_default()
    }
}
