//! Reads directories: a snapshot of the names at the start of reading.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, Mutex, PoisonError},
};

use fuser::{FileHandle, FileType, INodeNo};
use rustix::{
    fs::{AtFlags, Dir, statat},
    io::Errno,
};

use super::{
    contents::Handle,
    names::Entry,
    tree::{Inode, Result, Tree, kind_of},
};

/// An open directory.
pub(super) struct Listing {
    dir: Arc<Inode>,
    names: Mutex<Arc<[Name]>>,
}

/// A name of the directory.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) name: OsString,
    pub(super) number: u64,
    pub(super) kind: FileType,
}

impl Name {
    /// Returns true for `.` or `..`, for which the kernel keeps no lookup count.
    pub(super) fn is_dots(&self) -> bool {
        matches!(self.name.as_bytes(), b"." | b"..")
    }
}

impl Tree {
    pub(super) fn opendir(&self, number: INodeNo) -> Result<FileHandle> {
        let listing = Listing { dir: self.find_dir(number)?, names: Mutex::new(Arc::new([])) };
        Ok(self.handles.add(Handle::Dir(Arc::new(listing))))
    }

    /// Returns the names from the `offset`th on. Offset 0 reads the directory again.
    pub(super) fn names_from(&self, handle: FileHandle, offset: u64) -> Result<(Arc<Inode>, Arc<[Name]>)> {
        let listing = self.handles.dir(handle)?;
        let mut names = listing.names.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            *names = self.names_in(&listing.dir)?.into();
        }
        Ok((Arc::clone(&listing.dir), Arc::clone(&names)))
    }

    /// Returns all names in a directory.
    pub(super) fn names_in(&self, dir: &Inode) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(dir.fd())? {
            let entry = entry?;
            names.push(Name {
                name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
                number: self.presented(entry.ino()),
                kind: kind_of(entry.file_type()),
            });
        }
        Ok(names)
    }

    /// Returns the entry of a listed name, or `None` if it no longer exists.
    pub(super) fn listed(&self, dir: &Arc<Inode>, name: &Name) -> Result<Option<Entry>> {
        let stat = match statat(dir.fd(), &name.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        Ok(Some((self.enter(dir, &name.name, &stat)?, stat)))
    }
}
