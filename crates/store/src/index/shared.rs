//! Shared indices: `sharedindex.<checksum>`, in the directory of the split index.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use format::{HashKind, ObjectId};
use sys::{File, by_path};

use super::{Expire, deadline};
use crate::{Components, Error, Fsync, SharedRepository, aside, temp_file::TempFile};

const PREFIX: &str = "sharedindex.";

/// Returns the path of the shared index with this name for the index at `index`.
pub(super) fn path(index: &Path, oid: ObjectId) -> PathBuf {
    index.with_file_name(format!("{PREFIX}{oid}"))
}

/// Updates the modification time of a shared index to show that it is in use. A failure is ignored.
pub(super) fn freshen(path: &Path) {
    let _ = aside(|| by_path::touch(path));
}

/// A shared index that is being written.
pub(super) struct NewSharedIndex(TempFile);

impl NewSharedIndex {
    pub(super) fn create(index: &Path, shared: SharedRepository) -> Result<NewSharedIndex, Error> {
        let dir = index.parent().unwrap_or(Path::new("."));
        TempFile::create(dir, "sharedindex_", 0o666, shared).map(NewSharedIndex)
    }

    pub(super) fn file(&self) -> &File {
        self.0.file()
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Renames it to its final name.
    pub(super) fn publish(self, oid: ObjectId, fsync: &Fsync) -> Result<(), Error> {
        let path = path(self.0.path(), oid);
        self.0.rename_into_place(&path, fsync, Components::INDEX)
    }
}

/// Returns the path of the file with the places of the entries of the shared index at `shared`
/// ([`format::index::places`]). Git ignores it, and removes it as it removes shared indices.
pub fn path_of_places(shared: &Path) -> PathBuf {
    let mut path = shared.as_os_str().to_owned();
    path.push(".places");
    path.into()
}

/// Maps the file of places, if there is one.
pub(super) fn map_places(shared: &Path) -> Option<Bytes> {
    let file = by_path::open(&path_of_places(shared)).ok()?;
    sys::Map::of(&file).ok().map(Bytes::from_owner)
}

/// Returns true if there is a shared index in the directory of the index at `index`.
pub fn has_shared_beside(index: &Path, hash: HashKind) -> bool {
    newest(index, hash).is_some()
}

/// Returns the name of the shared index that was used last, in the directory of the index at
/// `index`.
pub(super) fn newest(index: &Path, hash: HashKind) -> Option<ObjectId> {
    let dir = index.parent()?;
    let names = by_path::list(dir).ok()?;
    let shared = names.iter().filter_map(|(name, _)| {
        let hex = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
        let used = by_path::stat(&dir.join(name)).ok()??.mtime;
        Some((used, ObjectId::from_hex(hash, hex)?))
    });
    shared.max_by_key(|(used, _)| *used).map(|(_, oid)| oid)
}

/// Removes shared indices other than `current` that have not been used for the time in `expire`.
/// Skips files that cannot be examined or removed; they do no harm.
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
