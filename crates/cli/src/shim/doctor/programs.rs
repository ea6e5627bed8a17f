//! The programs: the `git` that PATH finds, and the real Git behind the shim.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use bstr::ByteSlice as _;

use super::super::install;
use crate::{git::Find, session::invocation::Invocation};

/// Which program `git` is.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// The `git` that PATH finds first.
    pub(super) first: Option<PathBuf>,
    /// `first` is this program.
    pub(super) is_sapwood: bool,
    /// The link of `sapwood shim install`, if PATH finds another `git` first.
    pub(super) hidden: Option<PathBuf>,
    /// `SAPWOOD_SHIM`, if it is set to anything but `on`.
    pub(super) switch: Option<String>,
    /// The real Git; without one, `error` is the reason.
    pub(super) real: Option<RealGit>,
    pub(super) error: Option<String>,
}

/// The real Git.
#[derive(Debug)]
pub(super) struct RealGit {
    pub(super) path: PathBuf,
    /// `None` if the program does not run.
    pub(super) version: Option<String>,
    /// It supports the file system monitor daemon.
    pub(super) has_daemon: bool,
}

impl Programs {
    pub(super) fn find(run: &Invocation) -> Programs {
        let first = install::first_git(run);
        let is_sapwood = first.as_deref().is_some_and(install::is_this_program);
        let installed = install::default_place(run).map(|dir| dir.join("git"));
        let switch = run.variable("SAPWOOD_SHIM").filter(|value| !matches!(*value, b"" | b"on"));
        let found = Find { env: &run.env, cwd: &run.cwd }.git();
        let error = found.as_ref().err().map(ToString::to_string);
        let real = found.ok().map(|git| {
            let mut command = git.command(&run.env);
            command.args(["version", "--build-options"]).stdin(Stdio::null()).stderr(Stdio::null());
            let output = command.output().ok().filter(|output| output.status.success());
            let output = output.map(|output| output.stdout.to_str_lossy().into_owned()).unwrap_or_default();
            RealGit {
                version: version(&output),
                has_daemon: output.lines().any(|line| line.trim() == "feature: fsmonitor--daemon"),
                path: git.path,
            }
        });
        Programs {
            hidden: installed.filter(|link| !is_sapwood && install::is_this_program(link)),
            switch: switch.map(|value| value.to_str_lossy().into_owned()),
            first,
            is_sapwood,
            real,
            error,
        }
    }
}

/// Extracts the version from `git version 2.55.0`.
fn version(output: &str) -> Option<String> {
    Some(output.lines().next()?.strip_prefix("git version ")?.trim().to_owned())
}

/// Returns a path as a user writes it: with `~` for the home directory.
pub(super) fn shown(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if !below.as_os_str().is_empty() => format!("~/{}", below.display()),
        _ => path.display().to_string(),
    }
}
