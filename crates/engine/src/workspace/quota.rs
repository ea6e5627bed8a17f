//! Quotas: the most bytes that the upper layer of a workspace may have on the disk.
//!
//! The directory with the upper layer gets a project of the file system (ext4, xfs), before
//! anything is made in it. The kernel counts and refuses, whoever writes. [`allot`] alone chooses
//! numbers, under a lock that all processes share which see the file system by the same mount. A
//! number without files is free, whatever limit it has, so a killed command leaves nothing to
//! repair.
//!
//! Design: docs/design/workspace-quota.md.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use sys::{File, by_path, quota};

/// The reason why a workspace has no quota.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The file system has none, or they are not in force.
    #[error("'{}' is on a file system ({file_system}) without project quotas", .path.display())]
    Unsupported { path: PathBuf, file_system: String },
    #[error("only root may set a quota")]
    NotAllowed,
    /// New entries would belong to a project that sapwood has not made.
    #[error("'{}' belongs to a project (number {id}) already", .path.display())]
    Taken { path: PathBuf, id: u32 },
    #[error("'{}' has no quota", .0.to_string_lossy())]
    None(std::ffi::OsString),
    #[error("all numbers for projects are in use")]
    Exhausted,
    /// Numbers are chosen under the lock of the topmost directory of the file system.
    #[error("another program has locked '{}', where numbers for projects are chosen", .path.display())]
    Locked { path: PathBuf },
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    /// Returns the steps that make quotas possible.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::Unsupported { .. } => Some(
                "ext4: 'tune2fs -O project,quota DEVICE' while it is not mounted, then the mount option \
                 'prjquota'; xfs: the mount option 'prjquota'. Or name another disk by 'sapwood.upperDir'",
            ),
            Error::Taken { .. } => Some("choose a directory of no project by 'sapwood.upperDir'"),
            _ => None,
        }
    }
}

/// The quota of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The bytes on the disk.
    pub used: u64,
    /// The most bytes; 0 for no limit.
    pub limit: u64,
}

impl Quota {
    /// Returns true if there is hardly any space left.
    pub fn is_full(&self) -> bool {
        /// A writer of larger pieces may fail although there is a little space.
        const PIECE: u64 = 64 << 10;
        let little = (self.limit / 100).clamp(PIECE, Quota::PLENTY);
        self.limit > 0 && self.limit.saturating_sub(self.used) < little
    }

    /// No quota with this many bytes left is full.
    pub const PLENTY: u64 = 1 << 20;
}

/// Returns an error if no directory that is made in `dir` could get a quota. `dir` need not exist.
pub fn check(dir: &Path) -> Result<(), Error> {
    let dir = existing(dir);
    let io = |source| Error::Io { action: "examine", path: dir.to_owned(), source };
    let unsupported = || {
        let file_system = sys::FileSystem::of(dir)
            .ok()
            .and_then(|found| found.name)
            .unwrap_or_else(|| "unknown".to_owned());
        Error::Unsupported { path: dir.to_owned(), file_system }
    };
    let project = quota::project(dir).map_err(io)?.ok_or_else(unsupported)?;
    if !quota::is_enforced(dir).map_err(io)? {
        return Err(unsupported());
    }
    if project.is_inherited {
        return Err(Error::Taken { path: dir.to_owned(), id: project.id });
    }
    if sys::user::effective_uid() != 0 {
        return Err(Error::NotAllowed);
    }
    Ok(())
}

/// Returns the directory, or the nearest one above it that exists.
fn existing(dir: &Path) -> &Path {
    let is_there = |dir: &&Path| matches!(by_path::stat_followed(dir), Ok(Some(_)));
    dir.ancestors().find(is_there).unwrap_or(dir)
}

/// Numbers below are left to administrators.
const FIRST: u32 = 1 << 30;
const COUNT: u32 = 1 << 30;
/// With this many numbers in a row in use, something is wrong.
const MOST_TRIES: u32 = 1 << 16;

/// Puts the new, empty directory `dir` into a project of its own, which may have `limit` bytes.
/// Returns its number.
pub fn allot(dir: &Path, limit: u64) -> Result<u32, Error> {
    check(dir.parent().unwrap_or(dir))?;
    let io = |action| move |source| Error::Io { action, path: dir.to_owned(), source };
    let top = top_of_file_system(dir).map_err(io("examine"))?;
    let _lock = lock(&top, TRIES)?;
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    // Each directory begins elsewhere, in case another host or container does not see the lock.
    let start = u32::try_from(hasher.finish() % u64::from(COUNT)).unwrap_or(0);
    for step in 0..MOST_TRIES {
        let id = FIRST + start.wrapping_add(step) % COUNT;
        if quota::project_use(dir, id).map_err(io("examine"))?.inodes == 0 {
            let set = quota::limit_project(dir, id, limit).and_then(|()| quota::set_project(dir, id));
            set.map_err(io("set the quota of"))?;
            return Ok(id);
        }
    }
    Err(Error::Exhausted)
}

/// The number of attempts to get the lock, which a creation holds for a moment.
const TRIES: u32 = 500;

/// Takes the lock of a file system. Anybody can hold it for ever, so the wait is bounded.
fn lock(top: &Path, tries: u32) -> Result<File, Error> {
    let io = |source| Error::Io { action: "lock", path: top.to_owned(), source };
    let file = by_path::open(top).map_err(io)?;
    for _ in 0..tries {
        if sys::try_lock(&file).map_err(io)? {
            return Ok(file);
        }
        sys::interrupt::check().map_err(io)?;
        thread::sleep(Duration::from_millis(20));
    }
    Err(Error::Locked { path: top.to_owned() })
}

/// Returns the topmost directory on the file system of `dir`, as this process sees it.
fn top_of_file_system(dir: &Path) -> io::Result<PathBuf> {
    let device = |dir: &Path| Ok::<_, io::Error>(by_path::stat_followed(dir)?.map(|stat| stat.dev));
    let dir = by_path::realpath_forgiving(dir);
    let own = device(&dir)?.ok_or(ErrorKind::NotFound)?;
    let mut top = dir.as_path();
    for above in dir.ancestors() {
        if device(above)? != Some(own) {
            break;
        }
        top = above;
    }
    Ok(top.to_owned())
}

/// A project that [`allot`] has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Project<'a> {
    dir: &'a Path,
    id: u32,
}

impl<'a> Project<'a> {
    /// Returns the project `id` if the directory belongs to it.
    pub fn at(dir: &'a Path, id: u32) -> io::Result<Option<Project<'a>>> {
        let found = quota::project(dir)?;
        Ok(found.is_some_and(|found| found.id == id && found.is_inherited).then_some(Project { dir, id }))
    }

    /// Returns its use and its limit.
    pub fn quota(&self) -> io::Result<Quota> {
        let found = quota::project_use(self.dir, self.id)?;
        Ok(Quota { used: found.space, limit: found.limit })
    }

    /// Changes its limit; 0 for no limit.
    pub fn limit_to(&self, limit: u64) -> Result<(), Error> {
        quota::limit_project(self.dir, self.id, limit).map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => Error::NotAllowed,
            _ => Error::Io { action: "set the quota of", path: self.dir.to_owned(), source },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_a_lock_for_a_while() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let held = lock(dir.path(), 1).expect("it is free");
        assert!(matches!(lock(dir.path(), 2), Err(Error::Locked { .. })));
        drop(held);
        // A child that another test forks has the file open until it executes.
        assert!(lock(dir.path(), TRIES).is_ok());
    }
}
