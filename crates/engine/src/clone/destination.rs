//! The destination of a clone: its paths, and the files that are already there.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use repo::keys;
use sys::{FileType, Refused, UserPath, by_path};

use super::{
    Error, Options,
    error::io_error,
    junk::{Existed, Junk},
    naming,
    resume::{LastRef, Point},
    source::{self, Kind, Source},
};
use crate::look::shared;

/// A destination that is free.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    /// The directory as the user wrote it, or as it was guessed.
    pub(super) directory: BString,
    pub(super) git_dir: PathBuf,
    /// `None` for a bare clone.
    pub(super) work_tree: Option<PathBuf>,
    /// The worktree as `GIT_WORK_TREE` named it.
    named_work_tree: Option<UserPath>,
    existed: Existed,
    /// The state of the directory of `--separate-git-dir`.
    separate: Option<Existed>,
    pub(super) point: Point,
}

impl Destination {
    /// Finds and checks the destination. Changes nothing.
    pub(super) fn find(options: &Options, source: &Source) -> Result<Destination, Error> {
        let cwd = &options.open.cwd;
        let directory = match &options.directory {
            Some(directory) => trimmed(directory.as_bstr()),
            None => {
                let bundle = matches!(source.kind, Kind::Bundle { .. });
                let naming = naming::Naming { bundle, bare: options.bare };
                naming::guess_directory(&options.source, naming).ok_or(Error::NoName)?
            }
        };
        let place = match UserPath::new(&directory).resolve(cwd) {
            Ok(place) => place,
            Err(refused) if options.bare => return Err(Error::Refused { path: directory, refused }),
            Err(refused) => return Err(Error::CreateWorkTree { path: directory, source: refused.into() }),
        };
        let separate_git_dir = options.separate_git_dir.as_ref();
        let named = options.open.env.get(OsStr::new("GIT_WORK_TREE")).filter(|_| !options.bare);
        let named = named.map(|path| UserPath::new(path.as_encoded_bytes()));
        let git_dir = if options.bare || named.is_some() { place.clone() } else { place.join(".git") };
        let (existed, point) = match examine(&place)? {
            Some(existed) => (existed, Point::NEW),
            None if separate_git_dir.is_none()
                && named.is_none()
                && source::is_of(&place, FileType::Directory) =>
            {
                let last = if options.bare && !options.tracking { LastRef::Head } else { LastRef::Branch };
                match Point::find(&place, &git_dir, source.url.as_bstr(), last)? {
                    Some(point) if belongs_to_user(options, &place, &git_dir) => (Existed::Yes, point),
                    _ => return Err(Error::DestinationExists(directory)),
                }
            }
            None => return Err(Error::DestinationExists(directory)),
        };
        let separate = separate_git_dir.map(|name| find_separate(name, cwd)).transpose()?;
        let named_work_tree = named.as_ref().map(|path| find_work_tree(path, cwd)).transpose()?;
        let work_tree = named_work_tree.or((!options.bare).then_some(place));
        let (git_dir, separate) = match separate {
            Some((path, existed)) => (path, Some(existed)),
            None => (git_dir, None),
        };
        Ok(Destination { directory, git_dir, work_tree, named_work_tree: named, existed, separate, point })
    }

    /// Returns the state of the Git directory after leftovers are removed: it existed and is empty,
    /// or it does not exist.
    pub(super) fn git_dir_existed(&self) -> Existed {
        match (self.separate, &self.work_tree) {
            (Some(existed), _) => existed,
            (None, Some(_)) if self.named_work_tree.is_none() => Existed::No,
            // A killed bare clone is removed together with its directory.
            _ if matches!(self.point, Point::Objects { .. }) => Existed::No,
            _ => self.existed,
        }
    }

    /// Returns true if the same command finds a clone that it left here.
    pub(super) fn is_resumable(&self) -> bool {
        self.separate.is_none() && self.named_work_tree.is_none()
    }

    /// Records what exists already because an earlier run made it.
    pub(super) fn add_to(&self, junk: &mut Junk) {
        if let Some(work_tree) = &self.work_tree {
            junk.add(work_tree, self.existed);
        }
        junk.add(&self.git_dir, self.git_dir_existed());
    }

    /// Returns true if `core.worktree` has to name the worktree.
    pub(super) fn names_work_tree(&self) -> bool {
        self.named_work_tree.is_some() && self.separate.is_none()
    }

    /// Returns the path of `.git` if that has to be a file that names the Git directory.
    pub(super) fn git_file(&self) -> Option<PathBuf> {
        self.separate?;
        self.work_tree.as_ref().map(|work_tree| work_tree.join(".git"))
    }

    /// Returns the worktree as the user wrote it.
    fn work_tree_as_given(&self) -> BString {
        match &self.named_work_tree {
            Some(named) => named.as_bytes().into(),
            None => self.directory.clone(),
        }
    }

    /// Creates the worktree's directory and the missing parents of the worktree and the Git
    /// directory. Their permissions come from the configuration outside of any repository.
    pub(super) fn make(&self, outer: &repo::StandaloneConfig, junk: &mut Junk) -> Result<(), Error> {
        let leading = |path: &Path| match path.parent() {
            Some(parent) if !source::is_of(parent, FileType::Directory) => {
                shared::of(outer.config_value(&keys::core::SHARED_REPOSITORY))?
                    .create_dir_all(parent)
                    .map_err(|source| Error::LeadingDirectories { path: path.to_owned(), source })
            }
            _ => Ok(()),
        };
        if let Some(work_tree) = &self.work_tree {
            leading(work_tree)?;
            let existed = if self.named_work_tree.is_some() { Existed::No } else { self.existed };
            if existed == Existed::No {
                by_path::create_dir(work_tree)
                    .map_err(|source| Error::CreateWorkTree { path: self.work_tree_as_given(), source })?;
            }
            junk.add(work_tree, existed);
        }
        junk.add(&self.git_dir, self.git_dir_existed());
        leading(&self.git_dir)
    }
}

/// Finds the directory of `--separate-git-dir`.
fn find_separate(name: &BString, cwd: &Path) -> Result<(PathBuf, Existed), Error> {
    let path = UserPath::new(name).resolve(cwd);
    let path = path.map_err(|refused| Error::Refused { path: name.clone(), refused })?;
    let existed = examine(&path)?.ok_or_else(|| Error::RepositoryExists(name.clone()))?;
    Ok((path, existed))
}

/// Finds the worktree of `GIT_WORK_TREE`, which must not exist.
fn find_work_tree(named: &UserPath, cwd: &Path) -> Result<PathBuf, Error> {
    let failed =
        |refused: Refused| Error::CreateWorkTree { path: named.as_bytes().into(), source: refused.into() };
    let work_tree = named.resolve(cwd).map_err(failed)?;
    if matches!(by_path::stat_followed(&work_tree), Ok(Some(_))) {
        return Err(Error::WorkTreeExists(named.clone()));
    }
    Ok(work_tree)
}

/// Returns true if what a killed clone left belongs to the user: the hooks and the settings in it
/// hold for the rest of the clone.
fn belongs_to_user(options: &Options, place: &Path, git_dir: &Path) -> bool {
    let is_there = matches!(by_path::stat(git_dir), Ok(Some(_)));
    let git_dir = if is_there { git_dir } else { place };
    repo::check_worktree_owner(&options.open, place, None, git_dir).is_ok()
}

fn trimmed(directory: &BStr) -> BString {
    let trimmed = directory.trim_end_with(|c| c == '/');
    if trimmed.is_empty() { directory.to_owned() } else { trimmed.into() }
}

/// Examines a destination. Returns `None` if it exists and is not an empty directory.
fn examine(path: &Path) -> Result<Option<Existed>, Error> {
    if by_path::stat_followed(path).map_err(io_error("examine", path))?.is_none() {
        return Ok(Some(Existed::No));
    }
    let empty = source::is_of(path, FileType::Directory)
        && by_path::list(path).map_err(io_error("examine", path))?.is_empty();
    Ok(empty.then_some(Existed::Yes))
}
