//! The settings by which Git asks an upper layer for the changes of a workspace.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BString, ByteSlice as _};
use format::config::Edit;
use repo::keys;

use crate::{Error, settings::Settings};

/// The kind of the mount, as far as Git's monitor settings depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// A local file system.
    No,
    /// Git treats every FUSE file system as remote, with changes that no monitor reports.
    Fuse,
}

/// Returns the settings of a worktree whose monitor is an upper layer. Git asks `program`.
pub fn monitor_settings(program: &Path, remote: Remote) -> Vec<Edit> {
    let set = |key: &str, value: BString| Edit::Set { key: key.into(), value };
    let mut edits = vec![
        set(keys::core::FSMONITOR.name(), monitor_command(program)),
        set(keys::core::FSMONITOR_HOOK_VERSION.name(), "2".into()),
        set(keys::core::UNTRACKED_CACHE.name(), "true".into()),
    ];
    if remote == Remote::Fuse {
        edits.push(set(keys::fsmonitor::ALLOW_REMOTE.name(), "true".into()));
    }
    edits
}

/// Writes the [`monitor_settings`] into the configuration of one worktree, which
/// [`crate::worktree_config::begin`] has enabled. `git_dir` is its Git directory.
pub fn configure(git_dir: &Path, settings: &Settings, program: &Path, remote: Remote) -> Result<(), Error> {
    let (file, edits) = (git_dir.join("config.worktree"), monitor_settings(program, remote));
    Ok(store::config::edit(&file, &edits, &settings.config_locks, &settings.fsync)?)
}

/// Returns the command line for `core.fsmonitor`, quoted for the shell.
fn monitor_command(program: &Path) -> BString {
    let quoted = quote(program.as_os_str());
    [quoted.as_bytes(), b" ", MONITOR_COMMAND].concat().into()
}

/// The words after the program's path in `core.fsmonitor`.
const MONITOR_COMMAND: &[u8] = b"workspace changes";

/// Quotes a word for the shell.
pub fn quote(word: &OsStr) -> BString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    let bytes = word.as_bytes();
    if bytes.iter().all(plain) {
        bytes.into()
    } else {
        [b"'", bytes.replace("'", "'\\''").as_slice(), b"'"].concat().into()
    }
}
