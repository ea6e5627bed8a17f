//! Workspaces without an upper layer: a btrfs snapshot, or a copy that shares blocks.

use std::{io, path::Path};

use format::index::Flags;
use store::{
    Fsync, LockOptions,
    index::{ReadOptions, WriteOptions},
};
use sys::Dir;

use super::Error;
use crate::{
    files::{own, whole},
    workspace::base::{Base, populate::Populate},
};

/// Replaces the directory `top`, which contains only a file `.git`, by a snapshot of the base.
pub fn snapshot(base: &Base, top: &Path) -> Result<(), Error> {
    whole::remove_gitfile(top).map_err(Error::io("remove", top))?;
    whole::remove_empty(top).map_err(Error::io("remove", top))?;
    sys::volume::create_snapshot(&base.files(), top).map_err(Error::io("create", top))
}

/// Copies the files of the base into the directory `top`, as reflinks that share blocks. The index
/// in `admin` is that of the base. Its stat data are replaced by those of the copies.
pub fn copy(base: &Base, admin: &Path, top: &Path, workers: usize, fsync: &Fsync) -> Result<(), Error> {
    let path = admin.join("index");
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
        Error::io("update", &path)(io::Error::other(source))
    };
    let lock = store::index::lock(&path, &LockOptions::default()).map_err(|error| failed(error.into()))?;
    let loaded = store::index::load(&path, base.tree.kind(), &ReadOptions::default());
    let mut index = loaded.map_err(|error| failed(error.into()))?;
    let files = base.bytes();
    let from = Dir::open(&files).map_err(Error::io("open", &files))?;
    let to = own::open(top).map_err(Error::io("open", top))?;
    let copy_one = |at: usize| {
        let (path, mode) = (index.path_at(at), index.mode_at(at));
        let from = from.open_file(path).map_err(|error| ("read", error))?;
        let to = to.create_new(path, mode.is_executable()).map_err(|error| ("create", error))?;
        sys::reflink(&from, &to).map_err(|error| ("share the blocks of", error))
    };
    let populate = Populate { index: &index, from: &from, to: &to, top, make_file: &copy_one };
    let copied = populate.run(workers);
    let stats = copied.map_err(|failed| Error::io(failed.action, &failed.path)(failed.source))?;
    for (entry, stat) in index.entries_mut().iter_mut().zip(stats) {
        entry.stat = stat;
        entry.flags.remove(Flags::UPTODATE | Flags::FSMONITOR_VALID);
    }
    let options = WriteOptions { split: Some(false), ..WriteOptions::default() };
    let written = store::index::commit(lock, &mut index, &options, fsync, &|_, _| false);
    written.map_err(|error| failed(error.into()))
}

/// Returns an error with the reason if no snapshot of a base can be made at `top`.
pub(super) fn can_snapshot(bases: &Path, top: &Path) -> Result<(), String> {
    for path in [bases, top] {
        if !sys::volume::is_btrfs(path).unwrap_or(false) {
            return Err(format!("'{}' is not on btrfs", path.display()));
        }
    }
    if is_same_volume(bases, top) {
        Ok(())
    } else {
        Err("the base directory and the workspace are on different file systems".to_owned())
    }
}

/// Returns an error with the reason if files in the two directories cannot share blocks.
pub(super) fn can_share_blocks(bases: &Path, top: &Path) -> Result<(), String> {
    sys::can_reflink(bases, top).map_err(|error| match error.kind() {
        io::ErrorKind::CrossesDevices => {
            "the base directory and the workspace are on different file systems".to_owned()
        }
        _ => format!("files cannot share blocks here: {}", sys::reason(&error)),
    })
}

fn is_same_volume(one: &Path, other: &Path) -> bool {
    let uuid = |path: &Path| sys::volume::uuid(path).ok().flatten();
    match (uuid(one), uuid(other)) {
        (Some(one), Some(other)) => one == other,
        // Kernels before 6.9 do not report the UUID. If the volumes differ, the snapshot fails
        // later.
        _ => true,
    }
}
