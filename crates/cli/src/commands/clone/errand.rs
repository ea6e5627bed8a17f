//! The parts of a clone that Git's clone leaves to other commands of Git: sapwood runs the real Git
//! for them.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Stdio},
};

use engine::clone::{Cloned, HelperCommand, Prepared};

use super::Submodules;
use crate::{
    session::{invocation::Invocation, real_git},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the helper command in the new repository. Returns true if it succeeds; Git prints the
/// errors.
pub(super) fn run(run: &Invocation, prepared: &Prepared, errand: HelperCommand) -> bool {
    let Some(mut git) = here(run, prepared.git_dir(), prepared.work_tree()) else { return false };
    match errand {
        HelperCommand::Repack => git.args(["repack", "-a", "-d"]).stdin(Stdio::null()),
        HelperCommand::Sparse => git.args(["sparse-checkout", "set"]),
    };
    let done = git.status().is_ok_and(|status| status.success());
    if errand == HelperCommand::Sparse && !done {
        console::error("failed to initialize sparse-checkout");
    }
    done
}

/// Clones the submodules of a clone whose worktree is filled. Returns Git's exit code.
pub(super) fn submodules(run: &Invocation, cloned: &Cloned, how: &Submodules) -> Result<u8, Failure> {
    let Some(mut git) = here(run, &cloned.git_dir, cloned.work_tree.as_deref()) else {
        return Err(Failure::fatal("submodules need a git, and there is none"));
    };
    git.args(["submodule", "update", "--require-init", "--recursive"]);
    if how.shallow {
        git.arg("--depth=1");
    }
    if let Some(jobs) = &how.jobs {
        git.arg(sys::os_str(&text!("--jobs=", jobs)));
    }
    if how.progress {
        git.arg("--progress");
    }
    if how.quiet {
        git.arg("--quiet");
    }
    if how.remote {
        git.args(["--remote", "--no-fetch"]);
    }
    if let Some(format) = how.ref_format {
        git.arg(format!("--ref-format={format}"));
    }
    if let Some(filter) = &how.filter {
        git.arg(sys::os_str(&text!("--filter=", filter)));
    }
    git.arg(if how.single_branch { "--single-branch" } else { "--no-single-branch" });
    let status =
        git.status().map_err(|error| Failure::fatal(format!("cannot run git submodule: {error}")))?;
    let signal = || 128 + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
}

/// The real Git in a repository.
fn here(run: &Invocation, git_dir: &Path, work_tree: Option<&Path>) -> Option<Command> {
    let mut git = real_git::command(run)?;
    git.env("GIT_DIR", git_dir).env_remove("GIT_WORK_TREE");
    if let Some(work_tree) = work_tree {
        git.current_dir(work_tree).env("GIT_WORK_TREE", ".");
    }
    console::flush();
    Some(git)
}
