//! The settings by which Git asks an upper layer for the changes of a workspace.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use bstr::{BString, ByteSlice as _};
use format::config::Edit;

use super::context;
use crate::term::failure::Failure;

/// The kind of the mount, as far as Git's monitor settings depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    No,
    /// Git treats every FUSE file system as remote, with changes that no monitor reports.
    Fuse,
}

/// Returns the settings of a worktree whose monitor is an upper layer.
pub(super) fn monitor_settings(remote: Remote) -> Result<Vec<Edit>, Failure> {
    let set = |key: &str, value: BString| Edit::Set { key: key.into(), value };
    let mut edits = vec![
        set("core.fsmonitor", monitor_command()?),
        set("core.fsmonitorHookVersion", "2".into()),
        set("core.untrackedCache", "true".into()),
    ];
    if remote == Remote::Fuse {
        edits.push(set("fsmonitor.allowRemote", "true".into()));
    }
    Ok(edits)
}

/// Returns the command line for `core.fsmonitor`, quoted for the shell.
fn monitor_command() -> Result<BString, Failure> {
    let quoted = quote(context::this_program()?.as_os_str());
    Ok([quoted.as_bytes(), b" ", MONITOR_COMMAND].concat().into())
}

/// The words after the program's path in `core.fsmonitor`.
const MONITOR_COMMAND: &[u8] = b"workspace changes";

/// Quotes a word for the shell.
pub(super) fn quote(word: &OsStr) -> BString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    let bytes = word.as_bytes();
    match bytes.iter().all(plain) {
        true => bytes.into(),
        false => [b"'", bytes.replace("'", "'\\''").as_slice(), b"'"].concat().into(),
    }
}
