//! Checks whether a worktree contains untracked files that are not ignored: Git's `read_directory`,
//! reduced to a yes-or-no result.
//!
//! The search stops at the first such file. Nothing is changed.

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Index;
use repo::{Repository, keys};
use sys::{Dir, FileType};

use crate::look::{
    LookError,
    ignore::{self, Ignores},
};

/// Returns true if `worktree` contains an untracked file that is not ignored.
pub(crate) fn any(repo: &Repository, worktree: &Dir, index: &Index) -> Result<bool, LookError> {
    let excludes = ignore::outside(repo)?;
    let outside: Vec<&[u8]> = excludes.iter().map(Vec::as_slice).collect();
    let icase = repo.config(&keys::core::IGNORE_CASE)?;
    let ignores = Ignores::new(worktree, &outside, icase);
    Search { worktree, index, ignores }.directory("".into(), DirectoryKind::Tracked)
}

struct Search<'a> {
    worktree: &'a Dir,
    index: &'a Index,
    ignores: Ignores<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DirectoryKind {
    /// Tracked files exist below the directory.
    Tracked,
    /// No tracked files exist below the directory.
    Untracked,
}

impl Search<'_> {
    /// Returns true if `dir` or a directory below it contains an untracked file that is not
    /// ignored.
    fn directory(&mut self, dir: &BStr, kind: DirectoryKind) -> Result<bool, LookError> {
        let examine = |source| LookError::Examine { path: dir.to_owned(), source };
        let listed = if dir.is_empty() {
            self.worktree.list()
        } else {
            self.worktree.open_dir(dir).and_then(|open| open.list())
        };
        let names = match listed {
            // Git warns and continues.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(false),
            listed => listed.map_err(examine)?,
        };
        if kind == DirectoryKind::Untracked
            && names.iter().any(|(name, _)| name == b".git")
            && self.is_nested(dir)
        {
            return Ok(true);
        }
        for (name, file_type) in names {
            if name.eq_ignore_ascii_case(b".git") {
                continue;
            }
            let path = if dir.is_empty() {
                BString::from(name)
            } else {
                bstr::join("/", [dir.as_bytes(), &name]).into()
            };
            let found = match file_type {
                FileType::Directory => self.subdirectory(path.as_bstr())?,
                FileType::File | FileType::Symlink => {
                    self.index.range_of(path.as_bstr()).is_empty()
                        && !self.ignores.is_ignored(path.as_bstr(), false)?
                }
                FileType::Other => false,
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn subdirectory(&mut self, path: &BStr) -> Result<bool, LookError> {
        // The path is a submodule, whose content is ignored.
        if !self.index.range_of(path).is_empty() {
            return Ok(false);
        }
        if !self.index.range_below(path).is_empty() {
            return self.directory(path, DirectoryKind::Tracked);
        }
        if self.ignores.is_ignored(path, true)? {
            Ok(false)
        } else {
            self.directory(path, DirectoryKind::Untracked)
        }
    }

    /// Returns true if a directory with a `.git` looks like a repository of its own. The repository
    /// is not opened.
    fn is_nested(&self, dir: &BStr) -> bool {
        let there = |name: &str| {
            let path = bstr::join("/", [dir.as_bytes(), name.as_bytes()]);
            self.worktree.stat(&path).ok().flatten()
        };
        match there(".git").map(|stat| stat.file_type) {
            Some(FileType::Directory) => there(".git/HEAD").is_some(),
            Some(FileType::File | FileType::Symlink) => true,
            _ => false,
        }
    }
}
