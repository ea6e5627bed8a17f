//! Removal of a workspace's files and state.
//!
//! Order: unmount; ask if everything is still as it was checked; create a mark in the state;
//! remove the layers outside of the state directory;
//! rename away and remove the state with the upper layer; remove the directory. If the process is
//! killed, `workspace gc` completes the removal: it finds the mark, or an administrative directory
//! without a state.

use std::{io, path::Path, path::PathBuf};

use repo::Repository;
use sys::{FileType, by_path};

use super::{
    backend::{self, Backend, Busy, Site},
    inner::Inner,
    record::{self, Workspace},
    upper::{self, Layer, List},
};
use crate::{
    files::whole::{self, Doomed},
    guard::{self, Removable},
    trash::{self, Trash},
};

/// The reason why a workspace was not removed, or not completely.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(transparent)]
    Record(#[from] record::Error),
    #[error(transparent)]
    Guard(#[from] guard::Error),
    #[error("cannot remove '{}': {}", .path.display(), sys::reason(.source))]
    Io { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    /// Something is not as it was checked. The workspace is unmounted, and whole.
    #[error("the files were changed meanwhile")]
    Changed,
}

/// The upper layer from before a check for unsaved changes.
#[derive(Debug)]
pub struct Checked {
    layer: Layer,
    /// `None` if the layer does not exist.
    list: Option<List>,
}

impl Checked {
    /// Lists the upper layer; `None` if the workspace has none.
    pub fn before_check(workspace: &Workspace) -> Result<Option<Checked>, upper::Error> {
        Layer::of(workspace).map(Checked::list).transpose()
    }

    /// Lists the upper layer of a submodule that is mounted inside a workspace.
    pub fn submodule_before_check(
        workspace: &Workspace,
        inner: &Inner,
    ) -> Result<Option<Checked>, upper::Error> {
        Layer::of_submodule(workspace, inner).map(Checked::list).transpose()
    }

    fn list(layer: Layer) -> Result<Checked, upper::Error> {
        let list = listed(&layer)?;
        Ok(Checked { layer, list })
    }

    /// Returns true if the upper layer is still the same.
    pub fn is_still_there(&self) -> bool {
        match (listed(&self.layer), &self.list) {
            (Ok(Some(now)), Some(before)) => now.is_same_state(before),
            (Ok(None), None) => true,
            _ => false,
        }
    }
}

/// Lists the upper layer; `None` if it does not exist.
fn listed(layer: &Layer) -> Result<Option<List>, upper::Error> {
    match upper::changed_paths(layer) {
        Err(upper::Error::Unreadable { path, source })
            if source.kind() == io::ErrorKind::NotFound && path == layer.upper =>
        {
            Ok(None)
        }
        list => list.map(Some),
    }
}

/// Removes the files and the state of a workspace. The caller has checked that no unsaved changes
/// are lost, and removes the administrative directory afterwards. The base may be gone. After the
/// unmount nobody can write to the upper layer, so `is_unchanged` finds a change since the check.
pub fn remove(
    repo: &Repository,
    workspace: &Workspace,
    busy: Busy,
    is_unchanged: &dyn Fn() -> bool,
    trash: &mut Trash<'_>,
) -> Result<(), Error> {
    let record = &workspace.record;
    // Files in a directory that the workspace has not claimed belong to somebody else.
    let is_unclaimed = workspace.is_unclaimed();
    let is_in_place = !record.backend.has_upper() && !is_unclaimed;
    let in_place = is_in_place.then(|| Removable::of(repo, &record.dir)).transpose()?;
    if record.backend.has_upper() {
        backend::discard(record.backend, &Site::of(workspace), busy)?;
    }
    if !is_unchanged() {
        return Err(Error::Changed);
    }
    mark(workspace)?;
    workspace.unseal_work();
    if let Some(place) = &record.place {
        discard(trash, place)?;
    }
    discard(trash, &record::rename_away(workspace)?)?;
    let top = &record.dir;
    let io = |source| Error::Io { path: top.clone(), source };
    match in_place {
        Some(_) if record.backend == Backend::Btrfs && sys::volume::remove_subvolume(top).is_ok() => Ok(()),
        Some(tree) => discard_opened(trash, top, Doomed::worktree(tree)),
        None => {
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
                let _ = whole::remove_gitfile(top);
            }
            match whole::remove_empty(top) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(_) if is_unclaimed => Ok(()),
                removed => removed.map_err(io),
            }
        }
    }
}

/// Marks the workspace as being removed. From then on, `workspace gc` completes the removal.
fn mark(workspace: &Workspace) -> Result<(), Error> {
    let project = workspace.project().ok().flatten();
    let limit = project.and_then(|project| project.quota().ok()).map(|quota| quota.limit);
    if let Some(project) = project {
        // With a full quota no mark could be made. The number is free when the files are gone.
        let _ = project.limit_to(0);
    }
    let mark = workspace.removal();
    by_path::lock_file(&mark, 0o666).map(drop).map_err(|source| {
        if let (Some(project), Some(limit)) = (project, limit) {
            let _ = project.limit_to(limit);
        }
        Error::Io { path: mark, source }
    })
}

/// Removes a layer or another directory that sapwood has made, through the trash.
pub fn discard(trash: &mut Trash<'_>, path: &Path) -> Result<(), Error> {
    discard_opened(trash, path, Doomed::own(path))
}

fn discard_opened(trash: &mut Trash<'_>, path: &Path, opened: io::Result<Doomed>) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let doomed = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(io)?,
    };
    match trash.discard(&doomed) {
        Ok(_) => Ok(()),
        Err(trash::Error::Interrupted) => Err(Error::Interrupted),
        Err(trash::Error::Unremovable(stuck)) => match stuck.into_iter().next() {
            Some(first) => Err(io(first.source)),
            None => Ok(()),
        },
    }
}
