//! Running this program as a child, for parts of a command that Git runs in a child process.
//!
//! The child is called `git` if a real Git exists: the shim then serves the part, or hands it over.
//! Without a real Git the child is called `sapwood` and refuses forms that are not native.

use std::{os::unix::process::CommandExt as _, path::Path, process::Command};

use bstr::BStr;

use crate::{
    session::{invocation::Invocation, real_git, tasks},
    term::{console, failure::Failure, interrupt::Interrupt, process, text::os_error},
};

/// Returns a command that runs this program in the submodule with the worktree `dir`, as Git does.
pub(crate) fn in_submodule(run: &Invocation, dir: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(if real_git::find(run).is_some() { "git" } else { "sapwood" });
    command.env_clear().envs(&repo::submodule::submodule_env(&run.env)).current_dir(dir);
    pass_settings(run, &mut command);
    command
}

/// Passes the settings of this command line (`-c`) on to a child.
pub(crate) fn pass_settings(run: &Invocation, command: &mut Command) {
    let before = run.variable("GIT_CONFIG_PARAMETERS").map(BStr::new);
    if let Some(parameters) = repo::config_parameters(before, &run.config) {
        command.env("GIT_CONFIG_PARAMETERS", parameters);
    }
}

/// Returns a command that runs this program as `sapwood`, without the repository of this run.
pub(crate) fn as_sapwood(run: &Invocation) -> Command {
    let mut command = in_submodule(run, &run.cwd);
    command.arg0("sapwood").env_remove("GIT_DIR");
    command
}

/// Runs a command on the streams of this process and waits for it. Returns its exit code.
pub(crate) fn run(run: &Invocation, mut command: Command) -> Result<u8, Failure> {
    console::flush();
    Interrupt::install_now();
    process::note_change();
    let child = command.spawn().map_err(|error| {
        Failure::fatal(format!("cannot run {}: {}", command.get_program().display(), os_error(&error)))
    })?;
    let code = tasks::wait(child);
    run.interrupt.check()?;
    Ok(code)
}
