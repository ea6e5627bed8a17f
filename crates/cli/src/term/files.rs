//! Files by their paths: those that the user names, logs and traces, and files of the Git directory
//! whose presence a command must know.
//!
//! Commands take these calls from here and not from the standard library: a call that a signal
//! interrupts is repeated, a signal ends the wait for the writer of a FIFO, and `--profile` counts
//! the calls. Errors are those of the system, without a path: a command adds the name as the user
//! wrote it, as Git does.

use std::{io, path::Path};

pub(crate) use sys::{
    File,
    by_path::{
        canonical, create_dir_all, create_new, list, open, read, realpath, realpath_forgiving, remove_file,
        stat, stat_followed, uninterrupted,
    },
    read_to_end,
};

/// Opens a log or a trace for appending. Creates a missing file.
#[expect(clippy::disallowed_methods, reason = "a trace is no change")]
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    sys::changes::aside(|| sys::by_path::append(path, true, 0o666))
}

/// Returns true unless nothing is at `path`. A path that cannot be examined counts as present, and
/// so does a dangling link.
pub(crate) fn may_exist(path: &Path) -> bool {
    !matches!(stat(path), Ok(None))
}

/// Returns true if all of `paths` exist and belong to this user. Does not follow links.
pub(crate) fn are_own(paths: &[&Path]) -> bool {
    let user = sys::user::effective_uid();
    paths.iter().all(|path| matches!(stat(path), Ok(Some(stat)) if stat.uid == user))
}
