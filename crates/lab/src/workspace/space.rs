//! Bytes on disk and in the page cache.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use nix::sys::statvfs::statvfs;

use crate::{Error, measure::Invocation, measure::must};

/// Returns the KiB in use on the file system at `at`, after a sync.
pub(super) fn used(at: &Path) -> Result<i64, Error> {
    must(Path::new("sync"), &["-f", &at.display().to_string()], Path::new("/"))?;
    let of = statvfs(at).map_err(|error| Error::Setup(format!("{}: {error}", at.display())))?;
    let used = (of.blocks() - of.blocks_free()) * of.fragment_size();
    Ok(i64::try_from(used >> 10).unwrap_or(i64::MAX))
}

/// A memory cgroup (version 1) that counts the page cache that a command fills.
pub(super) struct Group(PathBuf);

impl Group {
    /// Creates a group. Returns `None` if the kernel does not support it.
    pub(super) fn new() -> Option<Group> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            PathBuf::from(format!("/sys/fs/cgroup/memory/sapwood-lab-{}-{number}", std::process::id()));
        fs::create_dir(&path).ok().map(|()| Group(path))
    }

    pub(super) fn run(&self, invocation: Invocation) -> Invocation {
        invocation.within(&self.0)
    }

    /// Returns the KiB of page cache that the group's processes have filled. Pages that were cached
    /// before belong to the processes that filled them.
    pub(super) fn cached(&self) -> Option<i64> {
        let text = fs::read_to_string(self.0.join("memory.stat")).ok()?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("cache "))?;
        bytes.trim().parse::<i64>().ok().map(|bytes| bytes >> 10)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("lab: cannot remove {}: {error}", self.0.display());
        }
    }
}
