//! The upper layer after a crash of the machine.
//!
//! overlayfs copies a file up without a sync (`volatile`). So after a crash a file that the user
//! only renamed, or to which the user appended, may have lost bytes that nobody wrote in the
//! workspace. The first mount after the crash examines the upper layer, and makes it what a plain
//! worktree would be.
//!
//! - `mark`: a file that exists while the upper layer may hold data that are not on the disk;
//! - `examine`: finds and repairs the damage;
//! - `origin`: the file of a lower layer from which a file was copied up;
//! - `compare`: the bytes of a copy that are missing, and those that the user wrote;
//! - `newer`: files of the base with newer times, which nobody wrote in the workspace;
//! - `notice`: the list for the user.
//!
//! Order: repair the newer layer; plan the repairs of the upper one; write the notice; repair;
//! sync; drop the snapshots of the monitor; remove the mark. A process that is killed in between
//! leaves the mark, and the next mount begins again.
//!
//! Design: docs/design/workspace-writes.md.

mod compare;
mod examine;
pub(super) mod mark;
mod newer;
mod notice;
mod origin;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bstr::BString;
use sys::{Dir, by_path};

pub use notice::{Damage, Finding, Notice};

use super::{
    backend::{Backend, Error, Layers},
    record::{self, Workspace},
    upper::{Form, Layer},
};
use crate::stash;

/// Repairs the upper layer if the machine stopped while the workspace was mounted. The base is
/// visible at its place, and the workspace is not mounted.
pub(super) fn recover(layers: &Layers, form: Form) -> Result<(), Error> {
    // The creation may have ended before the first mount.
    examine::restore_link(&layers.site)?;
    if !mark::is_of_crash(&layers.site)? {
        return Ok(());
    }
    let path = layers.site.upper.with_file_name("recovery.lock");
    let lock = by_path::lock_file(&path, 0o666).map_err(Error::io("lock", &path))?;
    sys::lock(&lock).map_err(Error::io("lock", &path))?;
    // Another process may have repaired it meanwhile.
    if !mark::is_of_crash(&layers.site)? {
        return Ok(());
    }
    // The upper layer is compared with it.
    let newer = layers.site.upper.with_file_name("newer");
    if layers.frozen.contains(&newer) {
        newer::restore(layers, &newer)?;
    }
    let layer = layer(layers, form);
    let since = mark::since(&layers.site.upper)?;
    let plan = examine::plan(layers, &layer, since)?;
    Notice::add(&layers.site.state, plan.findings())?;
    plan.carry_out()?;
    // A snapshot could hide a repaired file from a status.
    let snapshots = layers.site.state.join("snapshots");
    match by_path::remove_dir_all(&snapshots) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &snapshots)(error));
        }
        _ => {}
    }
    mark::settle(&layers.site)?;
    if !plan.findings().is_empty() {
        // The next mark gets a later time than the repairs.
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// The maximum granularity of file times.
const TICK: Duration = Duration::from_millis(20);

/// Returns true for a file that was not written to the disk before a crash: the file system shows
/// it empty, or with zeros. It is a text, or another file whose first byte is not zero.
pub fn is_torn(path: &Path) -> bool {
    let is_file = |stat: sys::Stat| stat.file_type == sys::FileType::File;
    if !by_path::stat(path).ok().flatten().is_some_and(is_file) {
        return false;
    }
    let mut first = [0];
    let read = by_path::open(path).and_then(|file| file.read_exact_at(&mut first, 0));
    match read {
        Ok(()) => first == [0],
        Err(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
    }
}

/// Returns the upper layer in the form in which a status lists it.
fn layer(layers: &Layers, form: Form) -> Layer {
    let files = layers.base.layers();
    Layer {
        upper: layers.site.upper.clone(),
        state: layers.site.state.clone(),
        base: layers.base.name.clone(),
        base_record: None,
        base_changed: None,
        lower: layers.frozen.iter().chain(&files).cloned().collect(),
        dir: layers.site.top.clone(),
        base_files: files,
        form,
        rules: String::new(),
    }
}

/// Makes the upper layer of a workspace durable, as it is now. Does nothing if it is durable.
pub fn sync(workspace: &Workspace) -> Result<(), Error> {
    if is_unsynced(workspace)? { mark::advance(&workspace.upper()) } else { Ok(()) }
}

/// More files than this are synced together with everything else on their file system, because each
/// of them costs a flush of the disk.
const SINGLY: usize = 32;

/// Makes these files of a workspace durable, with their names. Files that come from the base are
/// durable. Does nothing if the upper layer is durable.
pub fn sync_paths(workspace: &Workspace, mut paths: Vec<BString>) -> Result<(), Error> {
    if !is_unsynced(workspace)? {
        return Ok(());
    }
    let upper = workspace.upper();
    let root = Dir::open(&upper).map_err(Error::io("open", &upper))?;
    paths.retain(|path| matches!(root.stat(path), Ok(Some(_))));
    if paths.len() > SINGLY {
        return mark::advance(&upper);
    }
    stash::sync(&root, &paths)
        .map_err(|(path, source)| Error::io("sync", &upper.join(sys::os_str(&path)))(source))
}

/// Returns true if changes of the workspace may not be on the disk although a program synced them.
pub fn is_unsynced(workspace: &Workspace) -> Result<bool, Error> {
    Ok(has_overlay(workspace) && !mark::is_absent(&workspace.upper())?)
}

/// Returns the directory through which the files of a workspace are synced: overlayfs ignores a
/// sync of its own files. Returns `None` for a worktree whose files can be synced themselves.
pub fn place_to_sync(common: &Path, git_dir: &Path) -> Option<PathBuf> {
    let workspace = record::of_git_dir(common, git_dir).ok()??;
    has_overlay(&workspace).then(|| workspace.upper())
}

fn has_overlay(workspace: &Workspace) -> bool {
    matches!(workspace.record.backend, Backend::Image | Backend::Overlay | Backend::OverlayUser)
}
