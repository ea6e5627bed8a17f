//! `create --recurse-submodules`: the submodules of a new workspace. See
//! [`sapwood::workspace::submodules`]. `submodule update` does the rest.

use std::process::Stdio;

use engine::workspace::{base::Bases, record::Workspace};
use sapwood::workspace::submodules::Fill;

use super::context::{self, Context};
use crate::{session::reexec, term::failure::Failure};

/// Fills the submodules of a workspace.
pub(super) fn fill(
    context: &Context<'_>,
    workspace: &Workspace,
    bases: &Bases,
    is_visible: bool,
    quiet: bool,
) -> Result<(), Failure> {
    let (worktrees, settings) = (&context.worktree_context(), &context.settings);
    Fill { worktrees, settings, workspace, bases, progress: Some(is_visible) }.run()?;
    let mut update = reexec::as_sapwood(context.run);
    update.current_dir(&workspace.record.dir).args(["workspace", "exec"]).arg(&workspace.name).arg("--");
    update.arg(context::this_program()?).args(["submodule", "update", "--init", "--recursive"]);
    if quiet {
        update.arg("--quiet");
    }
    update.stdin(Stdio::null());
    match reexec::run(context.run, update)? {
        0 => Ok(()),
        code => Err(Failure::Reported(code)),
    }
}
