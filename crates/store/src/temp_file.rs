//! A temporary file whose final name depends on its content. It is removed unless it is renamed
//! into place.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::{File, by_path};

use crate::{Components, Error, Fsync, SharedRepository, aside, lock::sync_parent};

/// A temporary file.
#[derive(Debug)]
pub(crate) struct TempFile {
    /// `None` after it was closed.
    file: Option<File>,
    path: PathBuf,
    renamed: bool,
    kept: bool,
}

impl TempFile {
    /// Creates a file in `dir`, with a name that begins with `prefix` and the permission bits of
    /// `mode` minus the umask.
    pub(crate) fn create(
        dir: &Path,
        prefix: &str,
        mode: u32,
        shared: SharedRepository,
    ) -> Result<TempFile, Error> {
        let mut number = std::process::id();
        let (file, path) = loop {
            let path = dir.join(TempFile::name(prefix, number));
            match aside(|| by_path::create_new_readable(&path, mode)) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                Err(source) => return Err(Error::Io { what: "create", path, source }),
            }
        };
        let new = TempFile { file: Some(file), path, renamed: false, kept: false };
        let adjusted = aside(|| shared.adjust_file(new.file()));
        adjusted.map_err(|source| new.error("fix permission bits on", source))?;
        Ok(new)
    }

    /// Returns the name of the file with this number. A process begins with its id.
    pub(crate) fn name(prefix: &str, number: u32) -> String {
        format!("{prefix}{number:06x}")
    }

    /// Takes over a file that an earlier process left behind. This process can write it; afterwards
    /// the file is read-only. It is kept if it is not renamed.
    pub(crate) fn take_over(path: &Path) -> Result<TempFile, Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let stat = by_path::stat(path).map_err(failed("stat"))?;
        let mode = stat.map_or(0o444, |stat| stat.mode & 0o777 & !0o222);
        by_path::set_mode(path, mode | 0o600).map_err(failed("fix permission bits on"))?;
        let file = by_path::open_to_edit(path).map_err(failed("open"))?;
        sys::set_mode(&file, mode).map_err(failed("fix permission bits on"))?;
        Ok(TempFile { file: Some(file), path: path.to_owned(), renamed: false, kept: true })
    }

    /// Keeps the file if it is dropped before it is renamed.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Returns the file. Panics after [`TempFile::close`].
    pub(crate) fn file(&self) -> &File {
        self.file.as_ref().expect("the file is open until it is closed")
    }

    /// Closes the file and keeps its name. Many files would otherwise need many descriptors. An
    /// error of `close` may be the only sign that the data did not fit on the disk.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        match self.file.take() {
            Some(file) => sys::close(file).map_err(|source| self.error("close", source)),
            None => Ok(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file if its component is hardened.
    pub(crate) fn sync(&self, fsync: &Fsync, component: Components) -> Result<(), Error> {
        fsync.file(component, self.file()).map_err(|source| self.error("sync", source))
    }

    /// Renames the file to `path`, and replaces an existing file.
    pub(crate) fn rename(&mut self, path: &Path) -> Result<(), Error> {
        by_path::rename(&self.path, path).map_err(|source| self.error("rename", source))?;
        self.renamed = true;
        Ok(())
    }

    /// Renames the file to `path`, unless that file exists. Returns true if it was renamed, and
    /// false if the existing file has the same content. Other content is an error.
    pub(crate) fn rename_new(&mut self, path: &Path) -> Result<bool, Error> {
        match self.claim(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.equals(path).map_err(|source| self.error("compare", source))? {
                    Ok(false)
                } else {
                    Err(Error::Differs { new: self.path.clone(), old: path.to_owned() })
                }
            }
            Err(source) => Err(self.error("rename", source)),
        }
    }

    /// Renames the file to `path` if that does not exist. A file system may support only one of the
    /// system calls for this. If it supports none, `path` is checked first.
    fn claim(&mut self, path: &Path) -> io::Result<()> {
        let unsupported = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
        };
        match by_path::rename_new(&self.path, path) {
            Err(error) if unsupported(&error) => match by_path::hard_link(&self.path, path) {
                Err(error) if unsupported(&error) || error.kind() == io::ErrorKind::PermissionDenied => {}
                linked => return linked,
            },
            renamed => {
                renamed?;
                self.renamed = true;
                return Ok(());
            }
        }
        if by_path::stat(path)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        by_path::rename(&self.path, path)?;
        self.renamed = true;
        Ok(())
    }

    fn equals(&self, path: &Path) -> io::Result<bool> {
        const PIECE: usize = 64 << 10;
        let other = by_path::open(path)?;
        let size = sys::stat_of(self.file())?.size;
        if sys::stat_of(&other)?.size != size {
            return Ok(false);
        }
        let (mut mine, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
        let mut at = 0;
        while at < size {
            let len = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
            self.file().read_exact_at(&mut mine[..len], at)?;
            other.read_exact_at(&mut theirs[..len], at)?;
            if mine[..len] != theirs[..len] {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }

    /// Syncs the file by the policy, renames it to `path`, and syncs the directory.
    pub(crate) fn rename_into_place(
        mut self,
        path: &Path,
        fsync: &Fsync,
        component: Components,
    ) -> Result<(), Error> {
        self.sync(fsync, component)?;
        self.rename(path)?;
        sync_parent(fsync, component, path)
    }

    pub(crate) fn error(&self, what: &'static str, source: io::Error) -> Error {
        Error::Io { what, path: self.path.clone(), source }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.renamed && !self.kept {
            let _ = aside(|| by_path::remove_file(&self.path));
        }
    }
}
