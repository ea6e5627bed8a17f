//! The operating system: the only crate with unsafe code and raw system calls.
//!
//! Everything in a worktree is reached through a [`Dir`] by relative path, resolved by the kernel
//! beneath that directory and without following symbolic links.

use std::{ffi::OsStr, fs::File, io, os::fd::OwnedFd, path::Path, time::SystemTime};

/// What kind of thing a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A `stat`, in the kernel's full width. Times are seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub file_type: FileType,
    /// Permission bits and type, as in `st_mode`.
    pub mode: u32,
    pub ctime: (i64, u32),
    pub mtime: (i64, u32),
    pub dev: u64,
    pub ino: u64,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
}

/// An open directory. All paths are relative, `/`-separated and resolved beneath it
/// (`RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`; component by component where openat2 is missing).
/// A leading directory that is a symlink or not a directory gives `ENOTDIR` or `ELOOP`.
#[derive(Debug)]
pub struct Dir(OwnedFd);

#[allow(unused_variables)]
impl Dir {
    /// Opens a directory by any path, following links (the worktree's root, say).
    pub fn open(path: &Path) -> io::Result<Dir> {
        todo!()
    }
    /// Opens a directory beneath this one.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<Dir> {
        todo!()
    }
    /// `O_CREAT | O_EXCL | O_WRONLY`, mode 0666 or 0777 by `executable`, umask applied.
    /// `path` is one or more components.
    pub fn create_new(&self, path: &[u8], executable: bool) -> io::Result<File> {
        todo!()
    }
    /// Opens for reading; the last component must not be a link either.
    pub fn open_file(&self, path: &[u8]) -> io::Result<File> {
        todo!()
    }
    /// `lstat`; `None` if there is nothing (`ENOENT`, or a leading component is no directory).
    pub fn stat(&self, path: &[u8]) -> io::Result<Option<Stat>> {
        todo!()
    }
    /// `mkdir` with mode 0777 and umask.
    pub fn create_dir(&self, path: &[u8]) -> io::Result<()> {
        todo!()
    }
    /// `unlink` (never a directory).
    pub fn remove_file(&self, path: &[u8]) -> io::Result<()> {
        todo!()
    }
    /// `rmdir`.
    pub fn remove_dir(&self, path: &[u8]) -> io::Result<()> {
        todo!()
    }
    /// Creates a symbolic link.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> io::Result<()> {
        todo!()
    }
    /// Reads a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        todo!()
    }
    /// Names and types of the entries, `.` and `..` left out, in the directory's order. The type is
    /// asked for with a stat where the file system does not tell.
    pub fn list(&self) -> io::Result<Vec<(Vec<u8>, FileType)>> {
        todo!()
    }
    /// Rename beneath this directory.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        todo!()
    }
}

/// `fstat` of an open file.
pub fn stat_of(_file: &File) -> io::Result<Stat> {
    todo!()
}

/// A file mapped for reading. The mapping is private; a file shrunk under it by somebody else can
/// still raise SIGBUS, so only files Git never shrinks in place (packs, indices) are mapped.
pub struct Map(memmap2::Mmap);

impl Map {
    /// Maps a whole open file. An empty file gives an empty map.
    pub fn of(_file: &File) -> io::Result<Map> {
        todo!()
    }
}

impl std::ops::Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Unused names of this sketch, to be replaced by the real ones.
pub type Sketch = (SystemTime, &'static OsStr);
