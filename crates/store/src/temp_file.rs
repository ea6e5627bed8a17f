//! A temporary file whose final name depends on its content. It is removed unless it is renamed
//! into place.

use std::{
    io,
    path::{Path, PathBuf},
};

use sys::{File, by_path};

use crate::{Components, Error, Fsync, SharedRepository, lock::sync_parent};

/// A temporary file.
pub(crate) struct TempFile {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl TempFile {
    /// Creates a file in `dir`, with a name that begins with `prefix` and the permission bits of
    /// `mode` less the umask.
    pub(crate) fn create(
        dir: &Path,
        prefix: &str,
        mode: u32,
        shared: SharedRepository,
    ) -> Result<TempFile, Error> {
        let mut number = std::process::id();
        let (file, path) = loop {
            let path = dir.join(format!("{prefix}{number:06x}"));
            match by_path::create_new(&path, mode) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                Err(source) => return Err(Error::Io { what: "create", path, source }),
            }
        };
        let new = TempFile { file, path, renamed: false };
        shared.adjust_file(&new.file).map_err(|source| new.error("fix permission bits on", source))?;
        Ok(new)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file by the policy, renames it to `path`, and syncs the directory.
    pub(crate) fn rename_into_place(
        mut self,
        path: &Path,
        fsync: &Fsync,
        component: Components,
    ) -> Result<(), Error> {
        fsync.file(component, &self.file).map_err(|source| self.error("sync", source))?;
        by_path::rename(&self.path, path).map_err(|source| self.error("rename", source))?;
        self.renamed = true;
        sync_parent(fsync, component, path)
    }

    pub(crate) fn error(&self, what: &'static str, source: io::Error) -> Error {
        Error::Io { what, path: self.path.clone(), source }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = by_path::remove_file(&self.path);
        }
    }
}
