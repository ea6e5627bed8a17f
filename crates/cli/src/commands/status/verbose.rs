//! `-v` in the long format: the patches.
//!
//! Git creates these patches inside its `status`. `git diff` combines the sides of a conflict, and
//! `git diff-files` ignores settings for people, so their output differs. sapwood therefore runs
//! the real Git's `status` as a whole.

use std::os::unix::process::ExitStatusExt as _;

use crate::{
    session::{invocation::Invocation, real_git},
    term::{console, failure::Failure, text::os_str},
};

/// Runs the same command with the real Git. Returns its exit code.
pub(super) fn by_git(run: &Invocation) -> Result<u8, Failure> {
    let Some(mut git) = real_git::command(run) else {
        return Err(Failure::fatal("status -v needs a git, and there is none"));
    };
    git.arg("status").args(run.args.iter().map(|arg| os_str(arg)));
    console::flush();
    let status = git.status().map_err(|error| Failure::fatal(format!("cannot run git status: {error}")))?;
    let signal = || 128 + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
}
