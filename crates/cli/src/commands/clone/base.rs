//! `clone --base --workspace`: the clone is bare, and the directory becomes a workspace of it.

use std::path::{Path, PathBuf};

use engine::{
    checkout::Force,
    clone::{Cloned, Worktree},
};
use sapwood::workspace::gc::{Recovered, settle};

use super::worktree;
use crate::{
    commands::workspace::{self, gc::recover_at},
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// Completes the checkout of a workspace, as in any clone that is resumed.
fn fill(within: &Invocation, admin: PathBuf, top: &Path, verbosity: i32) -> Result<u8, Failure> {
    let inside = within.in_repository(&admin)?;
    let worktree = match inside.open()?.head()? {
        repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
        repo::Head::Detached { oid } => Worktree::Detached(oid),
        repo::Head::Unborn { .. } | repo::Head::Unresolvable => Worktree::Nonexistent,
    };
    let mut rest = Cloned::unfilled(admin.clone(), top.to_owned(), worktree);
    let filled = worktree::fill(&inside, &mut rest, verbosity.min(0));
    let code = filled.map_err(|unfilled| unfilled.failure)?;
    settle(&admin)?;
    Ok(code)
}

/// Makes the workspace `top` of a clone, on its branch, or goes on with the one that a killed clone
/// was making. The clone stays after a failure, and so does its marker.
pub(super) fn make_workspace(
    run: &Invocation,
    cloned: &Cloned,
    top: &Path,
    verbosity: i32,
) -> Result<u8, Failure> {
    let quiet = verbosity < 0;
    let made = run.in_repository(&cloned.git_dir).and_then(|within| {
        if cloned.force == Force::Remnants {
            match recover_at(&within, top)? {
                Recovered::Workspace => return Ok(0),
                Recovered::Unfilled(admin) => return fill(&within, admin, top, verbosity),
                Recovered::Nothing if !super::is_free(top) => return Err(super::taken(top)),
                Recovered::Nothing => {}
            }
        }
        let repo = within.open()?;
        match repo.head()? {
            repo::Head::Branch { name, .. } => {
                let short = name.strip_prefix(b"refs/heads/").unwrap_or(&name);
                workspace::create::at(&within, top, short.into(), false, quiet)
            }
            repo::Head::Detached { oid } => {
                workspace::create::at(&within, top, oid.to_string().into(), true, quiet)
            }
            repo::Head::Unborn { .. } | repo::Head::Unresolvable => {
                console::warning("remote HEAD refers to nonexistent ref, unable to checkout");
                Ok(0)
            }
        }
    });
    made.inspect_err(|failure| {
        failure.print();
        console::warning(
            "Clone succeeded, but the workspace was not made.\n\
             Run the same command again when the cause is gone\n",
        );
    })
    .map_err(|failure| match failure {
        Failure::Signal(signal) => Failure::Signal(signal),
        said => Failure::Reported(said.code()),
    })
}
