//! Checks that a worktree is the mount of its workspace: the recorded upper layer on the recorded
//! lower layers. Otherwise the upper layer does not contain the differences from the index.

use std::path::Path;

use sys::{Dir, by_path};

use super::{Error, Form, Layer};

/// Returns an error if the mount is not the recorded one, or if the base no longer exists. No file
/// of the base is examined.
pub(super) fn check(layer: &Layer, worktree: &Dir) -> Result<(), Error> {
    let unknown = |source| Error::UnknownMount { dir: layer.dir.clone(), source };
    if let Some(record) = &layer.base_record
        && by_path::stat(record).map_err(unknown)?.is_none()
    {
        return Err(Error::BaseGone { path: record.parent().unwrap_or(record).to_owned() });
    }
    let id = sys::mount_id_of(worktree).map_err(unknown)?;
    let mounts = sys::mounts().map_err(unknown)?;
    let Some(mount) = mounts.into_iter().find(|mount| mount.id == id) else {
        return Err(Error::OtherMount { dir: layer.dir.clone(), what: "no mount".into() });
    };
    let other = |what: String| Error::OtherMount { dir: layer.dir.clone(), what };
    let is_of_kind = match layer.form {
        Form::Trusted | Form::User => mount.file_system == "overlay",
        Form::Fuse => sys::is_fuse(&mount.file_system),
    };
    if !is_of_kind {
        return Err(other(format!("a file system of type '{}'", mount.file_system)));
    }
    if layer.form == Form::Fuse {
        // For FUSE mounts, the kernel does not report the layers.
        return Ok(());
    }
    let has_upper = mount.has_upper(&layer.upper)
        || by_path::canonical(&layer.upper).is_ok_and(|real| mount.has_upper(&real));
    if !has_upper {
        return Err(other("an overlay with another upper layer".into()));
    }
    let lower = mount.lower_layers();
    let is_recorded = lower.len() == layer.lower.len()
        && lower.iter().zip(&layer.lower).all(|(mounted, recorded)| is_same(mounted, recorded));
    if !is_recorded {
        let names: Vec<String> = lower.iter().map(|path| format!("'{}'", path.display())).collect();
        return Err(other(format!("an overlay on {}", names.join(", "))));
    }
    Ok(())
}

fn is_same(one: &Path, two: &Path) -> bool {
    let real = |path| by_path::canonical(path).ok();
    one == two || real(one).is_some_and(|one| real(two) == Some(one))
}
