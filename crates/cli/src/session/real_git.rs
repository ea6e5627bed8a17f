//! Running the real Git for what Git itself does by running another of its commands.

use std::process::Command;

use bstr::BStr;

use crate::{
    git::{Find, RealGit},
    session::invocation::Invocation,
};

/// The real Git, with the environment and the settings of this run. `None`: there is none.
pub(crate) fn command(run: &Invocation) -> Option<Command> {
    let mut command = find(run)?.command(&run.env);
    command.current_dir(&run.cwd);
    let before = run.variable("GIT_CONFIG_PARAMETERS").map(BStr::new);
    if let Some(parameters) = repo::config_parameters(before, &run.config) {
        command.env("GIT_CONFIG_PARAMETERS", parameters);
    }
    Some(command)
}

/// The Git that is not us, if there is one.
pub(crate) fn find(run: &Invocation) -> Option<RealGit> {
    Find { env: &run.env, cwd: &run.cwd }.git().ok()
}
