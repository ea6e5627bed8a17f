//! The configured file system monitor, and whether it can watch this repository.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::BString;
use engine::workspace::{
    record::{self, Workspace},
    union::Union,
};
use format::{HashKind, hash::Hasher};
use repo::{Repository, keys};
use sys::{UserPath, by_path};

use super::workspace::is_own_command;
use crate::text;

/// `core.fsmonitor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// No monitor is configured.
    None,
    /// A monitor is configured, but it cannot watch this repository.
    Unfit(Unfit),
    /// The upper layer of this workspace.
    Workspace(Box<Workspace>),
    /// The upper layer of the union that the user mounted as this worktree.
    Union(Box<Union>),
    /// A program or a shell command line, queried like a hook.
    Program(BString),
    /// Git's own daemon, at this socket.
    Daemon(PathBuf),
}

/// Why a repository cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The repository has no worktree.
    Bare,
    /// The type of the file system could not be determined.
    Error,
    /// The worktree is on a remote file system, or on one that does not report changes.
    Remote,
    /// The file system of this directory does not support sockets.
    NoSockets(PathBuf),
}

impl Unfit {
    /// Returns Git's message.
    pub fn message(&self, repo: &Repository, cwd: &Path) -> BString {
        let named = |path: &Path| path.as_os_str().as_bytes().to_owned();
        let top = || named(repo.work_tree().unwrap_or(cwd));
        match self {
            Unfit::Bare => text!("bare repository '", named(cwd), "' is incompatible with fsmonitor"),
            Unfit::Error => text!("repository '", top(), "' is incompatible with fsmonitor due to errors"),
            Unfit::Remote => text!("remote repository '", top(), "' is incompatible with fsmonitor"),
            Unfit::NoSockets(dir) => text!(
                "socket directory '",
                named(dir),
                "' is incompatible with fsmonitor due to lack of Unix sockets support"
            ),
        }
    }
}

/// Returns the configured monitor. `GIT_TEST_FSMONITOR` replaces a missing setting.
pub fn configured(repo: &Repository) -> Result<Monitor, repo::Error> {
    // A value that is not a boolean is a path.
    let program = match repo.config_as(&keys::core::FSMONITOR) {
        Ok(Some(false)) => return Ok(Monitor::None),
        Ok(Some(true)) => None,
        Ok(None) => match repo.env().bytes("GIT_TEST_FSMONITOR").filter(|value| !value.is_empty()) {
            Some(value) => Some(value.to_owned()),
            None => return Ok(Monitor::None),
        },
        Err(_) => {
            let path = repo.config_path(&keys::core::FSMONITOR)?;
            Some(path.map(|path| path.as_bytes().into()).unwrap_or_default())
        }
    };
    let Some(top) = repo.work_tree() else { return Ok(Monitor::Unfit(Unfit::Bare)) };
    match by_path::is_remote(top) {
        Ok(false) => {}
        Ok(true) if repo.config(&keys::fsmonitor::ALLOW_REMOTE)? => {}
        Ok(true) => return Ok(Monitor::Unfit(Unfit::Remote)),
        Err(_) => return Ok(Monitor::Unfit(Unfit::Error)),
    }
    if program.as_ref().is_some_and(|program| is_own_command(program.as_ref()))
        && let Ok(Some(workspace)) = record::of_git_dir(repo.common_dir(), repo.git_dir())
    {
        return Ok(Monitor::Workspace(Box::new(workspace)));
    }
    if program.as_ref().is_some_and(|program| is_own_command(program.as_ref()))
        && let Ok(Some(union)) = Union::of_git_dir(repo.git_dir())
    {
        return Ok(Monitor::Union(Box::new(union)));
    }
    match program {
        Some(program) => Ok(Monitor::Program(program)),
        None => daemon(repo, top),
    }
}

fn daemon(repo: &Repository, top: &Path) -> Result<Monitor, repo::Error> {
    let socket = socket(repo, top)?;
    let dir = socket.parent().unwrap_or(top);
    Ok(match by_path::is_remote(dir) {
        Ok(false) => Monitor::Daemon(socket),
        Ok(true) => Monitor::Unfit(Unfit::NoSockets(dir.to_owned())),
        Err(_) => Monitor::Unfit(Unfit::Error),
    })
}

/// Returns the socket of Git's daemon: in the Git directory, or where the user configured it.
pub(super) fn socket(repo: &Repository, top: &Path) -> Result<PathBuf, repo::Error> {
    let is_remote: io::Result<bool> = by_path::is_remote(repo.git_dir());
    if !matches!(is_remote, Ok(true)) {
        return Ok(repo.git_dir().join("fsmonitor--daemon.ipc"));
    }
    let mut hasher = Hasher::checksum(HashKind::Sha1);
    hasher.update(top.as_os_str().as_bytes());
    let name = hasher.finish().expect("a checksum looks for no collisions");
    let configured = repo.config_path(&keys::fsmonitor::SOCKET_DIR)?.filter(|dir| !dir.as_bytes().is_empty());
    let dir = configured.or_else(|| repo.env().path("HOME")).unwrap_or_else(|| UserPath::new(""));
    let socket = dir.with(&format!(".git-fsmonitor-{name}"));
    Ok(socket.resolve(repo.base_dir()).unwrap_or_else(|_| repo.git_dir().join("fsmonitor--daemon.ipc")))
}
