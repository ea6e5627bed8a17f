//! `workspace freeze` and `workspace thaw`.
//!
//! A frozen workspace cannot be mounted and runs no process, so nothing changes it by accident.
//! `mount --all` skips it. It keeps its branch and its changes.

use std::os::unix::ffi::OsStrExt as _;

use bstr::BString;
use engine::workspace::record::{Activity, Workspace};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    mounts, rebase, relocate,
    request::{FREEZE, Request, THAW},
};
use crate::{
    session::invocation::Invocation,
    term::{
        args::{Set, Table},
        console::{self, text},
        failure::Failure,
    },
};

/// Runs `freeze`. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &FREEZE, "frozen", |context, workspace| {
        mounts::unmount(context.run, workspace)?;
        set(context, workspace, Activity::Frozen).map(drop)
    })
}

/// Runs `thaw`. Returns its exit code.
pub(super) fn thaw(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &THAW, "thawed", |context, workspace| {
        mounts::mount(context.run, &context.repo, &set(context, workspace, Activity::Active)?)
    })
}

fn set(context: &Context<'_>, workspace: &Workspace, activity: Activity) -> Result<Workspace, Failure> {
    let mut changed = workspace.clone();
    changed.record.activity = activity;
    changed.store(&context.settings.fsync)?;
    Ok(changed)
}

fn each(
    run: &Invocation,
    args: &[BString],
    table: &'static Table<Set<Request>>,
    done: &str,
    act: impl Fn(&Context<'_>, &Workspace) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = table.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let (mut code, mut report) = (0, Vec::new());
    for workspace in context.chosen(&names, false)? {
        let name = workspace.name.as_bytes();
        let lock = workspace.lock(&context.repo.trust());
        let acted = match workspace.record.backend.has_upper() {
            true => lock.map_err(Failure::from).and_then(|_lock| changed(&context, &workspace, &act)),
            false => Err(Failure::Fatal(text!(
                "the workspace '",
                name,
                "' has no upper layer; only a workspace that is mounted can be frozen"
            ))),
        };
        match acted {
            Ok(()) if request.json => {
                report.push(json!({"name": workspace.name.to_string_lossy(), done: true}))
            }
            Ok(()) if request.quiet => {}
            Ok(()) => console::eprint_line(text!("Workspace '", name, "' is ", done)),
            Err(failure) => {
                failure.print();
                code = 1;
                report.push(json!({"name": workspace.name.to_string_lossy(), done: false}));
            }
        }
    }
    if request.json {
        context::print_json(&Value::from(report));
    }
    Ok(code)
}

/// Completes a change that was killed, and acts on the workspace.
fn changed(
    context: &Context<'_>,
    workspace: &Workspace,
    act: &impl Fn(&Context<'_>, &Workspace) -> Result<(), Failure>,
) -> Result<(), Failure> {
    act(context, &relocate::recover(context, &rebase::recover(context, workspace)?)?)
}
