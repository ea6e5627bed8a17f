//! Processes in the namespace of a workspace, and the one that keeps it alive. See
//! [`sapwood::workspace::mounts`].

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::BString;
use engine::workspace::{
    backend::{Backend, holder},
    record::{self, Durability, Workspace},
};
pub(super) use sapwood::workspace::mounts::*;

use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        process,
        text::os_str,
    },
};

/// Tells the user how to see the files of a workspace that not every process sees.
pub(super) fn tell_visibility(workspace: &Workspace) {
    if workspace.record.backend == Backend::OverlayUser {
        let name = workspace.name.as_bytes();
        console::hint(text!(
            "Only processes that sapwood starts see its files: sapwood workspace enter ",
            name,
            ", or sapwood workspace exec ",
            name,
            " -- <command>"
        ));
    }
}

/// Moves this process into the namespace in which the workspace is mounted. This process must have
/// only one thread.
pub(super) fn join(workspace: &Workspace) -> Result<(), Failure> {
    let Some(site) = site(workspace) else { return Ok(()) };
    holder::join(workspace.record.backend, &site, Path::new(""))?;
    // A process in the directory would keep it from being unmounted.
    std::env::set_current_dir("/")
        .map_err(|error| Failure::fatal(format!("cannot change to the directory '/': {error}")))
}

/// Runs the holder: `workspace hold <common directory> <name> <sync>`.
pub(super) fn hold(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [common, name, sync] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    // At a system shutdown, SIGTERM ends the holder.
    process::end_by_signals();
    let workspace = record::find(Path::new(os_str(common)), os_str(name))?;
    if let Some(mut layers) = layers(&workspace)? {
        layers.durability = if sync == "always" { Durability::Synced } else { Durability::Volatile };
        holder::hold(&layers, std::io::stdout())?;
    }
    Ok(0)
}
