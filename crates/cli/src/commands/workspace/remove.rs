//! `workspace remove`. See [`sapwood::workspace::remove`].

use bstr::BString;
use engine::workspace::record::Workspace;
pub(crate) use sapwood::workspace::remove::Force;
use sapwood::{workspace::remove as files, worktree::records::Worktrees};
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{REMOVE, Request},
};
use crate::{session::invocation::Invocation, term::failure::Failure};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = REMOVE.parse(args)?.store(&mut request)?;
    let context = Context::open(run)?;
    let force = if request.force { Force::Yes } else { Force::No };
    let mut code = 0;
    let mut report = Vec::new();
    let worktree_context = context.worktree_context();
    for workspace in context.chosen(&names, false)? {
        match remove(&worktree_context, &workspace, force) {
            Ok(()) => report.push(removed(&workspace)),
            Err(failure) => {
                failure.print();
                code = failure.code();
            }
        }
    }
    if request.json {
        context::print_document(Value::from(report));
    }
    Ok(code)
}

/// Removes a workspace.
pub(crate) fn remove(worktrees: &Worktrees<'_>, workspace: &Workspace, force: Force) -> Result<(), Failure> {
    if files::remove(worktrees, workspace, force)? { Ok(()) } else { Err(Failure::Reported(1)) }
}

/// Returns the JSON document of a removed workspace.
fn removed(workspace: &Workspace) -> Value {
    json!({"name": workspace.name.to_string_lossy(), "removed": true})
}
