//! The worktrees of a repository: the main one, and those in `worktrees/` of the common directory.
//!
//! Source: git-worktree(1), "DETAILS", and gitrepository-layout(5). Nothing is changed. An
//! administrative directory without a valid `gitdir` is left out.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    keys::{self, Key},
};
use sys::{FileType, UserPath, by_path};

use crate::{
    Attempt, Error, Repository, config, disk, open,
    refs::{End, Resolved, Store, branch_name},
};

/// A worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The top of the worktree, as Git records it: the content of `gitdir`, without `/.git`.
    pub path: PathBuf,
    /// The name of its directory below `worktrees/`; `None` for the main worktree.
    pub id: Option<OsString>,
    /// Its Git directory.
    pub git_dir: PathBuf,
    /// True if the repository has no worktree. Only the main one can be bare.
    pub is_bare: bool,
    /// True if the repository was opened in this worktree.
    pub is_current: bool,
}

/// The HEAD of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeHead {
    /// The commit; null for an unborn branch, or if HEAD cannot be read.
    pub oid: ObjectId,
    /// The kind of its target.
    pub kind: WorktreeHeadKind,
}

/// The target of a worktree's HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WorktreeHeadKind {
    /// The full name of a ref.
    Branch(BString),
    Detached,
    Unreadable,
}

impl Repository {
    /// Returns all worktrees: the main one first, the others in order of the names of their
    /// directories.
    pub fn worktrees(&self) -> Result<Vec<Worktree>, Error> {
        let mut found = vec![self.main_worktree()?];
        let dir = self.common_dir().join("worktrees");
        let mut names = match by_path::list(&dir) {
            Ok(names) => names,
            Err(err) if sys::is_missing(&err) => Vec::new(),
            Err(err) => return Err(Attempt::Read.on(&dir)(err)),
        };
        names.sort_by(|a, b| a.0.cmp(&b.0));
        found.extend(names.iter().filter_map(|(name, _)| self.linked_worktree(name)));
        Ok(found)
    }

    fn main_worktree(&self) -> Result<Worktree, Error> {
        let common = self.common_dir();
        let real = by_path::canonical(common).unwrap_or_else(|_| common.to_owned());
        let path = without_suffix(&real, b"/.git");
        let is_current = self.git_dir() == common;
        // The main worktree's own settings are not loaded in another worktree.
        let bare_elsewhere = || {
            setting_of(&common.join("config.worktree"), &keys::core::BARE)
                .is_some_and(|value| value.is_true())
        };
        let is_bare = self.config(&keys::core::BARE)? == Some(true)
            || self.is_bare()
            || (!is_current && bare_elsewhere());
        Ok(Worktree { path, id: None, git_dir: common.to_owned(), is_bare, is_current })
    }

    /// Returns the worktree of an administrative directory; `None` without a valid `gitdir`.
    pub fn linked_worktree(&self, id: &OsStr) -> Option<Worktree> {
        let git_dir = self.common_dir().join("worktrees").join(id);
        let gitfile =
            by_path::read(&git_dir.join("gitdir")).ok().flatten().filter(|file| !file.is_empty())?;
        let gitfile = format::blank::trim_end(&gitfile);
        let path = UserPath::new(gitfile.strip_suffix(b"/.git").unwrap_or(gitfile));
        let is_absolute = path.is_absolute();
        let path = path.resolve_or_base(&git_dir).unwrap_or_else(|_| PathBuf::from(path.as_os_str()));
        let path = if is_absolute { path } else { by_path::realpath_forgiving(&path) };
        let is_current = self.git_dir() == git_dir;
        Some(Worktree { path, id: Some(id.to_owned()), git_dir, is_bare: false, is_current })
    }

    /// Returns the HEAD of a worktree.
    pub fn head_of(&self, worktree: &Worktree) -> WorktreeHead {
        let null = ObjectId::null(self.hash());
        let refs = self.refs_of(worktree);
        match refs.and_then(|refs| refs.resolve("HEAD".into())) {
            Ok(Resolved { last: None, end: End::Id(oid) }) => {
                WorktreeHead { oid, kind: WorktreeHeadKind::Detached }
            }
            Ok(Resolved { last: Some(name), end: End::Id(oid) }) => {
                WorktreeHead { oid, kind: WorktreeHeadKind::Branch(name) }
            }
            Ok(Resolved { last: Some(name), end: End::Dangling }) => {
                WorktreeHead { oid: null, kind: WorktreeHeadKind::Branch(name) }
            }
            Ok(_) | Err(_) => WorktreeHead { oid: null, kind: WorktreeHeadKind::Unreadable },
        }
    }

    /// Returns the refs of a worktree. With `GIT_COMMON_DIR`, other worktrees may have other refs.
    fn refs_of(&self, worktree: &Worktree) -> Result<Store, Error> {
        let git_dir = &worktree.git_dir;
        if worktree.is_current || self.refs_dir() == self.common_dir() {
            return Ok(self.refs.for_worktree(git_dir));
        }
        let common = open::common_dir_of(git_dir)?;
        Ok(Store::new(git_dir, &common, self.hash(), &common))
    }

    /// Returns the worktree that has a branch (full name) checked out, or is rebasing or bisecting
    /// it. `others` skips the current worktree.
    pub fn worktree_using(&self, branch: &BStr, others: bool) -> Result<Option<PathBuf>, Error> {
        let counts = |worktree: &Worktree| !(worktree.is_bare || others && worktree.is_current);
        let found =
            self.worktrees()?.into_iter().filter(counts).find(|found| match self.head_of(found).kind {
                WorktreeHeadKind::Branch(on) => on == branch,
                WorktreeHeadKind::Detached => is_working_on(&found.git_dir, branch),
                WorktreeHeadKind::Unreadable => false,
            });
        Ok(found.map(|worktree| worktree.path))
    }
}

/// The reason why a `.git` file does not lead to a repository, with Git's error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GitfileError {
    StatFailed = 1,
    NotAFile = 2,
    OpenFailed = 3,
    ReadFailed = 4,
    InvalidFormat = 5,
    NoPath = 6,
    NotARepository = 7,
    TooLarge = 8,
    Missing = 9,
    IsADirectory = 10,
}

/// A larger file is not a `.git` file.
const MAX_GITFILE: u64 = 1 << 20;

impl Repository {
    /// Returns the repository to which the `.git` file at `path` points, without symbolic links.
    pub fn read_gitfile(&self, path: &Path) -> Result<PathBuf, GitfileError> {
        let stat = match by_path::stat_followed(path) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Err(GitfileError::Missing),
            Err(_) => return Err(GitfileError::StatFailed),
        };
        match stat.file_type {
            FileType::Directory => return Err(GitfileError::IsADirectory),
            FileType::File if stat.size > MAX_GITFILE => return Err(GitfileError::TooLarge),
            FileType::File => {}
            _ => return Err(GitfileError::NotAFile),
        }
        let bytes = by_path::read(path).map_err(|_| GitfileError::OpenFailed)?;
        let bytes = bytes.ok_or(GitfileError::OpenFailed)?;
        let target = bytes.strip_prefix(b"gitdir: ").ok_or(GitfileError::InvalidFormat)?;
        let target = target.trim_end_with(|letter| letter == '\n' || letter == '\r');
        if target.is_empty() {
            return Err(GitfileError::NoPath);
        }
        let dir = UserPath::new(target).resolve(path.parent().unwrap_or(Path::new("")));
        let dir = dir.map_err(|_| GitfileError::NotARepository)?;
        if self.is_git_directory(&dir) {
            by_path::canonical(&dir).map_err(|_| GitfileError::NotARepository)
        } else {
            Err(GitfileError::NotARepository)
        }
    }

    /// Returns true if a directory looks like a Git directory: it has `HEAD`, and its own or shared
    /// `objects` and `refs`.
    pub fn is_git_directory(&self, dir: &Path) -> bool {
        open::is_git_directory(&self.options, self.env(), dir)
    }
}

/// A value in a single configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting(Option<BString>);

impl Setting {
    /// Returns true if the value equals `value`.
    pub fn is(&self, value: &BStr) -> bool {
        self.0.as_ref().is_some_and(|found| found == value)
    }

    /// Returns true if the value is a true boolean.
    pub fn is_true(&self) -> bool {
        config::parse_bool(self.0.as_ref().map(|value| value.as_bstr())) == Some(true)
    }
}

/// Returns the last value of `key` in the file at `path`, without includes. `None` if the file is
/// missing or malformed.
pub fn setting_of<T>(path: &Path, key: &Key<T>) -> Option<Setting> {
    let bytes = by_path::read(path).ok().flatten()?;
    let pairs = format::config::parse(&bytes).ok()?;
    pairs.into_iter().rev().find(|pair| key.is(pair.key.as_bstr())).map(|pair| Setting(pair.value))
}

/// Returns all keys (in lower case) and values in the file at `path`, in order, without includes.
/// Returns `None` if the file is missing. A key without a value has an empty one.
pub fn settings_in(path: &Path) -> Result<Option<Vec<(BString, BString)>>, Error> {
    let bytes = disk::read_optional(path).map_err(Attempt::Read.on(path))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let pairs = format::config::parse(&bytes).map_err(|bad| config::bad_line(bad, path))?;
    Ok(Some(pairs.into_iter().map(|pair| (pair.key, pair.value.unwrap_or_default())).collect()))
}

fn without_suffix(path: &Path, suffix: &[u8]) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    PathBuf::from(sys::os_str(bytes.strip_suffix(suffix).unwrap_or(bytes)))
}

/// Returns true if the worktree with this Git directory is rebasing or bisecting the branch.
fn is_working_on(git_dir: &Path, branch: &BStr) -> bool {
    let read = |name: &str| {
        disk::read_optional(&git_dir.join(name))
            .ok()
            .flatten()
            .map(|bytes| BString::from(format::blank::trim(&bytes)))
    };
    let short = branch_name(branch);
    let rebased = ["rebase-merge/head-name", "rebase-apply/head-name"]
        .iter()
        .any(|file| read(file).is_some_and(|name| name == branch));
    let applying = matches!(by_path::stat_followed(&git_dir.join("rebase-apply/applying")), Ok(Some(_)));
    (rebased && !applying) || read("BISECT_START").is_some_and(|start| start == short)
}
