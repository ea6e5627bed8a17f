//! The links between a worktree and a repository elsewhere. A job can write both ends that lie in
//! its directory, so only an end outside of it proves that somebody needs the other one.

use std::path::{Path, PathBuf};

use bstr::ByteSlice as _;
use sys::{FileType, by_path};

use super::{inherited, settings};

/// A larger file is no link.
const LIMIT: u64 = 1 << 16;

/// Returns the names in `.git/worktrees` of the worktrees outside of `dir` that need its
/// repository: the file `.git` there leads back, or marks a workspace that is not mounted.
pub(super) fn worktrees(dir: &Path) -> Vec<String> {
    let all = dir.join(".git/worktrees");
    if !is_directory(&all) {
        return Vec::new();
    }
    let needs = |name: &String| {
        let own = all.join(name);
        let Some(marker) = target(&own.join("gitdir"), b"") else { return false };
        let is_outside = marker.is_absolute() && !by_path::realpath_forgiving(&marker).starts_with(dir);
        let is_marker = is_outside && marker.file_name() == Some(".git".as_ref());
        is_marker
            && (target(&marker, b"not mounted: ").is_some_and(|state| state.starts_with(dir))
                || target(&marker, b"gitdir: ").is_some_and(|back| is_one(&back, &own)))
    };
    let entries = inherited::entries(&all).unwrap_or_default();
    entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).filter(needs).collect()
}

/// Returns true if the file `.git` in `dir` belongs to a repository elsewhere that knows `dir` as
/// a linked worktree or as a submodule, or if it marks a workspace that is not mounted.
pub(super) fn is_linked(dir: &Path) -> bool {
    let marker = dir.join(".git");
    let Some(git_dir) = target(&marker, b"gitdir: ") else {
        return target(&marker, b"not mounted: ").is_some_and(|elsewhere| is_outside(&elsewhere, dir));
    };
    if !is_outside(&git_dir, dir) {
        return false;
    }
    let is_worktree = target(&git_dir.join("gitdir"), b"").is_some_and(|back| is_one(&back, &marker));
    is_worktree || settings::worktree_of(&git_dir).is_some_and(|worktree| worktree == dir)
}

fn is_outside(path: &Path, dir: &Path) -> bool {
    let path = by_path::realpath_forgiving(path);
    is_directory(&path) && !path.starts_with(dir)
}

/// Returns the path that a file has after `prefix`, absolute.
fn target(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let stat = by_path::stat(file).ok()??;
    if stat.file_type != FileType::File || stat.size > LIMIT {
        return None;
    }
    let content = by_path::read(file).ok()??;
    let path = content.strip_prefix(prefix)?.lines().next()?;
    Some(file.parent()?.join(sys::os_str(path.as_bstr())))
}

fn is_one(path: &Path, other: &Path) -> bool {
    by_path::realpath_forgiving(path) == by_path::realpath_forgiving(other)
}

fn is_directory(path: &Path) -> bool {
    matches!(by_path::stat(path), Ok(Some(stat)) if stat.file_type == FileType::Directory)
}
