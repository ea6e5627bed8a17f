//! Mounts of workspaces and bases whose repository was deleted.
//!
//! `rm -rf` of a repository deletes records and upper layers, but neither the mounts of workspaces
//! nor those of base images. No record names them any more, so they are found in the mount table.
//!
//! Promise: no file of a user is deleted. A mount counts as an orphan only if the directory that
//! held its record is gone, and the disk of that directory is not just away. An upper layer that
//! lies elsewhere stays.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use sys::{FileType, Mount, by_path, mount::Unmount};

use super::{
    backend::{Door, Error, fuse},
    record,
};
use crate::files::whole;

/// A mount without a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The mount point.
    pub point: PathBuf,
    /// The mounted files.
    pub kind: Kind,
}

/// The files that an orphan shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A workspace. Its changes are in this upper layer, if that still exists.
    Workspace(Option<PathBuf>),
    /// The image of a base.
    Base,
}

/// Returns the orphans that this process sees, those that use others first.
pub fn find() -> io::Result<Vec<Orphan>> {
    let mounts = sys::mounts()?;
    let mut found: Vec<Orphan> = mounts.iter().rev().filter_map(workspace).collect();
    let is_gone = |mount: &Mount| found.iter().any(|orphan| orphan.point == mount.point);
    let used: Vec<PathBuf> =
        mounts.iter().filter(|mount| !is_gone(mount)).flat_map(Mount::lower_layers).collect();
    let is_orphan = |mount: &&Mount| is_lost_base(mount) && !used.contains(&mount.point);
    let bases = mounts.iter().rev().filter(is_orphan);
    let bases: Vec<Orphan> =
        bases.map(|mount| Orphan { point: mount.point.clone(), kind: Kind::Base }).collect();
    found.extend(bases);
    Ok(found)
}

impl Orphan {
    /// Unmounts it, and removes the empty directories that the mount kept. Processes that use a
    /// workspace keep its files until they end. `service` is the socket of the mount service.
    pub fn unmount(&self, service: &Path) -> Result<(), Error> {
        let failed = |source| Error::Io { action: "unmount", path: self.point.clone(), source };
        match sys::mount::unmount(&self.point, Unmount::Plain) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                sys::mount::unmount(&self.point, Unmount::Lazy).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match self.kind {
                Kind::Workspace(None) if is_fuse(&self.point).map_err(failed)? => {
                    fuse::unmount_as_owner(&self.point)?;
                }
                // The service detaches overlays only.
                _ => Door::Service(service.to_owned()).unmount(&self.point, Unmount::Lazy).map_err(failed)?,
            },
            // Another process has unmounted it since it was found.
            Err(error) if sys::is_missing(&error) => {}
            unmounted => unmounted.map_err(failed)?,
        }
        if let Kind::Workspace(Some(upper)) = &self.kind {
            // The changes are kept, and the mount may have ignored syncs.
            let failed = |source| Error::Io { action: "sync", path: upper.clone(), source };
            sys::mount::sync_file_system(upper).map_err(failed)?;
        }
        // Only empty directories are removed.
        match self.kind {
            Kind::Workspace(_) => {
                if record::unmounted_at(&self.point).is_some() {
                    let _ = whole::remove_gitfile(&self.point);
                }
                let _ = whole::remove_empty(&self.point);
            }
            Kind::Base => {
                // `files`, the base, `bases` and `sapwood`.
                for dir in self.point.ancestors().take(4) {
                    if by_path::remove_dir(dir).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the orphan that a mount is, if it is that of a workspace.
fn workspace(mount: &Mount) -> Option<Orphan> {
    let upper = match mount.file_system.as_str() {
        "overlay" if is_ours(mount) => Some(mount.upper_layer()?),
        // The user may have other unions.
        name if sys::is_fuse(name)
            && fuse::is_program_of_ours(mount)
            && fuse::is_served_for(&mount.point) =>
        {
            None
        }
        _ => return None,
    };
    let is_lost = match repository_of(&mount.point) {
        Some(common) => is_deleted(&common),
        // The file `.git` was in the upper layer, which is deleted.
        None => upper.as_ref().is_none_or(|upper| {
            is_absent(upper) && upper.parent().is_some_and(|state| is_absent(&state.join("record")))
        }),
    };
    let kept = upper.filter(|upper| !is_absent(upper));
    is_lost.then(|| Orphan { point: mount.point.clone(), kind: Kind::Workspace(kept) })
}

/// Returns true if a program serves the mount at `point`.
fn is_fuse(point: &Path) -> io::Result<bool> {
    Ok(sys::mount_at(point)?.is_some_and(|mount| sys::is_fuse(&mount.file_system)))
}

fn is_ours(overlay: &Mount) -> bool {
    overlay.source == *"sapwood" || overlay.source.as_bytes().starts_with(Mount::SERVED.as_bytes())
}

/// Returns the common directory that the file `.git` of a mounted workspace names.
fn repository_of(top: &Path) -> Option<PathBuf> {
    let gitfile = top.join(".git");
    by_path::stat(&gitfile).ok().flatten().filter(|stat| stat.file_type == FileType::File)?;
    let content = by_path::read(&gitfile).ok()??;
    let path = content.strip_prefix(b"gitdir: ")?.trim_end_with(|letter| letter == '\n');
    let admin = top.join(sys::os_str(path));
    Some(admin.parent()?.parent()?.to_owned())
}

/// Returns true for the mount of an image whose base was deleted.
fn is_lost_base(mount: &Mount) -> bool {
    let Some(base) = mount.point.parent() else { return false };
    let source = Path::new(&mount.source);
    mount.file_system == "erofs"
        && mount.point.file_name().is_some_and(|name| name.as_bytes() == b"files")
        // The mount service mounts a copy without a name.
        && (source.starts_with("/proc/self/fd")
            || source.file_name().is_some_and(|name| name.as_bytes() == b"image") && is_absent(source))
        && is_absent(&base.join("image"))
        && is_absent(&base.join("record"))
}

/// Returns true if a repository does not exist although the directory above its worktree does. If
/// both are missing, their disk may be away.
fn is_deleted(common: &Path) -> bool {
    let has_administration = !is_absent(&common.join("worktrees"));
    let above = common.parent().and_then(Path::parent);
    !has_administration && above.is_some_and(|above| !is_absent(above))
}

fn is_absent(path: &Path) -> bool {
    matches!(by_path::stat_followed(path), Ok(None))
}
