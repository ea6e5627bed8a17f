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

use bstr::{BStr, BString, ByteSlice as _};
use repo::{OpenOptions, keys, wire::url::without_credentials};
use sys::{FileType, by_path};

use super::{
    checkout::Clean,
    linked,
    removal::{open_up, remove},
    settings,
};
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

/// The place of a repository that cannot be used, while a new one is made.
const ASIDE: &str = ".sapwood-ci-aside";

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
            Some(stat) if self.clean.removes() && stat.mode & 0o700 != 0o700 => {
                return Ok(Found::Other("its permissions keep its owner out".into()));
            }
            Some(_) => {}
        }
        if by_path::list(path).map_err(cannot("read", path))?.is_empty() {
            return Ok(Found::Nothing);
        }
        let git_dir = path.join(".git");
        match by_path::stat(&git_dir).map_err(cannot("examine", &git_dir))? {
            None => return Ok(Found::Other("it is not empty, and no repository".into())),
            Some(stat) if stat.file_type == FileType::Directory => {}
            // A job could keep the next ones out.
            Some(_) if self.clean.removes() && !linked::is_linked(path) => {
                return Ok(Found::Other("its '.git' leads to no repository that knows it".into()));
            }
            Some(_) => {
                return Err(Error::failed(format!(
                    "'{shown}' is a linked worktree or a submodule: check out into another directory"
                )));
            }
        }
        if self.clean.removes() {
            return self.look_at_inherited(url, open, trusts_owner);
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
        let worktree = repo.config_str(&keys::core::WORKTREE).unwrap_or_default();
        let origin = repo.config_str(&keys::remote::URL.of("origin")).unwrap_or_default();
        Ok(self.compare(worktree.as_bstr(), origin.as_bstr(), url))
    }

    /// Examines a clone that will be cleaned. Reads as little as possible, and nothing that a job
    /// can lead elsewhere: Git's commands find the other damage, once this is removed.
    fn look_at_inherited(
        &self,
        url: &BString,
        open: &OpenOptions,
        trusts_owner: bool,
    ) -> Result<Found, Error> {
        let git_dir = self.path.join(".git");
        if !trusts_owner {
            repo::check_worktree_owner(open, &self.path, Some(&git_dir), &git_dir)?;
        }
        if !matches!(by_path::stat(&git_dir.join("HEAD")), Ok(Some(stat)) if stat.file_type == FileType::File)
        {
            return Ok(Found::Other("its repository has no HEAD".into()));
        }
        let config = git_dir.join("config");
        let value = |name: &str| settings::value(&config, name).map(Option::unwrap_or_default);
        let (origin, worktree) =
            match (value(keys::remote::URL.of("origin").name()), value(keys::core::WORKTREE.name())) {
                (Ok(origin), Ok(worktree)) => (origin, worktree),
                (Err(error), _) | (_, Err(error)) => {
                    return Ok(Found::Other(format!("its repository cannot be opened: {error}")));
                }
            };
        Ok(self.compare(worktree.as_bstr(), origin.as_bstr(), url))
    }

    /// Compares the settings of a repository with the request.
    fn compare(&self, worktree: &BStr, origin: &BStr, url: &BString) -> Found {
        // Commands would clean and write there.
        let elsewhere = self.path.join(".git").join(sys::os_str(worktree));
        if !worktree.is_empty()
            && by_path::realpath_forgiving(&elsewhere) != by_path::realpath_forgiving(&self.path)
        {
            return Found::Other(format!("the worktree of its repository is '{worktree}'"));
        }
        let (origin, url) = (without_credentials(origin), without_credentials(url.as_bstr()));
        match origin == url {
            true => Found::Clone,
            false if origin.is_empty() => Found::Other("its repository has no remote 'origin'".into()),
            false => Found::Other(format!("it is a clone of '{origin}'")),
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
        if self.clean != Clean::Asked && !linked::worktrees(&self.path).is_empty() {
            return refuse("; linked worktrees need its repository. --clean removes it all the same".into());
        }
        let has = |name: &&str| matches!(by_path::stat(&self.path.join(name)), Ok(Some(_)));
        if self.clean != Clean::Asked && ["HEAD", "objects", "refs"].iter().all(has) && !has(&".git") {
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
        self.empty_but(&[])
    }

    /// Like [`Directory::empty`], without the entries `kept`.
    fn empty_but(&self, kept: &[&str]) -> Result<(), Error> {
        open_up(&self.path);
        // The repository goes last: a job that was killed finds a clone, or nothing.
        let mut entries = by_path::list(&self.path).map_err(cannot("read", &self.path))?;
        entries.sort_by_key(|(name, _)| name == ".git");
        entries.retain(|(name, _)| kept.iter().all(|kept| name != kept));
        entries.into_iter().try_for_each(|(name, kind)| remove(&self.path.join(name), kind))
    }

    /// Moves the repository aside, so that a new one can be made. Refuses as
    /// [`Directory::may_be_emptied`].
    pub(super) fn set_aside(&self) -> Result<(), Error> {
        self.may_be_emptied("its repository cannot be used")?;
        let (git_dir, aside) = (self.path.join(".git"), self.path.join(ASIDE));
        by_path::rename_new(&git_dir, &aside).map_err(cannot("rename", &git_dir))
    }

    /// Removes the files of the repository that was set aside.
    pub(super) fn empty_beside_aside(&self) -> Result<(), Error> {
        self.empty_but(&[".git", ASIDE])
    }

    /// Removes the repository that was set aside.
    pub(super) fn forget_aside(&self) -> Result<(), Error> {
        remove(&self.path.join(ASIDE), FileType::Directory)
    }

    /// Brings back the repository that was set aside, in the place of the new one.
    pub(super) fn bring_back(&self) -> Result<(), Error> {
        let (git_dir, aside) = (self.path.join(".git"), self.path.join(ASIDE));
        if by_path::stat(&git_dir).map_err(cannot("examine", &git_dir))?.is_some() {
            remove(&git_dir, FileType::Directory)?;
        }
        by_path::rename(&aside, &git_dir).map_err(cannot("rename", &aside))
    }
}

/// Removes the repositories of all submodules. Their worktrees are gone by then.
pub(super) fn remove_submodules(dir: &Path) -> Result<(), Error> {
    let modules = dir.join(".git/modules");
    match by_path::stat(&modules).map_err(cannot("examine", &modules))? {
        Some(stat) => remove(&modules, stat.file_type),
        None => Ok(()),
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
