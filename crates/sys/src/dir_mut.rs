//! The changing half of a directory handle.
//!
//! A [`Dir`] can only read. A [`DirMut`] is made by an explicit call, [`DirMut::of`] or
//! [`DirMut::lend`], which `clippy.toml` forbids. The few places that may change a directory expect
//! the lint and say whose directory it is.
//!
//! The promises of [`Dir`] hold here too: nothing outside the directory is touched. A failed call
//! has created or removed nothing.

use std::{
    io,
    ops::Deref,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use crate::{
    Dir, File,
    profile::{Phase, retried},
};

/// A directory whose entries can be changed. Dereferences to [`Dir`], which reads.
#[derive(Debug)]
#[repr(transparent)]
pub struct DirMut(Dir);

impl DirMut {
    /// Allows changes through a handle.
    pub fn of(dir: Dir) -> DirMut {
        DirMut(dir)
    }

    /// Like [`DirMut::of`] for a handle that somebody else keeps.
    pub fn lend(dir: &Dir) -> &DirMut {
        let dir: *const Dir = dir;
        // SAFETY: `DirMut` is transparent, so both types have one layout. The lifetime stays.
        unsafe { &*dir.cast::<DirMut>() }
    }

    /// Like [`Dir::open_dir`]; the directory can be changed too.
    pub fn open_dir(&self, path: &[u8]) -> io::Result<DirMut> {
        self.0.open_dir(path).map(DirMut)
    }

    /// Like [`Dir::try_clone`]; the directory can be changed too.
    pub fn try_clone(&self) -> io::Result<DirMut> {
        self.0.try_clone().map(DirMut)
    }

    /// Creates a file for writing (`O_CREAT | O_EXCL | O_WRONLY`), with mode 0777 if `executable`
    /// and 0666 otherwise; the umask applies. `path` has one or more components.
    pub fn create_new(&self, path: &[u8], executable: bool) -> io::Result<File> {
        crate::interrupt::install();
        crate::changes::before_change();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
        Ok(File::from_fd(self.open_at(path, flags, mode)?))
    }

    /// Opens an existing file for reading, and for writing at any offset. Otherwise like
    /// [`Dir::open_file`].
    pub fn open_to_edit(&self, path: &[u8]) -> io::Result<File> {
        crate::interrupt::install();
        crate::changes::before_change();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from_fd(self.open_at(path, flags, Mode::empty())?))
    }

    /// Runs `mkdir` with mode 0777; the umask applies.
    pub fn create_dir(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::MakeDir, path, |dir, name| rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777)))
    }

    /// Creates a symbolic link at `path` that points to `target`.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> io::Result<()> {
        self.at(Phase::Link, path, |dir, name| rustix::fs::symlinkat(target, dir, name))
    }

    /// Runs `link`: adds the name `to` beneath this directory for `from` beneath `source`. Does not
    /// follow a symbolic link.
    pub fn link_from(&self, source: &Dir, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = source.parent_of(from)?;
        let (to_dir, to) = self.parent_of(to)?;
        let flags = AtFlags::empty();
        Ok(retried(Phase::Link, || rustix::fs::linkat(from_dir.as_fd(), from, to_dir.as_fd(), to, flags))?)
    }

    /// Renames an entry beneath this directory. Replaces an existing file at `to`.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from) = self.parent_of(from)?;
        let (to_dir, to) = self.parent_of(to)?;
        Ok(retried(Phase::Link, || rustix::fs::renameat(from_dir.as_fd(), from, to_dir.as_fd(), to))?)
    }

    /// Renames an entry beneath this directory. Returns `EEXIST` if `to` exists. If the file system
    /// does not support such a rename, `to` is checked first.
    pub fn rename_new(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        let (from_dir, from_name) = self.parent_of(from)?;
        let (to_dir, to_name) = self.parent_of(to)?;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let renamed = retried(Phase::Link, || {
            rustix::fs::renameat_with(from_dir.as_fd(), from_name, to_dir.as_fd(), to_name, flags)
        });
        match renamed {
            Err(Errno::INVAL | Errno::NOSYS) if self.stat(to)?.is_none() => self.rename(from, to),
            Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
            renamed => Ok(renamed?),
        }
    }

    /// Renames an entry of this directory into another directory. Replaces an entry at `to`, as
    /// `rename` does.
    pub fn rename_into(&self, from: &[u8], other: &DirMut, to: &[u8]) -> io::Result<()> {
        let renamed = self.with_parent(from, |dir, from| {
            retried(Phase::Link, || rustix::fs::renameat(dir, from, other.as_fd(), to))
        });
        renamed?.ok_or_else(|| Errno::NOENT.into())
    }

    /// Runs `unlink`. Returns `EISDIR` for a directory.
    pub fn remove_file(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::Remove, path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    /// Runs `rmdir`.
    pub fn remove_dir(&self, path: &[u8]) -> io::Result<()> {
        self.at(Phase::Remove, path, |dir, name| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
    }

    /// Sets the modification time of a file, a directory, or a symbolic link itself: seconds and
    /// nanoseconds. The access time stays.
    pub fn set_modified(&self, path: &[u8], time: (i64, u32)) -> io::Result<()> {
        let times = crate::by_path::only_modified(time);
        crate::changes::before_change();
        self.at(Phase::Write, path, |dir, name| {
            rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
        })
    }
}

impl Deref for DirMut {
    type Target = Dir;

    fn deref(&self) -> &Dir {
        &self.0
    }
}

impl AsFd for DirMut {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_between_directories() {
        let place = tempfile::tempdir().expect("a directory for tests");
        std::fs::create_dir_all(place.path().join("a/b")).expect("made");
        std::fs::create_dir_all(place.path().join("t")).expect("made");
        let open = |path: &std::path::Path| DirMut::of(Dir::open(path).expect("opens"));
        let (dir, other) = (open(place.path()), open(&place.path().join("t")));
        dir.rename_into(b"a/b", &other, b"0").expect("renamed");
        assert!(place.path().join("t/0").is_dir());
        assert_eq!(dir.rename_into(b"a/b", &other, b"1").expect_err("gone").kind(), io::ErrorKind::NotFound);
    }
}
