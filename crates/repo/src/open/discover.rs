//! Finds the repository upwards from the current directory, and checks whether a directory is one.

use std::{
    io::ErrorKind,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use bstr::ByteSlice;
use format::HashKind;
use sys::{
    Refused, UserPath,
    by_path::{self, Content, canonical, read_or_link, uninterrupted},
};

use super::{Common, Finder};
use crate::{Attempt, DiscoveryError, Error, PathOrigin, disk};

/// A larger file is not a `.git` file.
pub(super) const GITFILE_LIMIT: u64 = 1 << 20;

/// A Git directory that was found.
pub(super) struct GitDir {
    pub(super) path: PathBuf,
    /// True if the path has no symbolic link.
    pub(super) is_real: bool,
}

/// The result of discovery.
pub(super) enum Found {
    /// `.git` (directory or file) in `top`.
    Worktree { top: PathBuf, git_dir: GitDir },
    /// A repository that is not in a directory `.git`.
    Bare { git_dir: PathBuf },
}

impl Finder<'_> {
    pub(super) fn discover(&self) -> Result<Found, Error> {
        let ceiling = self.ceiling();
        let across = self.env.boolean("GIT_DISCOVERY_ACROSS_FILESYSTEM")?.unwrap_or(false);
        let device = |dir: &Path| {
            uninterrupted(|| dir.metadata()).map(|stat| stat.dev()).map_err(Attempt::Stat.on(dir))
        };
        let first_device = device(&self.cwd)?;
        let mut dir = self.cwd.as_path();
        loop {
            let dot_git = dir.join(".git");
            if let Some((git_dir, gitfile)) = self.dot_git(&dot_git)? {
                self.check_owner(dir, gitfile.then_some(&dot_git), Some(dir), &git_dir.path)?;
                return Ok(Found::Worktree { top: dir.to_owned(), git_dir });
            }
            if self.is_git_directory(dir)? {
                self.check_bare_allowed(dir)?;
                self.check_owner(dir, None, None, dir)?;
                return Ok(Found::Bare { git_dir: dir.to_owned() });
            }
            if ceiling.as_deref().is_some_and(|ceiling| dir.parent() == Some(ceiling)) {
                return Err(DiscoveryError::NotFound.into());
            }
            dir = dir.parent().ok_or(DiscoveryError::NotFound)?;
            if !across && device(dir)? != first_device {
                return Err(DiscoveryError::MountPoint(dir.to_owned()).into());
            }
        }
    }

    /// Returns the longest of `GIT_CEILING_DIRECTORIES` that is a proper ancestor of the current
    /// directory. In the entries after an empty one, symbolic links are not resolved.
    fn ceiling(&self) -> Option<PathBuf> {
        let mut literal = false;
        let mut found: Option<PathBuf> = None;
        for entry in self.env.bytes("GIT_CEILING_DIRECTORIES")?.split_str(":") {
            if entry.is_empty() {
                literal = true;
                continue;
            }
            let Some(Ok(path)) = entry.starts_with(b"/").then(|| UserPath::new(entry).resolve(&self.cwd))
            else {
                continue;
            };
            let path = if literal {
                path
            } else {
                match canonical(&path) {
                    Ok(path) => path,
                    Err(_) => continue,
                }
            };
            // Compare bytes and ignore one trailing slash: an entry that is not resolved may end in
            // components that no current directory has.
            let bytes = path.as_os_str().as_bytes();
            let bytes = bytes.strip_suffix(b"/").unwrap_or(bytes);
            let below = self.cwd.as_os_str().as_bytes().strip_prefix(bytes);
            let is_above = below.is_some_and(|below| below.len() > 1 && below.starts_with(b"/"));
            let is_longer = found.as_ref().is_none_or(|found| bytes.len() > found.as_os_str().len());
            if is_above && is_longer {
                found = Some(if bytes.is_empty() {
                    PathBuf::from("/")
                } else {
                    PathBuf::from(sys::os_str(bytes))
                });
            }
        }
        found
    }

    /// Examines `.git`: the directory of a repository (`false`), or a file that names one (`true`).
    fn dot_git(&self, dot_git: &Path) -> Result<Option<(GitDir, bool)>, Error> {
        let mut found = uninterrupted(|| dot_git.symlink_metadata());
        let is_real = !found.as_ref().is_ok_and(|stat| stat.is_symlink());
        if !is_real {
            found = uninterrupted(|| dot_git.metadata());
        }
        match found {
            Err(err) if sys::is_missing(&err) => Ok(None),
            Err(err) => Err(Attempt::StatDotGit.on(dot_git)(err)),
            Ok(stat) if stat.is_dir() => {
                let is_one = self.is_git_directory(dot_git)?
                    || (has_head(dot_git)? && self.is_git_directory(dot_git)?);
                Ok(is_one.then(|| (GitDir { path: dot_git.to_owned(), is_real }, false)))
            }
            Ok(stat) if !stat.is_file() => Err(DiscoveryError::NotAFile(dot_git.to_owned()).into()),
            Ok(stat) => {
                let path = self.read_gitfile(dot_git, stat.size())?;
                Ok(Some((GitDir { path, is_real: true }, true)))
            }
        }
    }

    pub(super) fn read_gitfile(&self, file: &Path, size: u64) -> Result<PathBuf, Error> {
        self.read_gitfile_as(file, file, size)
    }

    /// Like [`Finder::read_gitfile`], with another path for messages.
    pub(super) fn read_gitfile_as(&self, file: &Path, name: &Path, size: u64) -> Result<PathBuf, Error> {
        if size > GITFILE_LIMIT {
            return Err(DiscoveryError::GitfileTooLarge(name.to_owned()).into());
        }
        let bytes = match disk::read_optional(file) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(err) => return Err(Attempt::OpenGitfile.on(name)(err)),
        };
        let Some(target) = bytes.strip_prefix(b"gitdir: ") else {
            return Err(DiscoveryError::GitfileFormat(name.to_owned()).into());
        };
        let target = target.trim_end_with(|c| c == '\n' || c == '\r');
        if target.is_empty() {
            return Err(DiscoveryError::GitfileWithoutPath(name.to_owned()).into());
        }
        let target = UserPath::new(target);
        let beside = |file: &Path| target.resolve(file.parent().unwrap_or(Path::new("")));
        // Discovery prints the resolved target; an explicit `GIT_DIR` prints the path as written.
        let nothing = || {
            let display_name = beside(name).unwrap_or_else(|_| target.as_os_str().into());
            Error::from(DiscoveryError::GitfileTarget(display_name))
        };
        let git_dir = beside(file).map_err(|_| nothing())?;
        if !self.is_git_directory(&git_dir)? {
            return Err(nothing());
        }
        canonical(&git_dir).map_err(Attempt::Resolve.on(&git_dir))
    }

    /// Returns true if a directory has a valid `HEAD`, `objects/` and `refs/`.
    pub(super) fn is_git_directory(&self, dir: &Path) -> Result<bool, Error> {
        if !has_valid_head(&dir.join("HEAD")) {
            return Ok(false);
        }
        let common = match self.common_dir_variable(&self.cwd) {
            Some(Err(_)) => return Ok(false),
            Some(Ok(common)) => common,
            None => self.common_dir(dir)?.dir,
        };
        let Ok(objects) = self.objects_dir(&self.cwd, &common) else { return Ok(false) };
        // An executable file passes too, as in Git.
        Ok(by_path::is_executable(&objects) && by_path::is_executable(&common.join("refs")))
    }

    /// Returns the object directory. `place` is the directory in which Git runs.
    pub(super) fn objects_dir(&self, place: &Path, common: &Path) -> Result<PathBuf, Error> {
        match self.env.path("GIT_OBJECT_DIRECTORY") {
            Some(objects) => objects.resolve(place).map_err(refused("GIT_OBJECT_DIRECTORY")),
            None => Ok(common.join("objects")),
        }
    }

    /// Returns the value of `GIT_COMMON_DIR`, if it is set. `place` is the directory in which Git
    /// runs.
    pub(super) fn common_dir_variable(&self, place: &Path) -> Option<Result<PathBuf, Error>> {
        let common = self.env.path("GIT_COMMON_DIR")?;
        Some(common.resolve(place).map_err(refused("GIT_COMMON_DIR")))
    }

    /// Returns the directory that all worktrees share.
    pub(super) fn common_dir(&self, git_dir: &Path) -> Result<Common, Error> {
        if let Some(common) = self.common_dir_variable(&self.cwd) {
            return Ok(Common { dir: common?, is_explicit: true });
        }
        if let Some((_, common)) = self.common.borrow().as_ref().filter(|(of, _)| of == git_dir) {
            return Ok(common.clone());
        }
        let common = read_common_dir(git_dir)?;
        *self.common.borrow_mut() = Some((git_dir.to_owned(), common.clone()));
        Ok(common)
    }
}

/// Returns a function that converts a refused path to an error about the variable.
fn refused(variable: &'static str) -> impl Fn(Refused) -> Error {
    move |source| Error::Path { origin: PathOrigin::Variable(variable), source }
}

/// Returns the common directory that the file `commondir` contains.
pub(super) fn read_common_dir(git_dir: &Path) -> Result<Common, Error> {
    let file = git_dir.join("commondir");
    match disk::read_optional(&file) {
        Ok(None) => Ok(Common { dir: git_dir.to_owned(), is_explicit: false }),
        Ok(Some(bytes)) if !bytes.is_empty() => {
            let target = bytes.trim_end_with(|c| c == '\n' || c == '\r');
            let common = UserPath::new(target).resolve_or_base(git_dir).map_err(|source| {
                let origin = PathOrigin::CommonDir(file.clone());
                Error::Path { origin, source }
            })?;
            Ok(Common { dir: canonical(&common).unwrap_or(common), is_explicit: true })
        }
        Ok(_) => Err(DiscoveryError::EmptyCommonDir(file).into()),
        Err(err) => Err(Attempt::ReadCommonDir.on(&file)(err)),
    }
}

/// Returns an error if reading a directory that looks like a repository fails; otherwise true if it
/// has a HEAD. Git does not report this error: it may find another repository further up.
pub(super) fn has_head(git_dir: &Path) -> Result<bool, Error> {
    let head = git_dir.join("HEAD");
    match disk::read_optional(&head) {
        Err(err) if err.kind() != ErrorKind::IsADirectory => Err(Attempt::Read.on(&head)(err)),
        found => Ok(matches!(found, Ok(Some(_)))),
    }
}

/// Returns true if HEAD is a symbolic ref into `refs/`, as link or file, or an object name.
fn has_valid_head(head: &Path) -> bool {
    let bytes = match read_or_link(head, HashKind::Sha1.hex_len() as u64 + 1, |_| true) {
        Ok(Content::Link(target)) => return target.as_os_str().as_bytes().starts_with(b"refs/"),
        Ok(Content::Bytes(bytes)) => bytes,
        Ok(_) | Err(_) => return false,
    };
    if let Some(target) = bytes.strip_prefix(b"ref:") {
        return target.trim_ascii_start().starts_with(b"refs/");
    }
    let digits = bytes.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    digits >= HashKind::Sha1.hex_len()
}
