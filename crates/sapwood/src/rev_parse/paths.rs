//! Paths and properties of the repository, in Git's formats.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sys::{by_path, os_str};

use super::{PathFormat, Query};
use crate::text;

/// Files in the Git directory that variables and settings can move.
const MOVABLE: &[&str] = &["index", "objects", "hooks", "info/grafts", "config", "shallow"];

/// The paths of a repository.
pub(super) struct Paths<'a> {
    repo: &'a Repository,
    pub(super) format: PathFormat,
}

impl<'a> Paths<'a> {
    pub(super) fn new(repo: &'a Repository) -> Paths<'a> {
        Paths { repo, format: PathFormat::Own }
    }

    /// Returns the answer; `None` leaves the question to the real Git.
    pub(super) fn evaluate(&self, query: Query) -> Option<BString> {
        let truth = |truth: bool| BString::from(if truth { "true" } else { "false" });
        let is_inside = |dir: &Path| {
            by_path::realpath_forgiving(self.repo.cwd()).starts_with(by_path::realpath_forgiving(dir))
        };
        let prefix = self.repo.prefix();
        Some(match query {
            Query::GitDir | Query::AbsoluteGitDir => self.git_dir(query == Query::AbsoluteGitDir),
            Query::CommonDir => self.shared(bytes(self.repo.display_common_dir())),
            Query::TopLevel => self.printed(bytes(self.repo.work_tree()?)),
            Query::Prefix => prefix.to_owned(),
            Query::CdUp => match self.repo.work_tree()? {
                top if is_inside(top) => "../".repeat(prefix.find_iter("/").count()).into(),
                top => bytes(top).into(),
            },
            Query::IsInsideGitDir => truth(is_inside(self.repo.git_dir())),
            Query::IsInsideWorkTree => truth(self.repo.work_tree().is_some_and(is_inside)),
            Query::IsBare => truth(self.repo.is_bare()),
            Query::IsShallow => {
                truth(matches!(by_path::stat_followed(&self.repo.common_dir().join("shallow")), Ok(Some(_))))
            }
            Query::ObjectFormat => self.repo.hash().name().into(),
            // sapwood opens no other format.
            Query::RefFormat => "files".into(),
        })
    }

    /// Returns the path of a file in the Git directory; `None` for a file that may be in another
    /// directory.
    pub(super) fn git_path(&self, path: &BStr) -> Option<BString> {
        let is_movable = |name: &&str| path.starts_with(name.as_bytes());
        if self.repo.git_dir() != self.repo.common_dir() || MOVABLE.iter().any(is_movable) {
            return None;
        }
        let path = text!(bytes(self.exported()), "/", path);
        (!path.contains_str("//")).then(|| self.shared(path.strip_prefix(b"./").unwrap_or(&path)))
    }

    /// Returns the Git directory in Git's form: relative to Git's working directory.
    fn exported(&self) -> &Path {
        self.repo.exported_git_dir().unwrap_or(Path::new(".git"))
    }

    fn git_dir(&self, absolute: bool) -> BString {
        let exported = self.repo.exported_git_dir();
        if absolute {
            return bytes(&self.real(bytes(self.exported()))).into();
        }
        match exported {
            Some(dir) => self.printed(bytes(dir)),
            None if self.repo.prefix().is_empty() => self.printed(b".git"),
            None if self.format == PathFormat::Relative => self.relative(&self.base().join(".git")),
            None => bytes(&self.real(b".git")).into(),
        }
    }

    /// Returns Git's working directory.
    fn base(&self) -> &Path {
        self.repo.child_dir()
    }

    fn real(&self, path: &[u8]) -> PathBuf {
        by_path::realpath_forgiving(&self.base().join(os_str(path)))
    }

    /// Formats a path that is printed unchanged by default.
    fn printed(&self, path: &[u8]) -> BString {
        match self.format {
            PathFormat::Own => path.into(),
            PathFormat::Canonical => bytes(&self.real(path)).into(),
            PathFormat::Relative => self.relative(Path::new(os_str(path))),
        }
    }

    /// Formats a path that is by default printed relative to the current directory, if both are
    /// relative.
    fn shared(&self, path: &[u8]) -> BString {
        match self.format {
            PathFormat::Own => relative_path(path, self.repo.prefix()),
            PathFormat::Canonical => bytes(&self.real(path)).into(),
            PathFormat::Relative => self.relative(Path::new(os_str(path))),
        }
    }

    fn relative(&self, path: &Path) -> BString {
        let path = if path.is_absolute() { path.to_owned() } else { self.real(bytes(path)) };
        let from = if self.repo.prefix().is_empty() {
            self.base().to_owned()
        } else {
            self.real(self.repo.prefix())
        };
        relative_path(bytes(&path), bytes(&from))
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns `path` relative to `from`, as Git does: `./` for the same directory, and `path` itself
/// if `from` is empty or only one of them is absolute.
fn relative_path(path: &[u8], from: &[u8]) -> BString {
    if path.is_empty() {
        return "./".into();
    }
    if from.is_empty() || path.starts_with(b"/") != from.starts_with(b"/") {
        return path.into();
    }
    let parts = |text: &[u8]| -> Vec<BString> {
        text.split_str("/").filter(|part| !part.is_empty()).map(BString::from).collect()
    };
    let (to, base) = (parts(path), parts(from));
    let common = to.iter().zip(&base).take_while(|(one, other)| one == other).count();
    if path.starts_with(b"/") && common == 0 && !base.is_empty() {
        let up = "../".repeat(base.len());
        return text!(up, bstr::join("/", &to));
    }
    let up = "../".repeat(base.len() - common);
    let down = bstr::join("/", &to[common..]);
    match (up.is_empty(), down.is_empty()) {
        (true, true) => "./".into(),
        _ => text!(up, down),
    }
}
