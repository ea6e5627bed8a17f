//! The paths of refs and reflogs, and their directories.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice};
use format::refname::{self, Levels};
use sys::{FileType, by_path};

use super::Options;

/// Returns true if Git would write a ref of this name.
pub(super) fn may_write(name: &BStr) -> bool {
    refname::check(name, Levels::One).is_ok() && (refname::is_root(name) || name.starts_with(b"refs/"))
}

/// Returns true if the name is valid for a ref, also directly in the Git directory.
pub(super) fn is_valid(name: &BStr) -> bool {
    refname::check(name, Levels::One).is_ok()
}

/// Returns true if the name stays below `refs/`, or consists of capitals and underscores.
pub(super) fn is_safe(name: &BStr) -> bool {
    refname::is_safe(name)
}

/// Returns true if a ref of this name may be removed. Refs with invalid names can be removed if
/// they are below `refs/`.
pub(super) fn may_delete(name: &BStr) -> bool {
    let safe = |component: &[u8]| !matches!(component, b"" | b"." | b"..") && !component.contains(&0);
    refname::is_root(name) || name.starts_with(b"refs/") && name.split(|&byte| byte == b'/').all(safe)
}

/// Returns the path of the loose ref.
pub(super) fn loose(options: &Options, name: &BStr) -> PathBuf {
    refname::file(&options.git_dir, &options.common_dir, name)
}

/// Returns the path of the reflog.
pub(super) fn log(options: &Options, name: &BStr) -> PathBuf {
    refname::log_file(&options.git_dir, &options.common_dir, name)
}

/// Returns the path of the packed-refs file.
pub(super) fn packed(options: &Options) -> PathBuf {
    options.common_dir.join("packed-refs")
}

/// Returns a path as it appears in messages.
pub(super) fn display_path(options: &Options, path: PathBuf) -> PathBuf {
    match path.strip_prefix(&options.common_dir) {
        Ok(below) => options.display_dir.join(below),
        Err(_) => path,
    }
}

/// Creates the directories above `path` with the repository's shared permissions. The parent of
/// each new directory is added to `changed`, to be synced. Returns `ENOTDIR` or `EEXIST` if a file
/// is in the place of a directory.
pub(super) fn create_parents(
    options: &Options,
    path: &Path,
    changed: &mut BTreeSet<PathBuf>,
) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let shared = options.locks.shared;
    match shared.create_dir(parent) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_parents(options, parent, changed)?;
            shared.create_dir(parent)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let stat = by_path::stat_followed(parent)?;
            let is_directory = stat.is_some_and(|stat| stat.file_type == FileType::Directory);
            return if is_directory { Ok(()) } else { Err(error) };
        }
        Err(error) => return Err(error),
    }
    changed.extend(parent.parent().map(Path::to_owned));
    Ok(())
}

/// Removes a directory that contains only empty directories, at any depth. Otherwise returns
/// `ENOTEMPTY`; some empty directories may be removed by then.
pub(super) fn remove_empty_tree(path: &Path) -> io::Result<()> {
    for (name, file_type) in by_path::list(path)? {
        if file_type != FileType::Directory {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        remove_empty_tree(&path.join(name))?;
    }
    by_path::remove_dir(path)
}

/// Returns true if a directory contains a file at any depth. A directory that cannot be listed
/// counts as empty.
pub(super) fn holds_files(path: &Path) -> bool {
    let is_file = |(name, file_type): &(std::ffi::OsString, FileType)| {
        *file_type != FileType::Directory || holds_files(&path.join(name))
    };
    by_path::list(path).is_ok_and(|entries| entries.iter().any(is_file))
}

/// Removes the parent directories of a ref, or of its reflog (`file_of` selects which), that are
/// now empty. Keeps `refs` and its direct subdirectories.
pub(super) fn remove_empty_parents(options: &Options, name: &BStr, file_of: fn(&Options, &BStr) -> PathBuf) {
    let mut above = name;
    while let Some(slash) = above.rfind_byte(b'/') {
        above = above[..slash].as_bstr();
        let depth = above.iter().filter(|&&byte| byte == b'/').count();
        if depth < 2 || by_path::remove_dir(&file_of(options, above)).is_err() {
            return;
        }
    }
}
