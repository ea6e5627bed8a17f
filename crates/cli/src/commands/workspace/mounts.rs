//! Mounting and unmounting for the subcommands, and the process that keeps a namespace alive.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::BString;
use engine::workspace::{
    backend::{self, Backend, Busy, Layers, Mounted, Programs, holder, image},
    base::Bases,
    record::{self, Activity, Workspace},
};

use super::context;
use crate::{
    session::invocation::Invocation,
    term::{console::text, failure::Failure},
};

/// Returns the layers of a workspace; `None` if it has no upper layer.
pub(super) fn layers(workspace: &Workspace) -> Result<Option<Layers>, Failure> {
    match &workspace.record.base {
        Some(base) if workspace.record.backend.has_upper() => {
            Ok(Some(Layers::of(workspace, Bases::at(&base.dir).get(&base.name)?)))
        }
        _ => Ok(None),
    }
}

/// Mounts a workspace, unless it is mounted. `common` is the common directory of all worktrees.
pub(super) fn mount(run: &Invocation, common: &Path, workspace: &Workspace) -> Result<(), Failure> {
    if workspace.record.activity == Activity::Frozen {
        let name = workspace.name.as_bytes();
        let advice = String::from_utf8_lossy(&text!("thaw it: sapwood workspace thaw ", name)).into_owned();
        return Err(Failure::Fatal(text!("the workspace '", name, "' is frozen")).advised(Some(advice)));
    }
    let Some(layers) = layers(workspace)? else { return Ok(()) };
    let programs = Programs { holder: holder(common, workspace)?, search: context::programs(run) };
    backend::mount(workspace.record.backend, &layers, &programs)?;
    Ok(())
}

/// Unmounts a workspace if it is mounted, and its base if no other workspace uses it.
pub(super) fn unmount(workspace: &Workspace) -> Result<(), Failure> {
    let Some(layers) = layers(workspace)? else { return Ok(()) };
    backend::unmount(workspace.record.backend, &layers, Busy::Refuse)?;
    release_base(workspace.record.backend, &layers);
    Ok(())
}

/// Unmounts the base of a workspace if it is unused. A failure leaves a mount, which is harmless.
pub(super) fn release_base(backend: Backend, layers: &Layers) {
    if backend == Backend::Image {
        let _ = image::unmount_if_unused(&layers.base);
    }
}

/// Returns true if something is mounted at the directory of a workspace.
pub(super) fn is_mounted_at(workspace: &Workspace) -> bool {
    !matches!(sys::mount_at(&workspace.record.dir), Ok(None))
}

/// Returns where the files of a workspace are visible.
pub(super) fn state(workspace: &Workspace) -> Result<Mounted, Failure> {
    match layers(workspace)? {
        Some(layers) => Ok(backend::state(workspace.record.backend, &layers)?),
        None => Ok(Mounted::Here),
    }
}

/// Returns the command line of the process that keeps a workspace's namespace alive.
fn holder(common: &Path, workspace: &Workspace) -> Result<holder::Program, Failure> {
    let program = this_program()?;
    let words = ["workspace", HOLD].map(OsString::from);
    let places = [common.as_os_str().to_owned(), workspace.name.clone()];
    Ok(holder::Program { program, argv0: "sapwood".into(), args: words.into_iter().chain(places).collect() })
}

/// The internal subcommand that runs the holder.
const HOLD: &str = "hold";

/// Returns the path of this program.
pub(super) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::fatal(format!("cannot find the path of this program: {error}")))
}

/// Runs the holder: `workspace hold <common directory> <name>`.
pub(super) fn hold(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [common, name] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    // At a system shutdown, SIGTERM ends the holder.
    sys::end_by_signals();
    let workspace = record::find(Path::new(sys::os_str(common)), sys::os_str(name))?;
    if let Some(layers) = layers(&workspace)? {
        holder::hold(&layers, std::io::stdout())?;
    }
    Ok(0)
}
