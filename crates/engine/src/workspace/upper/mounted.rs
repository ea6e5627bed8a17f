//! Checks that a worktree is the mount of its workspace: the recorded upper layer on the recorded
//! lower layers. Otherwise the upper layer does not contain the differences from the index. It does
//! not contain those below a mount inside the workspace either, so these mount points are returned.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::BString;
use sys::{Dir, Mount, by_path};

use super::{super::session, Error, Form, Layer};

/// Returns the mount points inside the workspace that this process sees: files and directories,
/// sorted, without those below another one. Returns an error if the mount is not the recorded one,
/// or if the base no longer exists. No file of the base is examined.
pub(super) fn check(layer: &Layer, worktree: &Dir) -> Result<Vec<BString>, Error> {
    let unknown = |source| Error::UnknownMount { dir: layer.dir.clone(), source };
    if let Some(record) = &layer.base_record
        && by_path::stat(record).map_err(unknown)?.is_none()
    {
        return Err(Error::BaseGone { path: record.parent().unwrap_or(record).to_owned() });
    }
    if let Some(note) = &layer.base_changed
        && let Some(dir) = by_path::read(note).map_err(unknown)?
    {
        return Err(Error::BaseChanged { dir: PathBuf::from(sys::os_str(&dir)) });
    }
    let id = sys::mount_id_of(worktree).map_err(unknown)?;
    let mounts = sys::mounts().map_err(unknown)?;
    let Some(mount) = mounts.iter().find(|mount| mount.id == id) else {
        return Err(Error::OtherMount { dir: layer.dir.clone(), what: "no mount".into() });
    };
    let other = |what: String| Error::OtherMount { dir: layer.dir.clone(), what };
    let is_of_kind = match layer.form {
        Form::Trusted | Form::User => mount.file_system == "overlay",
        Form::Fuse | Form::UnionFs => sys::is_fuse(&mount.file_system),
    };
    if !is_of_kind {
        return Err(other(format!("a file system of type '{}'", mount.file_system)));
    }
    if matches!(layer.form, Form::Fuse | Form::UnionFs) {
        // For FUSE mounts, the kernel does not report the layers.
        return Ok(inside(&mounts, mount, layer));
    }
    let has_upper = mount.has_upper(&session::outside(&layer.upper))
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
    Ok(inside(&mounts, mount, layer))
}

/// Returns the mount points inside a mount, relative to it, without the submodules that sapwood
/// mounted: their files are not those of this worktree, and the entry of a submodule is always
/// examined.
fn inside(mounts: &[Mount], mount: &Mount, layer: &Layer) -> Vec<BString> {
    let relative = |inner: &Mount| {
        let path = inner.point.strip_prefix(&mount.point).ok()?.as_os_str().as_bytes();
        // A session mounts a file `.git` of its own.
        (!path.is_empty() && path != b".git").then(|| BString::from(path))
    };
    let all = sys::mounts_on(mounts, mount.id);
    if all.is_empty() {
        return Vec::new();
    }
    let above = layer.upper.parent().map(|dir| by_path::canonical(dir).unwrap_or_else(|_| dir.to_owned()));
    let submodules = above.map(|dir| dir.join("submodules"));
    let is_submodule = |inner: &&Mount| {
        let upper = inner.upper_layer();
        upper.zip(submodules.as_ref()).is_some_and(|(upper, all)| upper.starts_with(all))
    };
    let ours: Vec<PathBuf> =
        all.iter().copied().filter(is_submodule).map(|inner| inner.point.clone()).collect();
    let is_other = |inner: &&Mount| !ours.iter().any(|point| inner.point.starts_with(point));
    let mut all: Vec<BString> = all.into_iter().filter(is_other).filter_map(relative).collect();
    all.sort_unstable();
    outermost(all)
}

/// Removes the paths that are equal to another one, or below one.
pub(super) fn outermost(sorted: Vec<BString>) -> Vec<BString> {
    let mut kept: Vec<BString> = Vec::new();
    for path in sorted {
        let is_below = |above: &BString| {
            path.strip_prefix(above.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        // `a`, `a-b` and `a/b` are sorted in this order, so the last kept path is not sufficient.
        if !kept.iter().any(is_below) {
            kept.push(path);
        }
    }
    kept
}

fn is_same(one: &Path, two: &Path) -> bool {
    let real = |path| by_path::canonical(path).ok();
    one == two || real(one).is_some_and(|one| real(two) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_only_the_outermost_paths() {
        let paths = |text: &str| text.split(' ').map(BString::from).collect::<Vec<_>>();
        assert_eq!(outermost(paths("a a a-b a/b b/c b/c/d bc")), paths("a a-b b/c bc"));
        assert_eq!(outermost(Vec::new()), Vec::<BString>::new());
    }
}
