//! sapwood as `git`, first on PATH, compared with Git: output, exit codes and repositories are
//! equal, and the log names the program that ran.

use std::{
    fs,
    os::unix::{fs::symlink, process::ExitStatusExt as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use tempfile::TempDir;
use testkit::{Repo, Run, Sandbox};

use crate::{SAPWOOD, switch::two_branches};

mod decide;
mod doctor;
mod handover;
mod install;
mod late;
mod start;

/// A directory with `bin/git`, the shim, and `run`, which calls the shim as a shell would with
/// `bin` first on PATH.
pub(crate) struct Shim(TempDir);

impl Shim {
    pub(crate) fn new() -> Shim {
        let dir = tempfile::Builder::new().prefix("shim-").tempdir().expect("a directory for tests");
        let shim = Shim(dir);
        fs::create_dir(shim.path("bin")).expect("made");
        symlink(SAPWOOD, shim.path("bin/git")).expect("linked");
        let script = format!(
            "#!/bin/sh\nPATH='{}':\"$PATH\" SAPWOOD_SHIM_LOG='{}'\nexport PATH SAPWOOD_SHIM_LOG\nexec git \"$@\"\n",
            shim.path("bin").display(),
            shim.path("log").display(),
        );
        let run = shim.path("run");
        testkit::write_program(&run, script);
        shim
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn program(&self) -> String {
        self.path("run").into_os_string().into_string().expect("a plain name")
    }

    /// Returns a line of shell code that makes the shim the shell's `git`.
    pub(crate) fn prelude(&self) -> String {
        let (bin, log) = (self.path("bin"), self.path("log"));
        let (bin, log) = (bin.display(), log.display());
        format!("PATH='{bin}':\"$PATH\"; SAPWOOD_SHIM_LOG='{log}'; export SAPWOOD_SHIM_LOG\n")
    }

    /// Returns `git` in `repo`, with the shim first on PATH.
    pub(crate) fn command(&self, repo: &Repo<'_>) -> Command {
        let mut command = repo.command(&self.path("run"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, repo: &Repo<'_>, args: &[&str]) -> Run {
        finished(self.command(repo).args(args))
    }

    /// Returns the log lines since the last call.
    pub(crate) fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        fs::write(self.path("log"), "").expect("emptied");
        log.lines().map(str::to_owned).collect()
    }

    /// Asserts that the last log line reports a native command.
    #[track_caller]
    pub(crate) fn was_native(&self, context: &[&str]) {
        let log = self.log();
        let line = log.last().expect("a line");
        assert!(line.contains("\"outcome\":\"native\",\"reason\":null"), "{context:?}: {line}");
    }

    /// Asserts that the last log line reports a native command that ended with this code.
    #[track_caller]
    fn was_native_with(&self, context: &[&str], code: u8) {
        let log = self.log();
        let line = log.last().expect("a line");
        let expected = format!("\"outcome\":\"native\",\"reason\":null,\"code\":{code},");
        assert!(line.contains(&expected), "{context:?}: {line}");
    }

    /// Asserts that the first log line reports a handover for a reason that contains `why`.
    #[track_caller]
    pub(crate) fn was_handed_over(&self, context: &[&str], why: &str) {
        let log = self.log();
        let line = log.first().expect("a line");
        assert!(line.contains("\"outcome\":\"handed-over\""), "{context:?}: {line}");
        let reason = line.split("\"reason\":").nth(1).expect("a reason");
        assert!(reason.contains(why), "{context:?}: not '{why}': {line}");
    }
}

pub(crate) fn finished(command: &mut Command) -> Run {
    let output = command.output().expect("it can be run");
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
}

/// Creates one repository for both Git and the shim.
fn one(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    two_branches(&repo);
    repo
}

/// Runs Git and the shim in one repository that the command does not change, and compares the
/// output.
#[track_caller]
fn same(shim: &Shim, repo: &Repo<'_>, args: &[&str]) -> Run {
    let (theirs, ours) = (repo.try_git(args), shim.run(repo, args));
    assert_eq!(theirs, ours, "{args:?}: git left, shim right");
    ours
}

fn oracle_path(repo: &Repo<'_>) -> String {
    let run = finished(repo.command("sh".as_ref()).args(["-c", "printf %s \"$PATH\""]));
    run.stdout.to_string()
}
