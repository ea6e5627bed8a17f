//! `worktree remove`. See [`sapwood::worktree::remove`].

use bstr::BString;
use sapwood::worktree::remove::Removal;

use super::context::{Request, WorktreeContext, only};
use crate::{
    commands::workspace::remove::{Force, remove as remove_workspace},
    session::events::Terminal,
    term::{failure::Failure, progress},
};

/// Runs the command.
pub(crate) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let arg = only(context, args)?;
    let worktree = context.find(&context.repo.worktrees()?, arg)?;
    let removal = Removal::of(worktree.clone(), arg, request.force)?;
    if let Some(workspace) = context.workspace(&worktree)? {
        let force = if request.force > 0 { Force::Yes } else { Force::No };
        remove_workspace(context, &workspace, force)?;
        return Ok(0);
    }
    let files = removal.check(context)?;
    let mut terminal = Terminal::new(context.run);
    if progress::has_terminal() {
        terminal = terminal.with_progress(progress::delay(context.run.variable("GIT_PROGRESS_DELAY")));
    }
    Ok(if removal.run(&context.reporting_to(&terminal), files)? { 0 } else { 255 })
}
