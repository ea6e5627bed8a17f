//! Reads directories with getdents64.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RawDir},
    io::Errno,
};

use crate::{
    Dir, FileType,
    file::Closing,
    profile::{Phase, retried, span},
    stat::stat_at,
};

/// Buffer size in bytes. One call with this buffer reads nearly every directory, and network file
/// systems send attributes for the entries that fit. A little less than the size from which on the
/// allocator asks the kernel for each block.
const BUFFER: usize = 124 * 1024;

/// The largest offset, which no entry can follow. If a file system gives this offset to a
/// directory's last entry (ext4), the call that only reports the end is skipped.
const END: u64 = i64::MAX as u64;

/// A buffer for reading directories. Callers reuse it for many directories. It is allocated when
/// the first directory has been opened. It stays empty: only its room is used, which nobody clears,
/// so a small directory touches one page of it.
#[derive(Default)]
pub struct Listing {
    buffer: Vec<u8>,
}

/// One entry of a directory other than `.` and `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// One path component.
    pub name: &'a [u8],
    /// Its type. If the file system does not report it, a stat finds it.
    pub file_type: FileType,
    /// Its inode number.
    pub ino: u64,
}

impl Listing {
    /// Calls `visit` for each entry of `dir`, in the directory's order, until `visit` returns an
    /// error. Skips an entry that disappears before its type is known.
    pub fn read<E: From<io::Error>>(
        &mut self,
        dir: &Dir,
        visit: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read_from(dir.reopen().map_err(io::Error::from)?.get().as_fd(), visit)
    }

    /// Like [`Listing::read`] for the directory `path` beneath `dir`. Opens the directory once and
    /// returns the handle.
    pub fn open<E: From<io::Error>>(
        &mut self,
        dir: &Dir,
        path: &[u8],
        visit: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<Dir, E> {
        let opened = dir.open_to_read(path)?;
        self.read_from(opened.as_fd(), visit)?;
        Ok(opened)
    }

    /// Like [`Listing::read`] for a directory at any path, which is opened once. Follows symbolic
    /// links.
    pub(crate) fn read_path<E: From<io::Error>>(
        &mut self,
        path: &Path,
        visit: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = retried(Phase::Open, || rustix::fs::open(path, flags, Mode::empty()));
        self.read_from(Closing::new(opened.map_err(io::Error::from)?).get().as_fd(), visit)
    }

    fn read_from<E: From<io::Error>>(
        &mut self,
        fd: BorrowedFd<'_>,
        mut visit: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.buffer.reserve_exact(BUFFER);
        let mut entries = RawDir::new(fd, self.buffer.spare_capacity_mut());
        let mut next_offset = 0;
        loop {
            let needs_call = entries.is_buffer_empty();
            if needs_call && next_offset == END {
                return Ok(());
            }
            let call = needs_call.then(|| span(Phase::List));
            let next = entries.next();
            drop(call);
            let Some(entry) = next else { return Ok(()) };
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(io::Error::from(errno).into()),
            };
            next_offset = entry.next_entry_cookie();
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let file_type = match entry.file_type() {
                rustix::fs::FileType::Unknown => {
                    match stat_at(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)? {
                        Some(stat) => stat.file_type,
                        None => continue,
                    }
                }
                known => FileType::of(known),
            };
            visit(Entry { name, file_type, ino: entry.ino() })?;
        }
    }
}

impl Dir {
    /// Returns names and types of the entries other than `.` and `..`, in the directory's order.
    /// For many directories in a row use [`Listing::read`], which reuses one buffer and copies no
    /// names.
    pub fn list(&self) -> io::Result<Vec<(Vec<u8>, FileType)>> {
        let mut names = Vec::new();
        Listing::default().read(self, |entry| {
            names.push((entry.name.to_vec(), entry.file_type));
            Ok::<_, io::Error>(())
        })?;
        Ok(names)
    }

    /// Returns true if the directory has no entries.
    pub fn is_empty(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 512];
        let fd = self.reopen()?;
        let mut entries = RawDir::new(fd.get(), &mut buffer);
        loop {
            let call = entries.is_buffer_empty().then(|| span(Phase::List));
            let next = entries.next();
            drop(call);
            match next {
                None => return Ok(true),
                Some(Ok(entry)) if !matches!(entry.file_name().to_bytes(), b"." | b"..") => return Ok(false),
                Some(Ok(_) | Err(Errno::INTR)) => {}
                Some(Err(errno)) => return Err(errno.into()),
            }
        }
    }
}
