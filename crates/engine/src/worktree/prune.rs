//! Which administrative directories name a worktree that is gone.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use sys::{FileType, by_path};

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

/// Judges `worktrees/<id>` in `common`.
pub fn verdict(common: &Path, id: &OsStr, expire: Expire) -> Verdict {
    let dir = by_path::resolved(&common.join("worktrees").join(id));
    let stat = |path: &Path| by_path::stat_followed(path).ok().flatten();
    let prune = |reason: &str| Verdict::Prune(reason.to_owned());
    if stat(&dir).is_none_or(|stat| stat.file_type != FileType::Directory) {
        return prune("not a valid directory");
    }
    if !matches!(by_path::stat(&dir.join("locked")), Ok(None)) {
        return Verdict::Keep(None);
    }
    let gitdir = dir.join("gitdir");
    if stat(&gitdir).is_none() {
        return prune("gitdir file does not exist");
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
    let target = Path::new(OsStr::from_bytes(target));
    let gitfile = match target.is_absolute() {
        true => target.to_owned(),
        false => by_path::resolved(&dir.join(target)),
    };
    if matches!(by_path::stat(&gitfile), Ok(Some(_))) {
        return Verdict::Keep(Some(gitfile));
    }
    let index = stat(&dir.join("index"));
    let expired = match (index, expire) {
        (None, _) | (_, Expire::Now) => true,
        (Some(index), Expire::At(time)) => index.mtime.0 <= time,
    };
    match expired {
        true => prune("gitdir file points to non-existent location"),
        false => Verdict::Keep(Some(gitfile)),
    }
}
