//! Waits for changes in a worktree, by `inotify(7)`: one watch for each directory that Git does not
//! ignore.
//!
//! Promise: a change after [`TreeWatch::new`] ends a wait, unless it is in an ignored directory
//! without tracked files, in another repository, or in a directory that the user cannot read. A
//! wait may also end without a change that Git sees. A directory is watched before it is listed, so
//! a directory that appears in it meanwhile is found in one of the two ways.
//!
//! After a rename of a directory, a change of ignore rules, or if the kernel drops events, the
//! watches are stale ([`TreeWatch::is_stale`]). The caller then makes new ones, and examines the
//! worktree after that.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Index;
use repo::{Repository, keys};
use sys::{Dir, FileType, Happened, Happening, Watches};

use super::ignore::{self, Ignores};

/// Why a worktree cannot be watched.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("the kernel allows no more watches for '{}': raise fs.inotify.max_user_watches", .0.display())]
    TooManyDirectories(PathBuf),
    #[error("the kernel allows no more watching programs: raise fs.inotify.max_user_instances")]
    TooManyPrograms,
    #[error("cannot watch '{}': {}", .path.display(), sys::reason(.source))]
    Watch { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Rules(#[from] ignore::Unreadable),
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

/// The watches of a worktree.
#[derive(Debug)]
pub struct TreeWatch {
    watches: Watches,
    top: PathBuf,
    /// The watched directories by the numbers of their watches. The path of the root is empty.
    directories: HashMap<i32, BString>,
    /// The watch of the Git directory, for the index and HEAD.
    git_dir: i32,
    /// The contents of the rules outside of the worktree.
    outside: Vec<Vec<u8>>,
    icase: bool,
    is_stale: bool,
}

impl TreeWatch {
    /// Watches the worktree `top` of `repo`. `index` names the tracked directories.
    pub fn new(repo: &Repository, top: &Path, index: &Index) -> Result<TreeWatch, Error> {
        let watches = Watches::new().map_err(|source| match source.raw_os_error() {
            Some(EMFILE) => Error::TooManyPrograms,
            _ => Error::Watch { path: top.to_owned(), source },
        })?;
        let git_dir = watches.add(repo.git_dir()).map_err(|source| refusal(repo.git_dir(), source))?;
        let mut watch = TreeWatch {
            watches,
            top: top.to_owned(),
            directories: HashMap::new(),
            git_dir,
            outside: ignore::outside(repo)?,
            icase: repo.config(&keys::core::IGNORE_CASE)?,
            is_stale: false,
        };
        let is_tracked = |dir: &BStr| !index.range_below(dir).is_empty();
        watch.add(vec![BString::default()], &is_tracked)?;
        Ok(watch)
    }

    /// Returns the number of watched directories.
    pub fn len(&self) -> usize {
        self.directories.len()
    }

    /// Returns true if no directory is watched.
    pub fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// Returns true if later changes may be missed: the caller makes new watches.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Waits for a change since the last call, at most `wait`, or until a signal. Returns true
    /// after a change.
    pub fn wait(&mut self, wait: Duration) -> Result<bool, Error> {
        let (mut has_changed, mut is_stale, mut new) = (false, false, Vec::new());
        let (directories, git_dir) = (&mut self.directories, self.git_dir);
        let waited = self.watches.wait(wait, |Happened { watch, name, kind }| {
            if kind == Happening::Lost {
                (has_changed, is_stale) = (true, true);
            }
            if watch == git_dir {
                has_changed |= name == b"index" || name == b"HEAD";
                return;
            }
            let Some(dir) = directories.get(&watch) else { return };
            if name == b".git" {
                return;
            }
            has_changed = true;
            match kind {
                Happening::NewDirectory => new.push(joined(dir.as_bstr(), name)),
                Happening::DirectoryLeft => is_stale = true,
                Happening::Ended => {
                    is_stale |= dir.is_empty();
                    directories.remove(&watch);
                }
                Happening::Changed | Happening::Lost => is_stale |= name == b".gitignore",
            }
        });
        waited.map_err(|source| Error::Watch { path: self.top.clone(), source })?;
        self.is_stale |= is_stale;
        if !self.is_stale {
            self.add(new, &|_| false)?;
        }
        Ok(has_changed)
    }

    /// Watches directories and those below them, unless they are ignored.
    fn add(&mut self, mut waiting: Vec<BString>, is_tracked: &dyn Fn(&BStr) -> bool) -> Result<(), Error> {
        if waiting.is_empty() {
            return Ok(());
        }
        let root = Dir::open(&self.top).map_err(|source| refusal(&self.top, source))?;
        let outside: Vec<&[u8]> = self.outside.iter().map(Vec::as_slice).collect();
        let mut ignores = Ignores::new(&root, &outside, self.icase);
        while let Some(dir) = waiting.pop() {
            if !dir.is_empty() && !is_tracked(dir.as_bstr()) && ignores.is_ignored(dir.as_bstr(), true)? {
                continue;
            }
            // Other repositories are in no state.
            if !dir.is_empty() && !matches!(root.stat(&joined(dir.as_bstr(), b".git")), Ok(None)) {
                continue;
            }
            let path = self.top.join(sys::os_str(&dir));
            match self.watches.add(&path) {
                Ok(number) => drop(self.directories.insert(number, dir.clone())),
                Err(error) if is_no_directory(&error) => continue,
                Err(source) => return Err(refusal(&path, source)),
            }
            let listed =
                if dir.is_empty() { root.list() } else { root.open_dir(&dir).and_then(|dir| dir.list()) };
            for (name, file_type) in listed.unwrap_or_default() {
                if file_type == FileType::Directory && name != b".git" {
                    waiting.push(joined(dir.as_bstr(), &name));
                }
            }
        }
        Ok(())
    }
}

const EMFILE: i32 = 24;

/// Returns true if the directory has gone, or cannot be read. Then no state has its content.
fn is_no_directory(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied)
}

fn refusal(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull => Error::TooManyDirectories(path.to_owned()),
        _ => Error::Watch { path: path.to_owned(), source },
    }
}

fn joined(dir: &BStr, name: &[u8]) -> BString {
    if dir.is_empty() { name.into() } else { bstr::concat([dir.as_bytes(), b"/", name]).into() }
}
