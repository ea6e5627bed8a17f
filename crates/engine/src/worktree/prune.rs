//! Finds administrative directories whose worktree no longer exists.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use sys::{FileType, UserPath, by_path};

/// The decision about an administrative directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The directory may be removed. The reason is in Git's words.
    Prune(String),
    /// The directory stays. Contains the path of the worktree's `.git` file, which may be missing.
    /// The path is unknown for a locked directory.
    Keep(Option<PathBuf>),
}

/// The age from which a missing worktree is pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// Any age.
    Now,
    /// Worktrees whose index was last written at this time or before, in seconds since the epoch.
    At(i64),
}

/// Keeps a worktree that is unreadable because of an I/O error.
fn prune_unless_unreadable(error: &io::Error, reason: &str) -> Verdict {
    if is_missing(error) { Verdict::Prune(reason.to_owned()) } else { Verdict::Keep(None) }
}

/// Returns true if no file can exist at the path: the error is a broken link or a name that is too
/// long.
fn is_missing(error: &io::Error) -> bool {
    sys::is_symlink_refused(error) || error.kind() == io::ErrorKind::InvalidFilename
}

/// Decides about `worktrees/<id>` in `common`.
pub fn verdict(common: &Path, id: &OsStr, expire: Expire) -> Verdict {
    let dir = by_path::realpath_forgiving(&common.join("worktrees").join(id));
    let prune = |reason: &str| Verdict::Prune(reason.to_owned());
    match by_path::stat_followed(&dir) {
        Ok(Some(stat)) if stat.file_type == FileType::Directory => {}
        Ok(_) => return prune("not a valid directory"),
        Err(error) => return prune_unless_unreadable(&error, "not a valid directory"),
    }
    if !matches!(by_path::stat(&dir.join("locked")), Ok(None)) {
        return Verdict::Keep(None);
    }
    let gitdir = dir.join("gitdir");
    match by_path::stat_followed(&gitdir) {
        Ok(Some(_)) => {}
        Ok(None) => return prune("gitdir file does not exist"),
        Err(error) => return prune_unless_unreadable(&error, "gitdir file does not exist"),
    }
    let content = match by_path::read(&gitdir) {
        Ok(content) => content.unwrap_or_default(),
        Err(error) => {
            return Verdict::Prune(format!("unable to read gitdir file ({})", sys::reason(&error)));
        }
    };
    let target = content.trim_end_with(|letter| letter == '\n' || letter == '\r');
    if target.is_empty() {
        return prune("invalid gitdir file");
    }
    let target = UserPath::new(target);
    let gitfile = match (target.resolve(&dir), target.is_absolute()) {
        (Ok(gitfile), true) => gitfile,
        (Ok(gitfile), false) => by_path::realpath_forgiving(&gitfile),
        // The path could not be resolved, so the worktree may exist.
        (Err(_), _) => return Verdict::Keep(None),
    };
    match by_path::stat(&gitfile) {
        Ok(None) => {}
        Err(error) if is_missing(&error) => {}
        // The file exists, or an error prevents the check.
        Ok(Some(_)) | Err(_) => return Verdict::Keep(Some(gitfile)),
    }
    let index = by_path::stat_followed(&dir.join("index")).ok().flatten();
    let expired = match (index, expire) {
        (None, _) | (_, Expire::Now) => true,
        (Some(index), Expire::At(time)) => index.mtime.0 <= time,
    };
    if expired { prune("gitdir file points to non-existent location") } else { Verdict::Keep(Some(gitfile)) }
}
