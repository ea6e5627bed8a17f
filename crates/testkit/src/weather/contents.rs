//! Operations on the content and the attributes of files.

use std::{
    collections::HashMap,
    ffi::OsStr,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use fuser::{FileHandle, INodeNo, TimeOrNow};
use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
        Uid, XattrFlags, chmodat, chownat, fallocate, fchmod, fstat, ftruncate, lgetxattr, llistxattr,
        lremovexattr, lsetxattr, utimensat,
    },
    io::{Errno, pread, pwrite},
};

use super::{
    listing::Listing,
    tree::{Inode, Result, Tree, Way},
};

/// The open files and directories.
#[derive(Default)]
pub(super) struct Handles {
    open: Mutex<HashMap<u64, Handle>>,
    last: AtomicU64,
}

#[derive(Clone)]
pub(super) enum Handle {
    File(Arc<OwnedFd>),
    Dir(Arc<Listing>),
}

impl Handles {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Handle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, handle: Handle) -> FileHandle {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.open().insert(number, handle);
        FileHandle(number)
    }

    pub(super) fn file(&self, handle: FileHandle) -> Result<Arc<OwnedFd>> {
        match self.open().get(&handle.0) {
            Some(Handle::File(fd)) => Ok(Arc::clone(fd)),
            _ => Err(Errno::BADF),
        }
    }

    pub(super) fn dir(&self, handle: FileHandle) -> Result<Arc<Listing>> {
        match self.open().get(&handle.0) {
            Some(Handle::Dir(listing)) => Ok(Arc::clone(listing)),
            _ => Err(Errno::BADF),
        }
    }

    pub(super) fn close(&self, handle: FileHandle) {
        self.open().remove(&handle.0);
    }
}

/// The attributes to set.
pub(super) struct Wanted {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

/// Returns the flags for opening the backing file. The kernel specifies the position of each write,
/// so no write appends; with delayed writes the kernel reads pages before it writes a part of them.
pub(super) fn backing_flags(flags: i32, delayed: bool) -> OFlags {
    let asked = OFlags::from_bits_retain(flags as u32);
    let kept = asked & (OFlags::RWMODE | OFlags::TRUNC | OFlags::EXCL);
    if asked & OFlags::RWMODE == OFlags::WRONLY && delayed {
        (kept - OFlags::WRONLY) | OFlags::RDWR
    } else {
        kept
    }
}

impl Tree {
    pub(super) fn attributes_of(&self, number: INodeNo, handle: Option<FileHandle>) -> Result<Stat> {
        match handle.and_then(|handle| self.handles.file(handle).ok()) {
            Some(fd) => fstat(&*fd),
            None => self.way(&self.find(number)?)?.stat(),
        }
    }

    pub(super) fn set(&self, number: INodeNo, handle: Option<FileHandle>, wanted: &Wanted) -> Result<Stat> {
        let inode = self.find(number)?;
        let way = self.way(&inode)?;
        let open = handle.and_then(|handle| self.handles.file(handle).ok());
        if wanted.uid.is_some() || wanted.gid.is_some() {
            let (uid, gid) = (wanted.uid.map(Uid::from_raw), wanted.gid.map(Gid::from_raw));
            chownat(CWD, way.path(), uid, gid, self.follow(&way))?;
        }
        if let Some(mode) = wanted.mode {
            let mode = Mode::from_raw_mode(mode);
            match &open {
                Some(fd) => fchmod(&**fd, mode)?,
                None => chmodat(CWD, way.path(), mode, AtFlags::empty())?,
            }
        }
        if let Some(size) = wanted.size {
            match &open {
                Some(fd) => ftruncate(&**fd, size)?,
                None => ftruncate(way.open(OFlags::WRONLY)?, size)?,
            }
        }
        if wanted.accessed.is_some() || wanted.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(wanted.accessed),
                last_modification: timespec(wanted.modified),
            };
            utimensat(CWD, way.path(), &times, self.follow(&way))?;
        }
        self.changed(inode.number);
        match &open {
            Some(fd) => fstat(&**fd),
            None => way.stat(),
        }
    }

    /// A path through a handle ends with a link in `/proc`, which must be followed. A path through
    /// a directory may end with a link of the served tree, which must not.
    fn follow(&self, way: &Way) -> AtFlags {
        match way {
            Way::Named(..) => AtFlags::SYMLINK_NOFOLLOW,
            Way::Held(_) | Way::Dir(_) => AtFlags::empty(),
        }
    }

    pub(super) fn open(&self, number: INodeNo, flags: OFlags) -> Result<FileHandle> {
        let inode = self.find(number)?;
        let way = self.way(&inode)?;
        let fd = way.open(flags).or_else(|error| match error {
            // Users other than root may have write permission without read permission.
            Errno::ACCESS if flags.contains(OFlags::RDWR) => {
                way.open((flags - OFlags::RDWR) | OFlags::WRONLY)
            }
            error => Err(error),
        })?;
        if flags.contains(OFlags::TRUNC) {
            self.changed(inode.number);
        }
        Ok(self.handles.add(Handle::File(Arc::new(fd))))
    }

    pub(super) fn read(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>> {
        let fd = self.handles.file(handle)?;
        let mut data = vec![0; size as usize];
        let mut filled = 0;
        while filled < data.len() {
            match pread(&*fd, &mut data[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    pub(super) fn write(&self, number: INodeNo, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32> {
        let fd = self.handles.file(handle)?;
        let mut written = 0;
        while written < data.len() {
            written += pwrite(&*fd, &data[written..], offset + written as u64)?;
        }
        self.changed(number.0);
        Ok(u32::try_from(written).expect("the kernel sends less at once"))
    }

    pub(super) fn allocate(
        &self,
        number: INodeNo,
        handle: FileHandle,
        mode: i32,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let fd = self.handles.file(handle)?;
        fallocate(&*fd, FallocateFlags::from_bits_retain(mode as u32), offset, length)?;
        self.changed(number.0);
        Ok(())
    }

    /// Syncs a file or a directory. The backing directory needs no sync: it need not survive a
    /// crash of this machine.
    pub(super) fn sync(&self, number: INodeNo) -> Result<()> {
        match &self.power {
            Some(power) => power.sync(self, number.0),
            None => Ok(()),
        }
    }

    pub(super) fn getxattr(&self, number: INodeNo, name: &OsStr) -> Result<Vec<u8>> {
        let path = self.way_for_xattrs(number)?;
        grown(|buffer| lgetxattr(&path, name, buffer))
    }

    pub(super) fn listxattr(&self, number: INodeNo) -> Result<Vec<u8>> {
        let path = self.way_for_xattrs(number)?;
        grown(|buffer| llistxattr(&path, buffer))
    }

    pub(super) fn setxattr(&self, number: INodeNo, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        lsetxattr(self.way_for_xattrs(number)?, name, value, flags)
    }

    pub(super) fn removexattr(&self, number: INodeNo, name: &OsStr) -> Result<()> {
        lremovexattr(self.way_for_xattrs(number)?, name)
    }

    /// System calls without flags must not end at the link in `/proc`.
    fn way_for_xattrs(&self, number: INodeNo) -> Result<std::path::PathBuf> {
        let inode: Arc<Inode> = self.find(number)?;
        Ok(match self.way(&inode)? {
            way @ Way::Named(..) => way.path(),
            way @ Way::Dir(_) => way.path().join("."),
            Way::Held(_) => return Err(Errno::OPNOTSUPP),
        })
    }
}

/// Reads a value with a buffer of the kernel's maximum length for attributes.
fn grown(read: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let length = read(&mut value)?;
    value.truncate(length);
    Ok(value)
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                let nanoseconds = before.subsec_nanos();
                let borrow = i64::from(nanoseconds > 0);
                Timespec {
                    tv_sec: -(before.as_secs() as i64) - borrow,
                    tv_nsec: (1_000_000_000 * borrow as u32 - nanoseconds * borrow as u32).into(),
                }
            }
        },
    }
}
