//! Removing repositories that no volume uses, while they are larger than the budget.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use sys::{by_path, mount::Unmount};

use crate::{Error, Volumes};

/// A repository that no volume uses.
struct Unused {
    dir: PathBuf,
    since: SystemTime,
    bytes: u64,
}

impl Volumes {
    /// Removes repositories that no volume and no kept workspace uses, the longest unused first,
    /// until the others fit. Returns the number of removed ones.
    pub fn prune(&self) -> Result<usize, Error> {
        self.empty_trash();
        let mut unused = self.unused()?;
        unused.sort_by_key(|repository| repository.since);
        let mut total: u64 = unused.iter().map(|repository| repository.bytes).sum();
        let mut removed = 0;
        for repository in unused {
            if total <= self.settings.budget {
                break;
            }
            if self.remove_repository(&repository.dir)? {
                total -= repository.bytes;
                removed += 1;
            }
        }
        self.empty_trash();
        Ok(removed)
    }

    fn unused(&self) -> Result<Vec<Unused>, Error> {
        let all = self.state.repositories();
        let names = by_path::list(&all).map_err(Error::io("list", &all))?;
        let used = self.used()?;
        let dirs = names.into_iter().map(|(name, _)| all.join(name));
        let unused = dirs.filter(|dir| !used.contains(dir) && !has_workspaces(dir));
        Ok(unused
            .map(|dir| {
                let since = dir.metadata().and_then(|facts| facts.modified());
                Unused { since: since.unwrap_or(SystemTime::UNIX_EPOCH), bytes: size(&dir), dir }
            })
            .collect())
    }

    /// Returns the repositories that records name.
    fn used(&self) -> Result<Vec<PathBuf>, Error> {
        Ok(self.state.all()?.iter().map(|record| self.state.repository(&record.volume)).collect())
    }

    /// Removes a repository, unless a volume came meanwhile. The rename makes it whole or absent.
    fn remove_repository(&self, dir: &Path) -> Result<bool, Error> {
        let lock = self.lock_of(dir);
        // A call that brings a commit holds the lock, and wrote its record before.
        let Ok(_held) = lock.try_lock() else { return Ok(false) };
        if self.used()?.iter().any(|used| used == dir) || has_workspaces(dir) {
            return Ok(false);
        }
        // Images that no workspace uses may still be mounted.
        let mounts = sys::mounts().map_err(Error::io("list mounts", dir))?;
        for mount in mounts.iter().rev().filter(|mount| mount.point.starts_with(dir)) {
            let unmounted = sys::mount::unmount(&mount.point, Unmount::Plain);
            if unmounted.is_err() {
                return Ok(false);
            }
        }
        let name = dir.file_name().expect("it lies in the directory of repositories");
        let aside = self.state.trash().join(name);
        by_path::rename(dir, &aside).map_err(Error::io("remove", dir))?;
        Ok(true)
    }

    /// Deletes what was renamed away, now or before a kill.
    fn empty_trash(&self) {
        let trash = self.state.trash();
        for (name, _) in by_path::list(&trash).unwrap_or_default() {
            let path = trash.join(name);
            if let Err(error) = by_path::remove_dir_all(&path) {
                self.log(&format!("cannot remove '{}': {error}", path.display()));
            }
        }
    }
}

/// Returns true if workspaces are in a repository. A name with a dot is the rest of a removal that
/// was killed.
fn has_workspaces(dir: &Path) -> bool {
    match by_path::list(&dir.join("git/sapwood/workspaces")) {
        Ok(names) => names.iter().any(|(name, _)| !name.as_encoded_bytes().starts_with(b".")),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Returns the bytes of a directory on the disk. A file with several names counts for each.
fn size(dir: &Path) -> u64 {
    let Ok(facts) = dir.symlink_metadata() else { return 0 };
    let own = facts.blocks() * 512;
    // The files of a mounted image are in its blob files already.
    if !facts.is_dir() || !matches!(sys::mount_id(dir), Ok(Some((_, false)))) {
        return own;
    }
    let names = by_path::list(dir).unwrap_or_default();
    own + names.into_iter().map(|(name, _)| size(&dir.join(name))).sum::<u64>()
}
