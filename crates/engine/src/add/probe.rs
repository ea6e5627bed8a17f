//! Stat calls for named paths of the worktree: for one path at a time, or for many known paths at
//! once.

use std::{io, sync::Mutex};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, Stat};

use crate::{
    crew::{self, Tuning},
    look::handle::FAR,
};

/// Number of consecutive paths that one worker stats in a unit of work.
const PATHS_PER_UNIT: usize = 16;

/// Number of stats that cost as much as one step of other work on a file.
const STATS_PER_STEP: usize = 8;

/// The result of probing a path of the worktree.
#[derive(Debug)]
pub enum Found {
    /// The path exists.
    Present(Stat),
    /// The path does not exist.
    Missing,
    /// A directory of the path is a symbolic link.
    BeyondLink,
    /// The stat call failed.
    Unreadable(io::Error),
}

/// Probes paths and caches the directory of the last one.
#[derive(Debug)]
pub struct PathProbe<'a> {
    worktree: &'a Dir,
    cache: DirectoryCache,
    /// Created by the first [`PathProbe::probe_all`].
    tuning: Option<Tuning>,
}

impl<'a> PathProbe<'a> {
    /// Creates a probe for the files of `worktree`.
    pub fn new(worktree: &'a Dir) -> PathProbe<'a> {
        PathProbe { worktree, cache: DirectoryCache::default(), tuning: None }
    }

    /// Probes one path, with one stat in most cases. Like Git, it caches the last directory that
    /// was free of links and does not check it again until a path lies in another directory.
    pub fn probe(&mut self, path: &BStr) -> Found {
        match self.cache.by_path(self.worktree, path) {
            Ok(Some(stat)) => Found::Present(stat),
            Err(error) => Found::Unreadable(error),
            Ok(None) => {
                let mut above = path.find_iter("/").map(|slash| &path[..slash]);
                let is_link = |dir: &BStr| {
                    let stat = self.worktree.stat(dir).ok().flatten();
                    stat.is_some_and(|stat| stat.file_type == FileType::Symlink)
                };
                if above.any(is_link) { Found::BeyondLink } else { Found::Missing }
            }
        }
    }

    /// Stats many paths with several workers. `None` means that the path is missing or the stat
    /// failed: [`PathProbe::probe`] then finds the reason.
    pub fn probe_all(&mut self, paths: &[BString]) -> Vec<Option<Stat>> {
        let worktree = self.worktree;
        let tuning = self.tuning.get_or_insert_with(|| Tuning::reading(worktree));
        let rows: Vec<&[BString]> = paths.chunks(PATHS_PER_UNIT).collect();
        let found = crew::map(
            "look",
            tuning,
            &rows,
            |row| row.len().div_ceil(STATS_PER_STEP),
            &Mutex::default(),
            |_| DirectoryCache::default(),
            |cache, row| {
                let look = |path: &BString| cache.by_handle(worktree, path.as_ref()).ok().flatten();
                Ok::<Vec<_>, std::convert::Infallible>(row.iter().map(look).collect())
            },
        );
        match found {
            Ok(found) => found.into_iter().flatten().collect(),
            Err(never) => match never {},
        }
    }
}

/// The directory in which a path was found last.
#[derive(Debug, Default)]
struct DirectoryCache {
    /// With a slash at its end.
    path: BString,
    handle: Option<Dir>,
}

impl DirectoryCache {
    /// Runs `lstat`. Returns `None` if the path does not exist. It keeps no handle of the
    /// directory: a later call may find another directory at the same path.
    fn by_path(&mut self, worktree: &Dir, path: &BStr) -> io::Result<Option<Stat>> {
        let (directory, _) = split_directory(path);
        // A path longer than [`FAR`] opens its directory on each call, so the cache does not help.
        if path.len() <= FAR && self.path == directory {
            return worktree.stat_local(path.as_bytes());
        }
        let found = worktree.stat(path)?;
        if found.is_some() {
            self.path = directory.into();
        }
        Ok(found)
    }

    /// Like [`DirectoryCache::by_path`], for paths of one batch: it keeps a handle of the
    /// directory.
    fn by_handle(&mut self, worktree: &Dir, path: &BStr) -> io::Result<Option<Stat>> {
        let (directory, name) = split_directory(path);
        let Some(above) = directory.strip_suffix(b"/") else { return worktree.stat_local(name) };
        if self.handle.is_none() || self.path != directory {
            self.handle = Some(worktree.open_dir(above)?);
            self.path = directory.into();
        }
        self.handle.as_ref().map_or(Ok(None), |handle| handle.stat_local(name))
    }
}

/// Splits a path into its directory, with the slash, and its name.
fn split_directory(path: &BStr) -> (&[u8], &[u8]) {
    path.split_at(path.rfind_byte(b'/').map_or(0, |slash| slash + 1))
}
