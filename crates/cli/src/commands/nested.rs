//! Running a command within another one, as Git runs `status` at the end of some commands: in this
//! process if it is native, and by the real Git otherwise.

use std::os::unix::process::ExitStatusExt as _;

use bstr::BString;
use repo::Repository;

use super::{
    obstacles,
    record::{Candidate, Command, Home},
};
use crate::{
    session::{invocation::Invocation, real_git},
    term::{console, failure::Failure, process, text::os_str},
};

/// Runs `command` in the original directory of this run. Returns its exit code.
pub(crate) fn run(
    run: &Invocation,
    repo: &Repository,
    command: &'static Command,
    args: &[&str],
) -> Result<u8, Failure> {
    let args: Vec<BString> = args.iter().map(|arg| BString::from(*arg)).collect();
    if is_native(run, repo, command, &args) {
        match (command.run)(run, &args) {
            Err(Failure::Unserved(_)) => {}
            done => return done,
        }
    }
    by_git(run, command.name, &args)
}

fn is_native(run: &Invocation, repo: &Repository, command: &'static Command, args: &[BString]) -> bool {
    let Ok(survey) = command.syntax.survey(args) else { return false };
    let home = Home::Repository(repo);
    let candidate = Candidate { run, command, survey: Some(&survey), args, home };
    command.line_obstacle(&survey, args).is_none()
        && obstacles::warnings(repo).is_empty()
        && candidate.reasons().next().is_none()
}

/// Runs a command of the real Git. Returns its exit code.
pub(crate) fn by_git(run: &Invocation, name: &str, args: &[BString]) -> Result<u8, Failure> {
    let Some(mut git) = real_git::command(run) else {
        return Err(Failure::fatal(format!("'{name}' needs a git here, and there is none")));
    };
    git.args(name.split(' ')).args(args.iter().map(|arg| os_str(arg)));
    console::flush();
    process::note_change();
    let status = git.status().map_err(|error| Failure::fatal(format!("cannot run git {name}: {error}")))?;
    let signal = || 128 + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
}
