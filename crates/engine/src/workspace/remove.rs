//! Removal of a workspace's files and state.
//!
//! Order: create a mark in the state; unmount; remove the layers outside of the state directory;
//! rename away and remove the state with the upper layer; remove the directory. If the process is
//! killed, `workspace gc` completes the removal: it finds the mark, or an administrative directory
//! without a state.

use std::{io, path::Path, path::PathBuf};

use bstr::ByteSlice as _;
use std::os::unix::ffi::OsStrExt as _;
use sys::{Dir, FileType, by_path};

use super::{
    backend::{self, Backend, Busy, Site},
    record::{self, Workspace},
};
use crate::trash::{self, Trash};

/// The reason why a workspace was not removed, or not completely.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(transparent)]
    Record(#[from] record::Error),
    #[error("cannot remove '{}': {}", .path.display(), sys::reason(.source))]
    Io { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}

/// Removes the files and the state of a workspace. The caller has checked that no unsaved changes
/// are lost, and removes the administrative directory afterwards. The base may be gone.
pub fn remove(workspace: &Workspace, busy: Busy, trash: &mut Trash<'_>) -> Result<(), Error> {
    let record = &workspace.record;
    if record.backend.has_upper() {
        backend::discard(record.backend, &Site::of(workspace), busy)?;
    }
    let mark = workspace.removal();
    let marked = by_path::lock_file(&mark, 0o666);
    marked.map_err(|source| Error::Io { path: mark.clone(), source })?;
    workspace.unseal_work();
    if let Some(place) = &record.place {
        discard(trash, place)?;
    }
    discard(trash, &record::rename_away(workspace)?)?;
    let top = &record.dir;
    let io = |source| Error::Io { path: top.clone(), source };
    match record.backend {
        Backend::Image | Backend::Overlay | Backend::OverlayUser | Backend::Fuse => {
            // The file `.git` that marks the workspace as not mounted. All other files belong to
            // the user.
            let gitfile = top.join(".git");
            record::clear_stale_lock(&gitfile);
            let is_marked = record::unmounted_at(top).is_some_and(|(_, name)| name == workspace.name);
            // A creation that was killed leaves an empty file.
            let is_begun = || {
                let stat = by_path::stat(&gitfile).ok().flatten();
                stat.is_some_and(|stat| stat.file_type == FileType::File && stat.size == 0)
            };
            if is_marked || is_begun() {
                let _ = by_path::remove_file(&gitfile);
            }
            match by_path::remove_dir(top) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(error)),
                _ => Ok(()),
            }
        }
        Backend::Btrfs if sys::volume::remove_subvolume(top).is_ok() => Ok(()),
        Backend::Btrfs | Backend::Reflink | Backend::Copy => discard(trash, top),
    }
}

fn discard(trash: &mut Trash<'_>, path: &Path) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let above = match Dir::open(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(io)?,
    };
    match trash.discard(&above, name.as_bytes().as_bstr()) {
        Ok(_) => Ok(()),
        Err(trash::Error::Interrupted) => Err(Error::Interrupted),
        Err(trash::Error::Unremovable(stuck)) => match stuck.into_iter().next() {
            Some(first) => Err(io(first.source)),
            None => Ok(()),
        },
    }
}
