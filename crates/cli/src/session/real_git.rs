//! Running the real Git for tasks that Git itself delegates to another of its commands.

use std::process::Command;

use bstr::BStr;

use crate::{
    git::{Find, RealGit},
    session::invocation::Invocation,
    term::interrupt::Interrupt,
};

/// Returns a command that runs the real Git with the environment and settings of this run; `None`
/// without a real Git.
pub(crate) fn command(run: &Invocation) -> Option<Command> {
    let mut command = find(run)?.command(&run.env);
    // The caller starts it.
    Interrupt::install_now();
    command.current_dir(&run.cwd);
    let before = run.variable("GIT_CONFIG_PARAMETERS").map(BStr::new);
    if let Some(parameters) = repo::config_parameters(before, &run.config) {
        command.env("GIT_CONFIG_PARAMETERS", parameters);
    }
    Some(command)
}

/// Returns the Git that is not this program; `None` without one.
pub(crate) fn find(run: &Invocation) -> Option<RealGit> {
    Find { env: &run.env, cwd: &run.cwd }.git().ok()
}
