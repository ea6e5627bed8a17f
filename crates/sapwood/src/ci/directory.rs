//! The directory of a checkout: its content before the job, and its removal.
//!
//! Only content below the directory is removed, and only if the caller asked for a clean worktree.
//! Nothing is removed from a linked worktree or a submodule, from the root, from a directory that
//! is or contains the home directory, and where something is mounted below. A repository with
//! linked worktrees stays, unless the user asked for its removal in so many words.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use repo::{OpenOptions, keys, wire::url::without_credentials};
use sys::{FileType, by_path};

use super::checkout::Clean;
use crate::Error;

/// The content of the directory before a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is missing or empty.
    Nothing,
    /// A clone of the same URL.
    Clone,
    /// Something else; a clause that says it.
    Other(String),
}

/// The rules for the directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) home: Option<PathBuf>,
    pub(super) clean: Clean,
}

impl Directory {
    /// Examines the directory. `trusts_owner` is true if a repository of another user is accepted.
    pub(super) fn look(&self, url: &BString, open: &OpenOptions, trusts_owner: bool) -> Result<Found, Error> {
        let path = &self.path;
        let shown = path.display();
        match by_path::stat_followed(path).map_err(cannot("examine", path))? {
            None => return Ok(Found::Nothing),
            Some(stat) if stat.file_type != FileType::Directory => {
                return Err(Error::failed(format!("'{shown}' is not a directory")));
            }
            Some(_) => {}
        }
        if by_path::list(path).map_err(cannot("read", path))?.is_empty() {
            return Ok(Found::Nothing);
        }
        let git_dir = path.join(".git");
        match by_path::stat(&git_dir).map_err(cannot("examine", &git_dir))? {
            None => return Ok(Found::Other("it is not empty, and no repository".into())),
            Some(stat) if stat.file_type != FileType::Directory => {
                return Err(Error::failed(format!(
                    "'{shown}' is a linked worktree or a submodule: check out into another directory"
                )));
            }
            Some(_) => {}
        }
        let open = OpenOptions { work_tree: Some(path.clone()), cwd: path.clone(), ..open.clone() };
        let opened = if trusts_owner {
            repo::Repository::open(&OpenOptions { git_dir: Some(git_dir), ..open })
        } else {
            repo::Repository::open_for(&open, path, &git_dir)
        };
        let repo = match opened {
            Ok(repo) => repo,
            Err(error) if is_owned_by_another(&error) => return Err(error.into()),
            Err(error) => return Ok(Found::Other(format!("its repository cannot be opened: {error}"))),
        };
        // Commands would clean and write there.
        let elsewhere = repo.config_str(&keys::core::WORKTREE).filter(|worktree| {
            let worktree = path.join(".git").join(sys::os_str(worktree));
            by_path::realpath_forgiving(&worktree) != by_path::realpath_forgiving(path)
        });
        if let Some(worktree) = elsewhere {
            return Ok(Found::Other(format!("the worktree of its repository is '{worktree}'")));
        }
        let origin = repo.config_str(&keys::remote::URL.of("origin")).unwrap_or_default();
        let (origin, url) = (without_credentials(origin.as_bstr()), without_credentials(url.as_bstr()));
        match origin == url {
            true => Ok(Found::Clone),
            false if origin.is_empty() => Ok(Found::Other("its repository has no remote 'origin'".into())),
            false => Ok(Found::Other(format!("it is a clone of '{origin}'"))),
        }
    }

    /// Refuses to remove the content of the directory where somebody else may need it.
    pub(super) fn may_be_emptied(&self, found: &str) -> Result<(), Error> {
        let shown = self.path.display();
        let refuse =
            |reason: String| Err(Error::failed(format!("'{shown}' cannot be used: {found}{reason}")));
        if !self.clean.removes() {
            return refuse("; --clean removes what is in it".into());
        }
        self.may_be_cleaned()?;
        let linked = by_path::list(&self.path.join(".git/worktrees")).unwrap_or_default();
        if self.clean != Clean::Asked && !linked.is_empty() {
            return refuse("; linked worktrees need its repository. --clean removes it all the same".into());
        }
        let has = |name: &&str| matches!(by_path::stat(&self.path.join(name)), Ok(Some(_)));
        if self.clean != Clean::Asked && ["HEAD", "objects", "refs"].iter().all(has) {
            return refuse("; it is a Git directory. --clean removes it all the same".into());
        }
        Ok(())
    }

    /// Refuses to remove untracked files where they are the home of a user or another file system.
    pub(super) fn may_be_cleaned(&self) -> Result<(), Error> {
        let shown = self.path.display();
        let home = self.home.as_deref().map(by_path::realpath_forgiving);
        if self.path.parent().is_none() || home.is_some_and(|home| home.starts_with(&self.path)) {
            return Err(Error::failed(format!(
                "'{shown}' cannot be used: it is the root, or contains the home directory, whose content is \
                 never removed"
            )));
        }
        let mounts = sys::mounts().map_err(cannot("read", Path::new("/proc/self/mountinfo")))?;
        let below = |mount: &&sys::Mount| mount.point.starts_with(&self.path) && mount.point != self.path;
        match mounts.iter().find(below) {
            None => Ok(()),
            Some(mount) => Err(Error::failed(format!(
                "'{shown}' cannot be used: '{}' is mounted below it, and its content is never removed",
                mount.point.display()
            ))),
        }
    }

    /// Removes the content of the directory, and keeps the directory: it may be the current one of
    /// a process.
    pub(super) fn empty(&self) -> Result<(), Error> {
        // The repository goes last: a job that was killed finds a clone, or nothing.
        let mut entries = by_path::list(&self.path).map_err(cannot("read", &self.path))?;
        entries.sort_by_key(|(name, _)| name == ".git");
        for (name, kind) in entries {
            let path = self.path.join(name);
            let removed = match kind {
                FileType::Directory => by_path::remove_dir_all(&path),
                _ => by_path::remove_file(&path),
            };
            removed.map_err(cannot("remove", &path))?;
        }
        Ok(())
    }
}

/// Removes the repositories of all submodules. Their worktrees are gone by then.
pub(super) fn remove_submodules(dir: &Path) -> Result<(), Error> {
    let modules = dir.join(".git/modules");
    match by_path::remove_dir_all(&modules) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(cannot("remove", &modules)),
    }
}

/// Returns true if another user owns the repository.
fn is_owned_by_another(error: &repo::Error) -> bool {
    use repo::DiscoveryError::{DubiousOwner, Foreign};
    matches!(error, repo::Error::Discovery(DubiousOwner(_) | Foreign { .. }))
}

/// Returns the conversion of an error about a path.
pub(super) fn cannot(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::failed(format!("cannot {action} '{}': {}", path.display(), sys::reason(&source)))
}
