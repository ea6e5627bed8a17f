//! Claims: records of the locks that a process holds, by which another process can remove the locks
//! of a killed one. Only commands that ask for them write claims ([`begin`]).
//!
//! A claim is a second hard link of the lock file, next to a symbolic link to the lock's path. Its
//! owner holds a `flock` on it, which ends with the process. So a claim without a `flock` belongs
//! to a dead process, in whatever namespace that ran, and a lock file that is the same file as the
//! claim was made by this process and by no other.
//!
//! Order: the claim, its `flock`, the symbolic link, and then the lock file itself, by `link`,
//! which fails like `O_EXCL` if there is one. The claim is removed after everything else. So a
//! symbolic link without a claim belongs to a dead process too, and a kill between any two steps
//! leaves something that [`recover`] removes. If [`recover`] takes a claim without a `flock` that
//! is about to get one, the owner finds it gone, and makes the lock file without it.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use sys::{File, by_path};

use crate::aside;

/// The directory of this process's claims. Set once.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process write a claim in `directory` for each lock from now on. The directory is
/// created with the first claim.
pub fn begin(directory: PathBuf) {
    let _ = DIRECTORY.set(directory);
}

/// The claim of a held lock. Dropping the value removes it.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    /// Keeps the `flock`.
    _alive: File,
}

/// Creates a lock file, with a claim if this process writes claims and the file system has hard
/// links.
pub(crate) fn create(lock_path: &Path) -> io::Result<(File, Option<Claim>)> {
    let claimed = DIRECTORY.get().filter(|_| lock_path.is_absolute());
    if let Some(directory) = claimed
        && let Some((file, claim)) = prepare(directory, lock_path)
    {
        match by_path::hard_link(&claim.path, lock_path) {
            Ok(()) => return Ok((file, Some(claim))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
    }
    by_path::create_new(lock_path, 0o666).map(|file| (file, None))
}

/// Creates a claim whose lock file does not exist yet. Returns `None` if that is impossible: the
/// lock works without it.
fn prepare(directory: &Path, lock_path: &Path) -> Option<(File, Claim)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = directory.join(name);
    let create = || by_path::create_new(&path, 0o666);
    let file = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            by_path::create_dir_all(directory).ok()?;
            create().ok()?
        }
        created => created.ok()?,
    };
    let claim = || -> io::Result<File> {
        let alive = by_path::open(&path)?;
        if !sys::try_lock(&alive)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        by_path::symlink(lock_path, &of(&path)).map(|()| alive)
    };
    match claim() {
        Ok(alive) => Some((file, Claim { path, _alive: alive })),
        Err(_) => {
            remove(&path);
            None
        }
    }
}

/// Returns the path of the symbolic link to the lock file.
fn of(claim: &Path) -> PathBuf {
    let mut path = claim.as_os_str().to_owned();
    path.push(LINK);
    path.into()
}

const LINK: &str = ".lock";

fn remove(claim: &Path) {
    let _ = by_path::remove_file(&of(claim));
    let _ = by_path::remove_file(claim);
    // The directory and the one above it stay while they hold something else.
    for directory in claim.ancestors().skip(1).take(2) {
        if by_path::remove_dir(directory).is_err() {
            break;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        aside(|| remove(&self.path));
    }
}

/// Removes the locks below `within` of dead processes that have claims in `directory`. Returns the
/// lock files that were removed.
pub fn recover(directory: &Path, within: &Path) -> io::Result<Vec<PathBuf>> {
    // A lock of a dead process is in the way of every program.
    aside(|| remove_dead(directory, within))
}

fn remove_dead(directory: &Path, within: &Path) -> io::Result<Vec<PathBuf>> {
    let names = match by_path::list(directory) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut removed = Vec::new();
    for (name, _) in names {
        let bytes = name.as_bytes();
        let claim = directory.join(sys::os_str(bytes.strip_suffix(LINK.as_bytes()).unwrap_or(bytes)));
        match by_path::open(&claim) {
            Ok(file) if sys::try_lock(&file)? => {
                let lock_path = by_path::read_link(&of(&claim))?.filter(|path| is_lock_in(path, within));
                if let Some(lock_path) = lock_path
                    && is_same(&file, &lock_path)?
                {
                    by_path::remove_file(&lock_path)?;
                    removed.push(lock_path);
                }
            }
            Ok(_) => continue,
            // It was removed meanwhile, or a symbolic link is left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        remove(&claim);
    }
    Ok(removed)
}

/// Returns true for the path of a lock file below `within`.
fn is_lock_in(path: &Path, within: &Path) -> bool {
    let is_plain = path.components().all(|part| !matches!(part, Component::ParentDir));
    is_plain && path.starts_with(within) && path.as_os_str().as_bytes().ends_with(LINK.as_bytes())
}

fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let (held, found) = (sys::stat_of(file)?, by_path::stat(path)?);
    Ok(found.is_some_and(|found| (found.dev, found.ino) == (held.dev, held.ino)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_locks_of_dead_owners_are_removed() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let claims = dir.path().join("claims");
        let lock = |name: &str| dir.path().join(name);
        let make = |name: &str| {
            let (_, claim) = prepare(&claims, &lock(name)).expect("claimed");
            by_path::hard_link(&claim.path, &lock(name)).expect("locked");
            claim
        };
        let (alive, dead, other) = (make("alive.lock"), make("dead.lock"), make("other.lock"));
        let begun = prepare(&claims, &lock("alive.lock")).expect("claimed").1;
        // The end of a process closes its files.
        let kill = |claim: Claim| {
            let path = claim.path.clone();
            let aside = path.with_extension("kept");
            fs::hard_link(&path, &aside).expect("linked");
            let target = fs::read_link(of(&path)).expect("a link");
            drop(claim);
            fs::create_dir_all(&claims).expect("there");
            fs::rename(&aside, &path).expect("renamed");
            std::os::unix::fs::symlink(target, of(&path)).expect("linked");
        };
        kill(dead);
        kill(begun);
        kill(other);
        // Somebody has removed the lock by hand, and another program has taken it.
        fs::remove_file(lock("other.lock")).expect("removed");
        fs::write(lock("other.lock"), "").expect("written");
        assert_eq!(recover(&claims, &claims).expect("recovered"), [] as [PathBuf; 0]);
        assert!(lock("dead.lock").exists(), "it lies elsewhere");
        kill(make("dead2.lock"));
        assert_eq!(recover(&claims, dir.path()).expect("recovered"), [lock("dead2.lock")]);
        assert!(lock("alive.lock").exists() && lock("other.lock").exists());
        drop(alive);
        assert!(!claims.exists(), "nothing is left");
        assert_eq!(recover(&claims, dir.path()).expect("recovered"), [] as [PathBuf; 0]);
    }

    #[test]
    fn the_parts_of_a_claim_are_removed() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let claims = dir.path().join("claims");
        let lock = dir.path().join("index.lock");
        fs::create_dir(&claims).expect("created");
        fs::write(&lock, "another program's").expect("written");
        let (_, alive) = prepare(&claims, &lock).expect("claimed");
        fs::write(claims.join("1-0"), "").expect("written");
        fs::write(claims.join("1-1"), "").expect("written");
        for name in ["1-1.lock", "1-2.lock"] {
            std::os::unix::fs::symlink(&lock, claims.join(name)).expect("linked");
        }
        assert_eq!(recover(&claims, dir.path()).expect("recovered"), [] as [PathBuf; 0]);
        assert!(lock.exists() && alive.path.exists() && of(&alive.path).is_symlink());
        assert_eq!(fs::read_dir(&claims).expect("listed").count(), 2);
        drop(alive);
        assert!(!claims.exists(), "nothing is left");
    }
}
