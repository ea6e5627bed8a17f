//! Which administrative directories name a worktree that is gone.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use sys::{FileType, UserPath, by_path};

/// What is to become of an administrative directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go, for this reason, in Git's words.
    Prune(String),
    /// It stays; and where the worktree's `.git` is, or was. A locked one does not say.
    Keep(Option<PathBuf>),
}

/// When a worktree that is missing is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expire {
    /// At once.
    Now,
    /// If its index was last written no later than this, seconds since the epoch.
    At(i64),
}

/// A worktree that the disk keeps from being looked at stays.
fn unless_unreadable(error: &io::Error, reason: &str) -> Verdict {
    match is_nothing(error) {
        true => Verdict::Prune(reason.to_owned()),
        false => Verdict::Keep(None),
    }
}

/// Nothing can be there: a link leads nowhere, or the name is too long.
fn is_nothing(error: &io::Error) -> bool {
    sys::is_link_in_the_way(error) || error.kind() == io::ErrorKind::InvalidFilename
}

/// Judges `worktrees/<id>` in `common`.
pub fn verdict(common: &Path, id: &OsStr, expire: Expire) -> Verdict {
    let dir = by_path::resolved(&common.join("worktrees").join(id));
    let prune = |reason: &str| Verdict::Prune(reason.to_owned());
    match by_path::stat_followed(&dir) {
        Ok(Some(stat)) if stat.file_type == FileType::Directory => {}
        Ok(_) => return prune("not a valid directory"),
        Err(error) => return unless_unreadable(&error, "not a valid directory"),
    }
    if !matches!(by_path::stat(&dir.join("locked")), Ok(None)) {
        return Verdict::Keep(None);
    }
    let gitdir = dir.join("gitdir");
    match by_path::stat_followed(&gitdir) {
        Ok(Some(_)) => {}
        Ok(None) => return prune("gitdir file does not exist"),
        Err(error) => return unless_unreadable(&error, "gitdir file does not exist"),
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
        (Ok(gitfile), false) => by_path::resolved(&gitfile),
        // It was not looked for: it may be there.
        (Err(_), _) => return Verdict::Keep(None),
    };
    match by_path::stat(&gitfile) {
        Ok(None) => {}
        Err(error) if is_nothing(&error) => {}
        // It is there, or nobody can tell.
        Ok(Some(_)) | Err(_) => return Verdict::Keep(Some(gitfile)),
    }
    let index = by_path::stat_followed(&dir.join("index")).ok().flatten();
    let expired = match (index, expire) {
        (None, _) | (_, Expire::Now) => true,
        (Some(index), Expire::At(time)) => index.mtime.0 <= time,
    };
    match expired {
        true => prune("gitdir file points to non-existent location"),
        false => Verdict::Keep(Some(gitfile)),
    }
}
