//! `workspace mount` and `workspace unmount`.

use std::os::unix::ffi::OsStrExt as _;

use bstr::BString;
use engine::workspace::record::{Activity, Workspace};
use serde_json::{Value, json};

use super::{
    mounts, rebase, relocate,
    request::{MOUNT, Request, UNMOUNT},
    site::{self, Site},
};
use crate::{
    session::invocation::Invocation,
    term::{
        args::{Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

/// Runs `mount`. Returns its exit code: 1 if a workspace could not be mounted.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &MOUNT, "mounted", |site, workspace| {
        let _lock = workspace.lock()?;
        mounts::mount(run, &site.common, &relocate::recover(site, &rebase::recover(site, workspace)?)?)
    })
}

/// Runs `unmount`. Returns its exit code: 1 if a workspace could not be unmounted.
pub(super) fn unmount(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &UNMOUNT, "unmounted", |_, workspace| {
        let _lock = workspace.lock()?;
        mounts::unmount(workspace)
    })
}

fn each(
    run: &Invocation,
    args: &[BString],
    table: &'static Table<Set<Request>>,
    done: &str,
    act: impl Fn(&Site<'_>, &Workspace) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = table.parse(args)?.store(&mut request)?;
    let site = Site::open(run)?;
    let mut code = 0;
    let mut report = Vec::new();
    for workspace in site.chosen(&names, request.all)? {
        let is_left = request.all && workspace.record.activity == Activity::Frozen;
        if is_left || !workspace.record.backend.has_upper() {
            continue;
        }
        let name = workspace.name.as_bytes();
        match act(&site, &workspace) {
            Ok(()) if request.json => {
                report.push(json!({"name": workspace.name.to_string_lossy(), done: true}))
            }
            Ok(()) if request.quiet => {}
            Ok(()) => console::note(text!("Workspace '", name, "' is ", done)),
            Err(failure) => {
                failure.say();
                code = 1;
                report.push(json!({"name": workspace.name.to_string_lossy(), done: false}));
            }
        }
    }
    if request.json {
        site::print_json(&Value::from(report));
    }
    Ok(code)
}
