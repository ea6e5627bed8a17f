//! The worktrees of submodules that an earlier job left, and repositories inside of a worktree.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use format::{Mode, path::Protect};
use sys::{FileType, by_path};

use super::{
    cleanup,
    directory::cannot,
    inherited::{entries, keep},
    removal::remove,
    settings,
};
use crate::Error;

const DIRECTORY: FileType = FileType::Directory;

/// Returns the paths of the submodules in the output of `ls-files --stage -z`. `skipped` bytes
/// precede the mode.
pub(super) fn gitlinks(list: &BString, skipped: usize) -> impl Iterator<Item = &BStr> {
    let links = list
        .split(|&byte| byte == 0)
        .filter(move |line| line.get(skipped..).is_some_and(|line| line.starts_with(b"160000 ")));
    links.filter_map(|line| Some(line.split_once_str("\t")?.1.as_bstr()))
}

/// Returns the directory of the submodule at `path` in the worktree `top`. `None` for a path that
/// Git would not write, which an index can hold all the same.
pub(super) fn submodule(top: &Path, path: &BStr) -> Option<PathBuf> {
    let protect = Protect { hfs: true, ntfs: true };
    format::path::verify(path, Mode::GITLINK, protect).ok()?;
    let dir = top.join(sys::os_str(path));
    (dir.starts_with(top) && dir != top).then_some(dir)
}

/// Returns true if the worktree `dir` of a submodule belongs to one of the repositories `git_dirs`,
/// and no link leads elsewhere.
pub(super) fn is_own_submodule(dir: &Path, git_dirs: &[PathBuf]) -> bool {
    if by_path::realpath_forgiving(dir) != dir {
        return false;
    }
    let link = dir.join(".git");
    let is_file = matches!(by_path::stat(&link), Ok(Some(stat)) if stat.file_type == FileType::File);
    let content = is_file.then(|| by_path::read(&link).ok().flatten()).flatten();
    let Some(target) = content.as_ref().and_then(|content| content.strip_prefix(b"gitdir: ")) else {
        return false;
    };
    let git_dir = by_path::realpath_forgiving(&dir.join(sys::os_str(target.trim_end().as_bstr())));
    let is_known = git_dirs.iter().any(|known| by_path::realpath_forgiving(known) == git_dir);
    is_known && settings::worktree_of(&git_dir).is_some_and(|worktree| worktree == dir)
}

/// Empties the directory of a submodule, unless a link leads elsewhere: `git clean` removes links.
pub(super) fn empty_submodule(dir: &Path) -> Result<(), Error> {
    if by_path::realpath_forgiving(dir) != dir {
        return Ok(());
    }
    match by_path::stat(dir).map_err(cannot("examine", dir))? {
        Some(stat) if stat.file_type == DIRECTORY => keep(dir, |_, _| false),
        _ => Ok(()),
    }
}

/// Removes each `.git` below the worktree `top`, but not its own and those in `submodules`. Git
/// does not clean one in a directory with tracked files, and a command there would obey it.
pub(super) fn remove_nested(top: &Path, submodules: &[PathBuf]) -> Result<(), Error> {
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        for (name, kind) in entries(&dir)? {
            let path = dir.join(&name);
            if name == ".git" {
                if dir != top {
                    remove(&path, kind)?;
                }
            } else if kind == DIRECTORY && !submodules.contains(&path) {
                pending.push(path);
            }
        }
    }
    Ok(())
}

/// Returns the Git directories of the submodules of the worktree `dir`.
pub(super) fn submodules(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(cleanup::git_dirs(dir)?.into_iter().skip(1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submodule_lies_below_the_worktree() {
        let dir = |path: &str| submodule(Path::new("/job"), path.into());
        assert_eq!(dir("a/b"), Some("/job/a/b".into()));
        for path in [
            "",
            "/",
            "/etc",
            "//etc",
            "a//b",
            "a/",
            ".",
            "..",
            "a/../..",
            "a/.",
            ".git",
            ".GIT/x",
            "a/.Git",
            "git~1",
            ".git ",
            ".g\u{200c}it",
            "a\\.git",
        ] {
            assert_eq!(dir(path), None, "{path}");
        }
    }

    #[test]
    fn the_submodules_of_a_list() {
        let list = "H 100644 0 0\ta\0H 160000 0 0\tb\tc\0s 160000 0 0\td\0".into();
        assert_eq!(gitlinks(&list, 2).collect::<Vec<_>>(), ["b\tc", "d"]);
    }
}
