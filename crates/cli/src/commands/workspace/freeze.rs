//! `workspace freeze` and `workspace thaw`. See [`sapwood::workspace::freeze`].

use std::os::unix::ffi::OsStrExt as _;

use bstr::BString;
use sapwood::workspace::freeze::{self, Activity};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
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
    each(run, args, &FREEZE, "frozen", Activity::Frozen)
}

/// Runs `thaw`. Returns its exit code.
pub(super) fn thaw(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    each(run, args, &THAW, "thawed", Activity::Active)
}

fn each(
    run: &Invocation,
    args: &[BString],
    table: &'static Table<Set<Request>>,
    done: &str,
    activity: Activity,
) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = table.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let (mut code, mut report) = (0, Vec::new());
    for workspace in context.chosen(&names, false)? {
        let name = workspace.name.as_bytes();
        let set = freeze::set(&context.worktree_context(), &context.settings, &workspace, activity);
        match set.map_err(Failure::from) {
            Ok(_) if request.json => {
                report.push(json!({"name": workspace.name.to_string_lossy(), done: true}))
            }
            Ok(_) if request.quiet => {}
            Ok(_) => console::eprint_line(text!("Workspace '", name, "' is ", done)),
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
