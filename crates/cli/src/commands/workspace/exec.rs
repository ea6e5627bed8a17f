//! `workspace exec` and `workspace enter`: processes inside a workspace.

use std::{
    os::unix::{
        ffi::OsStrExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use bstr::BString;
use engine::workspace::{
    backend::holder,
    record::{self, Workspace},
    session,
};
use repo::{Repository, Trust};

use super::{
    context::{self, Context},
    mounts,
    request::{ENTER, EXEC, Request},
};
use crate::{
    commands::worktree::context::{ADD, WorktreeContext},
    session::{invocation::Invocation, reexec},
    term::{
        console::{self, text},
        failure::Failure,
        interrupt::Interrupt,
        text::os_str,
    },
};

/// Runs `exec`: replaces this process by the command.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = EXEC.parse(args)?.store(&mut request)?;
    if words.is_empty() {
        return Err(Failure::fatal("name a workspace and a command"));
    }
    let name = words.remove(0);
    if words.first().is_some_and(|word| word == "--") {
        words.remove(0);
    }
    if words.is_empty() {
        return Err(Failure::fatal("name a command"));
    }
    let context = Context::open(run)?;
    let workspace = context.find(name.as_ref())?;
    let at = place(run, &workspace, &request)?;
    become_command(run, &context.repo, &workspace, at.as_deref(), &words)
}

/// Returns the path at which the workspace is shown: `--at`, else that of its creation.
fn place(run: &Invocation, workspace: &Workspace, request: &Request) -> Result<Option<PathBuf>, Failure> {
    match &request.at {
        Some(at) => {
            workspace.refuse_sealed("--at")?;
            run.path(at).map(Some)
        }
        None => Ok(workspace.at()?),
    }
}

/// Runs `enter`: replaces this process by the user's shell.
pub(super) fn enter(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = ENTER.parse(args)?.store(&mut request)?;
    let [name] = words.as_slice() else { return Err(Failure::fatal("name one workspace")) };
    let context = Context::open(run)?;
    let shell = run.variable("SHELL").filter(|shell| !shell.is_empty()).unwrap_or(b"/bin/sh");
    let workspace = context.find(name.as_ref())?;
    let at = place(run, &workspace, &request)?;
    become_command(run, &context.repo, &workspace, at.as_deref(), &[shell.into()])
}

/// Runs this program with these arguments in the workspace, and waits for it. Returns its exit code
/// and its standard output.
pub(crate) fn output(run: &Invocation, workspace: &Workspace, args: &[BString]) -> Result<Output, Failure> {
    let program = BString::from(context::this_program()?.as_os_str().as_bytes());
    let command = [&[program], args].concat();
    let mut child = inside(run, workspace, &command)?;
    child.stderr(Stdio::inherit());
    child.output().map_err(|error| cannot_run(&command[0], &error))
}

/// Returns the process that runs a command in the workspace.
fn inside(run: &Invocation, workspace: &Workspace, command: &[BString]) -> Result<Command, Failure> {
    let mut child = Command::new(context::this_program()?);
    reexec::pass_settings(run, &mut child);
    child.current_dir(site_of(workspace)).args(["workspace", "exec"]).arg(&workspace.name).arg("--");
    child.args(command.iter().map(|word| os_str(word)));
    Interrupt::install_now();
    Ok(child)
}

/// Runs a command in the workspace and waits for it. Returns its exit code.
pub(super) fn status(run: &Invocation, workspace: &Workspace, command: &[BString]) -> Result<u8, Failure> {
    let mut child = inside(run, workspace, command)?;
    let status = child.status().map_err(|error| cannot_run(&command[0], &error))?;
    let signalled = status.signal().and_then(|signal| u8::try_from(128 + signal).ok());
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).or(signalled).unwrap_or(255))
}

/// Returns a directory from which Git finds the workspace's repository, mounted or not.
fn site_of(workspace: &Workspace) -> &Path {
    match workspace.record.sealed {
        // Its directory is another repository.
        Some(_) => workspace.state.ancestors().nth(3).unwrap_or(&workspace.state),
        None => &workspace.record.dir,
    }
}

fn become_command(
    run: &Invocation,
    repo: &Repository,
    workspace: &Workspace,
    at: Option<&Path>,
    command: &[BString],
) -> Result<u8, Failure> {
    let common = &repo.real_common_dir();
    if session::is_inside(common) {
        return Err(record::Error::InSession.into());
    }
    workspace.refuse_begun()?;
    match mounts::site(workspace) {
        Some(site) => {
            mounts::mount(&WorktreeContext::new(run, repo, &ADD), workspace)?;
            holder::join(workspace.record.backend, &site, Path::new(""))?;
        }
        None => {
            let dir = &workspace.record.dir;
            let trust = Trust::of(run.outside(), common);
            workspace.check(&trust)?;
            trust.check_mount_point(dir)?;
            std::env::set_current_dir(dir).map_err(Failure::cannot_open(dir))?;
        }
    }
    if let Some(at) = at {
        let trust = Trust::of(run.outside(), common);
        trust.check_mount_point(at)?;
        session::start(workspace, common, at)?;
    }
    console::flush();
    let (program, args) = command.split_first().expect("a command has at least one word");
    let mut next = Command::new(os_str(program));
    next.args(args.iter().map(|word| os_str(word)));
    let error = next.exec();
    Err(cannot_run(&command[0], &error))
}

fn cannot_run(command: &BString, error: &std::io::Error) -> Failure {
    let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    let reason = crate::term::text::os_error(error);
    Failure::Error(text!("cannot run '", command, "': ", reason), code)
}
