//! A directory for objects that never become part of the repository.

use std::{
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use sys::by_path;

use crate::{Error, aside};

/// An object directory that disappears with this value, on top of another one: Git finds the
/// objects of both. Its name is one of those that Git's own `gc` removes when they are old, in case
/// this process is killed.
#[derive(Debug)]
pub struct Quarantine {
    path: PathBuf,
}

impl Quarantine {
    /// Creates a new directory inside of the object directory `objects`, which only this user may
    /// read.
    pub fn create(objects: &Path) -> Result<Quarantine, Error> {
        aside(|| Quarantine::fill(objects))
    }

    fn fill(objects: &Path) -> Result<Quarantine, Error> {
        let quarantine = Quarantine::make(objects)?;
        let info = quarantine.path.join("info");
        let file = info.join("alternates");
        let write = || {
            by_path::create_dir(&info)?;
            let line = [by_path::canonical(objects)?.as_os_str().as_bytes(), b"\n"].concat();
            by_path::create_new(&file, 0o600)?.write_all(&line)
        };
        match write() {
            Ok(()) => Ok(quarantine),
            Err(source) => Err(Error::Io { what: "write", path: file, source }),
        }
    }

    fn make(objects: &Path) -> Result<Quarantine, Error> {
        let mut number = 0u32;
        loop {
            let path = objects.join(format!("tmp_objdir-sapwood-{}-{number}", std::process::id()));
            match by_path::create_private_dir(&path) {
                Ok(()) => return Ok(Quarantine { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(Error::Io { what: "create", path, source }),
            }
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        let _ = aside(|| by_path::remove_dir_all(&self.path));
    }
}
