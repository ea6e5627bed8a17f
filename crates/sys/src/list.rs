//! Reading directories with getdents64.

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

/// Nearly all directories fit in one call with this much; and network file systems send attributes with what fits.
const BUFFER: usize = 128 * 1024;

/// The greatest offset there is, at which nothing can follow: file systems that say so of a directory's last entry (ext4) need not be asked whether there are
/// more.
const END: u64 = i64::MAX as u64;

/// A buffer for reading directories, to be kept from one to the next.
pub struct Listing {
    buffer: Vec<MaybeUninit<u8>>,
}

/// One entry of a directory, `.` and `..` left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// One path component.
    pub name: &'a [u8],
    /// Its type; asked for with a stat where the file system does not tell.
    pub file_type: FileType,
    /// Its inode number.
    pub ino: u64,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { buffer: vec![MaybeUninit::uninit(); BUFFER] }
    }
}

impl Listing {
    /// Calls `visit` for each entry of `dir`, in the directory's order, until it answers with an error.
    /// An entry that disappears while its type is asked for is left out.
    pub fn read<E: From<io::Error>>(
        &mut self,
        dir: &Dir,
        visit: impl FnMut(Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read_from(dir.reopen().map_err(io::Error::from)?.get().as_fd(), visit)
    }

    /// As [`Listing::read`] for the directory `path` beneath `dir`, which is opened once: the handle is returned.
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

    /// As [`Listing::read`] for the directory at any path, links followed, which is opened once.
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
        let mut entries = RawDir::new(fd, &mut self.buffer);
        let mut comes_next = 0;
        loop {
            let asks = entries.is_buffer_empty();
            if asks && comes_next == END {
                return Ok(());
            }
            let call = asks.then(|| span(Phase::List));
            let next = entries.next();
            drop(call);
            let Some(entry) = next else { return Ok(()) };
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(io::Error::from(errno).into()),
            };
            comes_next = entry.next_entry_cookie();
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
    /// Names and types of the entries, `.` and `..` left out, in the directory's order. For many
    /// directories in a row, [`Listing::read`] reuses one buffer and copies no names.
    pub fn list(&self) -> io::Result<Vec<(Vec<u8>, FileType)>> {
        let mut names = Vec::new();
        Listing::default().read(self, |entry| {
            names.push((entry.name.to_vec(), entry.file_type));
            Ok::<_, io::Error>(())
        })?;
        Ok(names)
    }

    /// Whether the directory holds nothing.
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
