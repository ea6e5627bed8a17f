//! Repairs the files by which worktrees and their administrative directories refer to each other,
//! after one of them was moved.
//!
//! [`at_path`] starts from a worktree and repairs `gitdir`. [`from_admin`] starts from the
//! administrative directory and repairs the worktree's `.git`. Findings, repaired or not, are
//! returned in order. The messages are Git's.

use std::path::{Path, PathBuf};

use bstr::ByteSlice as _;
use repo::{GitfileError, Repository, Worktree};
use sys::{FileType, UserPath, by_path};

use super::{
    Error,
    admin::{Linker, Links},
};
use crate::workspace::record;

/// A broken link between a worktree and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path of the broken file.
    pub path: PathBuf,
    /// Git's message.
    pub message: &'static str,
    /// The result of the repair.
    pub outcome: Outcome,
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Outcome {
    Mended,
    Unrepairable,
}

fn unrepairable(path: &Path, message: &'static str) -> Option<Finding> {
    Some(Finding { path: path.to_owned(), message, outcome: Outcome::Unrepairable })
}

fn mended(path: &Path, message: &'static str) -> Option<Finding> {
    Some(Finding { path: path.to_owned(), message, outcome: Outcome::Mended })
}

fn is_directory(path: &Path) -> bool {
    let stat = by_path::stat_followed(path).ok().flatten();
    stat.is_some_and(|stat| stat.file_type == FileType::Directory)
}

/// Repairs the `.git` file of a linked worktree if it does not refer to `worktrees/<id>`. The
/// `.git` file of an unmounted workspace is not changed.
pub fn from_admin(worktree: &Worktree, repo: &Repository, linker: &Linker) -> Result<Option<Finding>, Error> {
    let top = &worktree.path;
    if worktree.id.is_none() || matches!(by_path::stat(top), Ok(None)) {
        return Ok(None);
    }
    if !is_directory(top) {
        return Ok(unrepairable(top, "not a directory"));
    }
    if record::unmounted_at(top).is_some() {
        return Ok(None);
    }
    let dir = super::canonical(&worktree.git_dir)?;
    let message = match repo.read_gitfile(&top.join(".git")) {
        Err(GitfileError::NotAFile | GitfileError::IsADirectory) => {
            return Ok(unrepairable(top, ".git is not a file"));
        }
        Err(_) => ".git file broken",
        Ok(named) if named != dir => ".git file incorrect",
        Ok(_) if linker.links == Links::Relative => ".git file absolute/relative path mismatch",
        Ok(_) => return Ok(None),
    };
    linker.link(top, &dir)?;
    Ok(mended(top, message))
}

/// Repairs the `gitdir` file of the administrative directory of the worktree at `path`. `shown` is
/// the path as the user gave it.
pub fn at_path(
    path: &Path,
    shown: &Path,
    repo: &Repository,
    linker: &Linker,
) -> Result<Option<Finding>, Error> {
    if is_main(path, repo) {
        return Ok(None);
    }
    // A missing `.git` file is reported as an invalid path.
    let Ok(gitfile) = by_path::realpath(&path.join(".git")) else {
        return Ok(unrepairable(shown, "not a valid path"));
    };
    let inferred = infer(&gitfile, repo);
    let named = match (repo.read_gitfile(&gitfile), &inferred) {
        (Ok(named), _) => named,
        (Err(GitfileError::NotAFile | GitfileError::IsADirectory), _) => {
            return Ok(unrepairable(&gitfile, "unable to locate repository; .git is not a file"));
        }
        (Err(GitfileError::NotARepository), Some(inferred)) => inferred.clone(),
        (Err(GitfileError::NotARepository), None) => {
            let message = "unable to locate repository; .git file does not reference a repository";
            return Ok(unrepairable(&gitfile, message));
        }
        (Err(_), _) => return Ok(unrepairable(&gitfile, "unable to locate repository; .git file broken")),
    };
    // If both the worktree and its repository were copied, the copied worktree belongs to the
    // copied repository.
    let dir = inferred.unwrap_or(named);
    let gitdir = dir.join("gitdir");
    let message = match by_path::read(&gitdir) {
        Ok(None) | Err(_) => "gitdir unreadable",
        Ok(Some(content)) => {
            let is_absolute = content.first() == Some(&b'/');
            let old = UserPath::new(format::blank::trim_end(&content)).resolve_or_base(&dir).ok();
            let old = if is_absolute { old } else { old.as_deref().map(by_path::realpath_forgiving) };
            match (linker.links == Links::Relative) == is_absolute {
                true => "gitdir absolute/relative path mismatch",
                false if old.as_ref() != Some(&gitfile) => "gitdir incorrect",
                false => return Ok(None),
            }
        }
    };
    if dir.parent() != Some(&repo.real_common_dir().join("worktrees")) {
        return Ok(unrepairable(
            &gitfile,
            "unable to repair; .git file leads outside of this repository's worktrees",
        ));
    }
    let top = gitfile.parent().unwrap_or(Path::new("/"));
    linker.link(top, &dir)?;
    Ok(mended(&gitdir, message))
}

fn is_main(path: &Path, repo: &Repository) -> bool {
    let stripped = |path: &Path| {
        let real = by_path::realpath_forgiving(path);
        if real.ends_with(".git") { real.parent().map(Path::to_owned).unwrap_or(real) } else { real }
    };
    stripped(path) == stripped(repo.common_dir())
}

/// Returns the administrative directory in this repository whose name is the last component of the
/// path in a `.git` file.
fn infer(gitfile: &Path, repo: &Repository) -> Option<PathBuf> {
    let content = by_path::read(gitfile).ok().flatten()?;
    if !content.starts_with(b"gitdir:") {
        return None;
    }
    let slash = content.rfind_byte(b'/')?;
    let id = format::blank::trim(&content[slash + 1..]);
    let dir = repo.common_dir().join("worktrees").join(sys::os_str(id));
    (!id.is_empty() && is_directory(&dir)).then(|| by_path::realpath_forgiving(&dir))
}
