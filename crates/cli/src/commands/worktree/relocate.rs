//! `worktree move`.
//!
//! Order: all checks; the rename; the two links. If the links cannot be written, `worktree repair`
//! fixes them, as in Git.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use bstr::{BString, ByteSlice as _};
use engine::guard;
use sys::by_path;

use super::context::{Given, Request, WorktreeContext, is_directory, lock_reason, refuse_submodules};
use crate::{
    commands::workspace,
    term::{console::text, failure::Failure},
};

/// Runs the command.
pub(super) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let [arg, to] = args else { return Err(context.misused()) };
    let force = request.force;
    let worktrees = context.repo.worktrees()?;
    let worktree = context.find(&worktrees, arg.as_bstr())?;
    let Some(id) = &worktree.id else {
        return Err(Failure::Fatal(text!("'", arg, "' is a main working tree")));
    };
    let mut to = context.given(to.as_bstr())?;
    if is_directory(&to.path) {
        let name = worktree.path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let shown = text!(to.shown.trim_end_with(|letter| letter == '/'), "/", name);
        to = Given { path: to.path.join(sys::os_str(name)), shown };
    }
    context.check_candidate(&to, force, &worktrees, "move")?;
    refuse_submodules(context, &worktree)?;
    let reason = if force < 2 { lock_reason(&worktree)? } else { None };
    match reason {
        Some(reason) if reason.is_empty() => {
            return Err(Failure::fatal(
                "cannot move a locked working tree;\nuse 'move -f -f' to override or unlock first",
            ));
        }
        Some(reason) => {
            return Err(Failure::Fatal(text!(
                "cannot move a locked working tree, lock reason: ",
                reason,
                "\nuse 'move -f -f' to override or unlock first"
            )));
        }
        None => {}
    }
    if let Some(workspace) = context.workspace(&worktree)? {
        let place = by_path::realpath_forgiving(&to.path);
        workspace::relocate::relocate(context, &workspace, &place)?;
        return Ok(0);
    }
    context
        .validate(&worktree, false)
        .map_err(|wrong| Failure::Fatal(text!("validation failed, cannot move working tree: ", wrong)))?;
    let linker = context.linker(request.relative)?;
    guard::check_removal(context.repo, &worktree.path)?;
    // Resolve the path before the rename: it may lead through the directory that moves.
    let place = by_path::realpath_forgiving(&to.path);
    by_path::rename(&worktree.path, &place).map_err(|error| {
        let from = worktree.path.as_os_str().as_bytes();
        let reason = crate::term::text::os_error(&error);
        Failure::Fatal(text!("failed to move '", from, "' to '", to.shown, "': ", reason))
    })?;
    if place != worktree.path {
        linker.link(&place, &context.common.join("worktrees").join(id))?;
    }
    Ok(0)
}
