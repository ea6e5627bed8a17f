//! Finds workspaces by name, by Git directory and by their own directory.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use sys::{FileType, by_path};

use super::{Error, NOT_MOUNTED, ONLY_JOINED, Workspace, directory, stored::load};

/// Returns all workspaces of a repository, sorted by name. A damaged record yields an error as that
/// element.
pub fn all(common: &Path) -> Result<Vec<Result<Workspace, Error>>, Error> {
    let dir = directory(common);
    let mut names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    names.retain(|(name, _)| !name.as_bytes().starts_with(b"."));
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names.into_iter().filter_map(|(name, _)| load(common, &name).transpose()).collect())
}

/// Returns the workspace with this name.
pub fn find(common: &Path, name: &OsStr) -> Result<Workspace, Error> {
    load(common, name)?.ok_or_else(|| Error::Missing(name.to_owned()))
}

/// Returns the workspace of a Git directory, if it is that of a linked workspace.
pub fn of_git_dir(common: &Path, git_dir: &Path) -> Result<Option<Workspace>, Error> {
    let is_linked = git_dir.parent().is_some_and(|above| above.file_name() == Some(OsStr::new("worktrees")));
    match git_dir.file_name().filter(|_| is_linked) {
        Some(name) => of_worktree(common, name),
        None => Ok(None),
    }
}

/// Returns the workspace of a worktree's administrative directory, if it is a workspace's. A sealed
/// workspace with the same name has none.
pub fn of_worktree(common: &Path, id: &OsStr) -> Result<Option<Workspace>, Error> {
    Ok(load(common, id)?.filter(|workspace| workspace.record.sealed.is_none()))
}

/// Parses the `.git` file of an unmounted workspace at `dir`. Returns the common directory and the
/// name of the workspace. The file proves nothing: its owner and [`is_at`] must agree.
pub fn unmounted_at(dir: &Path) -> Option<(PathBuf, OsString)> {
    /// A larger file is no such file.
    const LIMIT: u64 = 1 << 16;
    let gitfile = dir.join(".git");
    // Reading a FIFO would block.
    let is_file = |stat: &sys::Stat| stat.file_type == FileType::File && stat.size <= LIMIT;
    by_path::stat(&gitfile).ok().flatten().filter(is_file)?;
    let content = by_path::read(&gitfile).ok().flatten()?;
    let state = content.strip_prefix(NOT_MOUNTED)?.split_once_str("\n")?.0;
    let state = Path::new(sys::os_str(state));
    let common = state.parent()?.parent()?.parent().filter(|common| common.is_absolute())?;
    Some((common.to_owned(), state.file_name()?.to_owned()))
}

/// Returns true if the repository says that the workspace `name` lies at `dir`: its record, the
/// mark of a move that was killed, or its administrative directory, which a killed removal leaves.
pub fn is_at(common: &Path, name: &OsStr, dir: &Path) -> Result<bool, Error> {
    let is_it = |named: &Path| by_path::realpath_forgiving(named) == by_path::realpath_forgiving(dir);
    if load(common, name)?.is_some_and(|workspace| is_it(&workspace.record.dir)) {
        return Ok(true);
    }
    let read = |path: &Path| by_path::read(path).ok().flatten().unwrap_or_default();
    let mark = read(&directory(common).join(name).join(MOVING));
    if mark.split(|byte| *byte == 0).any(|named| is_it(Path::new(sys::os_str(named)))) {
        return Ok(true);
    }
    // The administrative directory of a sealed workspace's name belongs to another worktree.
    if load(common, name)?.is_some_and(|workspace| workspace.record.sealed.is_some()) {
        return Ok(false);
    }
    let admin = common.join("worktrees").join(name);
    let gitdir = read(&admin.join("gitdir"));
    let gitfile = admin.join(sys::os_str(gitdir.trim_end()));
    Ok(!gitdir.is_empty() && gitfile.parent().is_some_and(is_it))
}

/// The file in the state of a workspace that names both directories while it moves: the old one, a
/// NUL, and the new one.
pub const MOVING: &str = "moving";

/// Returns true if the `.git` file of an unmounted workspace at `dir` says that only processes in
/// its own namespace see its files.
pub fn is_only_joined(dir: &Path) -> bool {
    let content = by_path::read(&dir.join(".git")).ok().flatten().unwrap_or_default();
    content.find(ONLY_JOINED).is_some()
}
