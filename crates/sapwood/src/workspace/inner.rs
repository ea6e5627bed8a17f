//! The submodules that are mounted inside a workspace.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use engine::workspace::{
    backend::{self, Busy, image},
    base::{Base, Bases, Kind},
    inner::Inner,
    record::Workspace,
};
use sys::by_path;

use super::{durable, mounts};
use crate::{Error, Notice, text, worktree::records::Worktrees};

/// Mounts the submodules of a mounted workspace. One whose directory is gone from the worktree is
/// left out, with a warning; its layers stay.
pub fn mount(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    for inner in Inner::all(workspace)? {
        if !inner.has_place(workspace) {
            worktrees.events.notice(Notice::LostSubmodule(text!(
                "'",
                workspace.name.as_bytes(),
                "' has no directory '",
                inner.path,
                "' any more; the changes in that submodule are in '",
                inner.dir.as_os_str().as_bytes(),
                "'"
            )));
            continue;
        }
        durable::restore_submodule(worktrees, workspace, &inner)?;
        let bases = Bases::trusted(&inner.base.dir, worktrees.repo.trust())?;
        mount_on(worktrees, workspace, &inner, bases.to_mount(&inner.base.name)?)?;
    }
    Ok(())
}

/// Mounts one submodule on its base.
pub fn mount_on(
    worktrees: &Worktrees<'_>,
    workspace: &Workspace,
    inner: &Inner,
    base: Base,
) -> Result<(), Error> {
    worktrees.repo.trust().check_mount_point(&inner.top(workspace))?;
    let durability = mounts::durability(worktrees.repo, workspace)?;
    let programs = mounts::programs(worktrees, workspace, durability);
    let layers = inner.layers(workspace, base, durability);
    backend::mount(workspace.record.backend, &layers, &programs)?;
    durable::harden_in_background(&layers.base, &inner.dir, worktrees.events);
    Ok(())
}

/// Unmounts the submodules of a workspace, those inside others first.
pub fn unmount(worktrees: &Worktrees<'_>, workspace: &Workspace, busy: Busy) -> Result<(), Error> {
    for inner in Inner::all(workspace)?.iter().rev() {
        let site = inner.site(workspace);
        let unmount = || backend::unmount(workspace.record.backend, &site, busy);
        mounts::after_maintenance(worktrees, unmount, |error| Some(error))?;
        if let Ok(base) = Bases::at(&inner.base.dir).get(&inner.base.name)
            && base.kind == Kind::Image
        {
            let _ = image::unmount_if_unused(&base, &workspace.record.door);
        }
    }
    Ok(())
}

/// Returns true if submodules are mounted inside the workspace.
pub fn exist(workspace: &Workspace) -> Result<bool, Error> {
    Ok(!Inner::all(workspace)?.is_empty())
}

/// Returns the repositories of submodules below an administrative directory.
pub(super) fn repositories(admin: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![admin.join("modules")];
    while let Some(dir) = left.pop() {
        let names = by_path::list(&dir).unwrap_or_default();
        let has = |name: &str| names.iter().any(|(found, _)| found == OsStr::new(name));
        if has("HEAD") && has("objects") {
            left.push(dir.join("modules"));
            found.push(dir);
        } else {
            left.extend(names.iter().map(|(name, _)| dir.join(name)));
        }
    }
    found.sort_unstable();
    found
}

/// Returns an error if the removal of a workspace would lose objects that only the repository of
/// one of its submodules has.
pub fn refuse_own_objects(admin: &Path, workspace: &Workspace) -> Result<(), Error> {
    for dir in repositories(admin) {
        let objects = by_path::list(&dir.join("objects")).unwrap_or_default();
        let is_own = |name: &OsStr| match name.as_bytes() {
            b"info" => false,
            b"pack" => by_path::list(&dir.join("objects/pack")).is_ok_and(|packs| !packs.is_empty()),
            _ => true,
        };
        if objects.iter().any(|(name, _)| is_own(name)) {
            return Err(Error::failed(text!(
                "the submodule's repository '",
                dir.as_os_str().as_bytes(),
                "' has objects that no other repository may have; push them, and use --force to remove '",
                workspace.name.as_bytes(),
                "'"
            )));
        }
    }
    Ok(())
}
