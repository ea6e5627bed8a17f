//! `workspace mount` and `workspace unmount`. See [`mount`] and [`unmount`].

use std::os::unix::ffi::OsStrExt as _;

use bstr::BString;
use engine::workspace::{
    backend::Mounted,
    record::{Activity, Workspace},
};
use sapwood::workspace::{mount, unmount};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    mounts,
    request::{DIR, MOUNT, Request, UNMOUNT},
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
    each(run, args, &MOUNT, "mounted", |context, workspace| {
        mount::mount(&context.worktree_context(), &context.settings, workspace)?;
        Ok(())
    })
}

/// Runs `unmount`. Returns its exit code: 1 if a workspace could not be unmounted.
pub(super) fn unmount_each(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &UNMOUNT, "unmounted", |context, workspace| {
        Ok(unmount::unmount(&context.worktree_context(), workspace)?)
    })
}

/// The exit code of `dir` for a workspace whose files only some processes see.
const HIDDEN: u8 = 3;

/// Runs `dir`: prints the directory of a workspace, and mounts it if necessary.
pub(super) fn print_dir(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let names = DIR.parse(args)?.store(&mut Request::default())?;
    let [name] = names.as_slice() else { return Err(Failure::fatal("name one workspace")) };
    let context = Context::open(run)?;
    let workspace = context.find(name.as_ref())?;
    workspace.refuse_begun()?;
    let has_upper = workspace.record.backend.has_upper();
    if has_upper && mounts::state(&workspace)? == Mounted::No {
        mount::mount(&context.worktree_context(), &context.settings, &workspace)?;
    }
    if has_upper && mounts::state(&workspace)? != Mounted::Here {
        mounts::tell_visibility(&workspace);
        return Ok(HIDDEN);
    }
    console::out(workspace.record.dir.as_os_str().as_bytes());
    Ok(0)
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
    let mut code = 0;
    let mut report = Vec::new();
    for workspace in context.chosen(&names, request.all)? {
        let is_left = request.all
            && matches!(
                workspace.record.activity,
                Activity::Frozen | Activity::Begun(_) | Activity::Check(_)
            );
        if is_left || !workspace.record.backend.has_upper() {
            continue;
        }
        let name = workspace.name.as_bytes();
        match act(&context, &workspace) {
            Ok(()) if request.json => {
                report.push(json!({"name": workspace.name.to_string_lossy(), done: true}))
            }
            Ok(()) if request.quiet => {}
            Ok(()) => {
                console::eprint_line(text!("Workspace '", name, "' is ", done));
                if mounts::state(&workspace).is_ok_and(|state| state != Mounted::No) {
                    mounts::tell_visibility(&workspace);
                }
            }
            Err(failure) => {
                failure.print();
                code = 1;
                report.push(json!({"name": workspace.name.to_string_lossy(), done: false}));
            }
        }
    }
    if request.json {
        context::print_document(Value::from(report));
    }
    Ok(code)
}
