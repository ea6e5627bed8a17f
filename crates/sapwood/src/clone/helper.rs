//! The parts of a clone that Git's clone leaves to other commands of Git.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use engine::clone::{HelperCommand, Prepared};

use crate::{Events, Notice};

/// Runs the helper command in the new repository. Returns true if it succeeds; Git prints the
/// errors.
pub fn run_helper(events: &dyn Events, prepared: &Prepared, command: HelperCommand) -> bool {
    let Some(mut git) = git_in(events, prepared.git_dir(), prepared.work_tree()) else { return false };
    match command {
        HelperCommand::Repack => git.args(["repack", "-a", "-d"]).stdin(Stdio::null()),
        HelperCommand::Sparse => git.args(["sparse-checkout", "set"]),
    };
    let done = git.status().is_ok_and(|status| status.success());
    if command == HelperCommand::Sparse && !done {
        events.notice(Notice::FetchError("failed to initialize sparse-checkout".into()));
    }
    done
}

/// Returns a command of the real Git in a repository, if there is a Git.
pub fn git_in(events: &dyn Events, git_dir: &Path, work_tree: Option<&Path>) -> Option<Command> {
    let mut git = events.git()?;
    git.env("GIT_DIR", git_dir).env_remove("GIT_WORK_TREE");
    if let Some(work_tree) = work_tree {
        git.current_dir(work_tree).env("GIT_WORK_TREE", ".");
    }
    events.before_program();
    Some(git)
}
