//! Shared indices: `sharedindex.<checksum>`, beside the index split from them.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use format::ObjectId;
use sys::{File, by_path};

use super::{Expire, deadline};
use crate::{Components, Error, Fsync, SharedRepository, lock::sync_parent};

const PREFIX: &str = "sharedindex.";

/// The file of this name beside the index at `index`.
pub(super) fn path(index: &Path, oid: ObjectId) -> PathBuf {
    index.with_file_name(format!("{PREFIX}{oid}"))
}

/// Shows that a shared index is in use. It is none the less usable if that fails.
pub(super) fn freshen(path: &Path) {
    let _ = by_path::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// A shared index being written, under a name of its own; removed again unless published.
pub(super) struct New {
    file: File,
    path: PathBuf,
    published: bool,
}

impl New {
    pub(super) fn create(index: &Path, shared: SharedRepository) -> Result<New, Error> {
        let mut number = std::process::id();
        let (file, path) = loop {
            let path = index.with_file_name(format!("sharedindex_{number:06x}"));
            match by_path::create_new(&path, 0o666) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                Err(source) => return Err(Error::Io { what: "create", path, source }),
            }
        };
        let new = New { file, path, published: false };
        let widen = || {
            let mode = sys::stat_of(&new.file)?.mode & 0o7777;
            match shared.file_mode(mode) {
                wanted if wanted == mode => Ok(()),
                wanted => sys::set_mode(&new.file, wanted),
            }
        };
        widen().map_err(|source| new.error("fix permission bits on", source))?;
        Ok(new)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(super) fn publish(mut self, oid: ObjectId, fsync: &Fsync) -> Result<(), Error> {
        fsync.file(Components::INDEX, &self.file).map_err(|source| self.error("sync", source))?;
        let path = path(&self.path, oid);
        by_path::rename(&self.path, &path).map_err(|source| self.error("rename", source))?;
        self.published = true;
        sync_parent(fsync, Components::INDEX, &path)
    }

    fn error(&self, what: &'static str, source: io::Error) -> Error {
        Error::Io { what, path: self.path.clone(), source }
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.published {
            let _ = by_path::remove_file(&self.path);
        }
    }
}

/// Removes shared indices, but for `current`, that nobody used for long. What cannot be looked at or
/// removed stays: it does no harm.
pub(super) fn expire(index: &Path, current: ObjectId, expire: Expire) {
    let (Some(deadline), Some(dir)) = (deadline(expire), index.parent()) else { return };
    let Ok(names) = by_path::list(dir) else { return };
    let current = format!("{PREFIX}{current}");
    for (name, _) in names {
        if name == *current || !name.to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = dir.join(name);
        let Ok(Some(stat)) = by_path::stat(&path) else { continue };
        let used = SystemTime::UNIX_EPOCH + Duration::from_secs(stat.mtime.0.max(0).unsigned_abs());
        if used <= deadline {
            let _ = by_path::remove_file(&path);
        }
    }
}
