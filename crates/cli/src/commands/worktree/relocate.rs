//! `worktree move`. See [`sapwood::worktree::relocate`].

use bstr::{BString, ByteSlice as _};
use sapwood::{workspace::relocate::relocate, worktree::relocate::Relocation};

use super::context::{Request, WorktreeContext};
use crate::term::failure::Failure;

/// Runs the command.
pub(super) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let [arg, to] = args else { return Err(context.misused()) };
    let all = context.repo.worktrees()?;
    let worktree = context.find(&all, arg.as_bstr())?;
    let relocation = Relocation::of(worktree.clone(), arg.as_bstr(), request.force)?;
    let relocation = relocation.to(context.given(to.as_bstr())?);
    relocation.claim(context, &all)?;
    relocation.check(context)?;
    match context.workspace(&worktree)? {
        Some(workspace) => relocate(context, &workspace, &relocation.place()).map(drop)?,
        None => relocation.run(context, request.relative).map(drop)?,
    }
    Ok(0)
}
