//! Open files.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::SystemTime,
};

use crate::{
    by_path::uninterrupted,
    profile::{Phase, call},
};

/// An open file. Like [`std::fs::File`], but the profile counts its system calls.
#[derive(Debug)]
pub struct File(Closing<fs::File>);

impl File {
    /// Returns a second handle that shares the position.
    pub fn try_clone(&self) -> io::Result<File> {
        self.std().try_clone().map(File::from)
    }

    /// Sets the file's length in bytes.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        call(Phase::Write, || self.std().set_len(size))
    }

    /// Sets the file's modification time.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        // The file may be open for reading only.
        crate::changes::before_change();
        uninterrupted(|| call(Phase::Write, || self.std().set_modified(time)))
    }

    /// Returns the inner file for a caller that closes it itself.
    pub(crate) fn into_std(self) -> fs::File {
        self.0.into_inner()
    }

    /// Returns the inner file. System calls made through it are not counted.
    pub(crate) fn std(&self) -> &fs::File {
        self.0.get()
    }
}

impl From<fs::File> for File {
    fn from(file: fs::File) -> File {
        File(Closing::new(file))
    }
}

impl File {
    pub(crate) fn from_fd(fd: Closing<OwnedFd>) -> File {
        fs::File::from(fd.into_inner()).into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std().as_fd()
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file: &File = self;
        crate::interrupt::waiting(|| call(Phase::Read, || rustix::io::read(file, &mut *buffer)))
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let before = buffer.len();
        crate::read_to_end(self, crate::stat_of(&**self)?.size, buffer)?;
        Ok(buffer.len() - before)
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        call(Phase::Write, || self.std().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.std().seek(to)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// An open handle whose close is counted in the profile.
#[derive(Debug)]
pub(crate) struct Closing<T>(Option<T>);

impl<T> Closing<T> {
    pub(crate) fn new(open: T) -> Closing<T> {
        Closing(Some(open))
    }

    pub(crate) fn get(&self) -> &T {
        self.0.as_ref().expect("open until it is dropped")
    }

    /// Returns the open handle. The caller takes over closing it.
    pub(crate) fn into_inner(mut self) -> T {
        self.0.take().expect("open until it is dropped")
    }
}

impl<T> Drop for Closing<T> {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            call(Phase::Close, || drop(open));
        }
    }
}
