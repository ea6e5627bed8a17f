//! Workspaces without an upper layer: a btrfs snapshot, or a copy that shares blocks.

use std::{collections::BTreeSet, io, ops::Range, path::Path};

use bstr::{BStr, ByteSlice as _};
use format::{
    Mode,
    index::{Flags, Index, Stat},
};
use store::{
    Fsync, LockOptions,
    index::{ReadOptions, WriteOptions},
};
use sys::{Dir, by_path};

use super::Error;
use crate::{crew, look::stat::index_stat, workspace::base::Base};

/// Replaces the directory `top`, which contains only a file `.git`, by a snapshot of the base.
pub fn snapshot(base: &Base, top: &Path) -> Result<(), Error> {
    by_path::remove_file(&top.join(".git")).map_err(Error::io("remove", top))?;
    by_path::remove_dir(top).map_err(Error::io("remove", top))?;
    sys::volume::create_snapshot(&base.files(), top).map_err(Error::io("create", top))
}

/// Copies the files of the base into the directory `top`, as reflinks that share blocks. The index
/// in `admin` is that of the base. Its stat data are replaced by those of the copies.
pub fn copy(base: &Base, admin: &Path, top: &Path, workers: usize, fsync: &Fsync) -> Result<(), Error> {
    let path = admin.join("index");
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
        Error::io("update", &path)(io::Error::other(source))
    };
    let lock = store::index::lock(&path, &LockOptions::default()).map_err(|error| failed(error.into()))?;
    let loaded = store::index::load(&path, base.tree.kind(), &ReadOptions::default());
    let mut index = loaded.map_err(|error| failed(error.into()))?;
    let files = base.files();
    let copier = Copier {
        from: Dir::open(&files).map_err(Error::io("open", &files))?,
        to: Dir::open(top).map_err(Error::io("open", top))?,
        index: &index,
        top,
    };
    copier.create_directories()?;
    let stats = copier.copy(workers)?;
    for (entry, stat) in index.entries_mut().iter_mut().zip(stats) {
        entry.stat = stat;
        entry.flags.remove(Flags::UPTODATE | Flags::FSMONITOR_VALID);
    }
    let options = WriteOptions { split: Some(false), ..WriteOptions::default() };
    let written = store::index::commit(lock, &mut index, &options, fsync, &|_, _| false);
    written.map_err(|error| failed(error.into()))
}

struct Copier<'a> {
    from: Dir,
    to: Dir,
    index: &'a Index,
    top: &'a Path,
}

impl Copier<'_> {
    fn failed(&self, action: &'static str, path: &[u8]) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = self.top.join(sys::os_str(path));
        move |source| Error::Io { action, path, source }
    }

    /// Returns true if the entry at position `at` is on disk.
    fn is_there(&self, at: usize) -> bool {
        !self.index.entry(at).flags.contains(Flags::SKIP_WORKTREE)
    }

    fn create_directories(&self) -> Result<(), Error> {
        let mut dirs: BTreeSet<&BStr> = BTreeSet::new();
        for at in (0..self.index.len()).filter(|&at| self.is_there(at)) {
            let path = self.index.path_at(at);
            let slashes = path.find_iter("/").map(|slash| path[..slash].as_bstr());
            dirs.extend(slashes.chain(self.index.mode_at(at).is_gitlink().then_some(path)));
        }
        // The set is sorted, so each directory comes after its parent.
        dirs.iter().try_for_each(|dir| self.to.create_dir(dir).map_err(self.failed("create", dir)))
    }

    /// Copies all files. Returns the stat data of every entry.
    fn copy(&self, workers: usize) -> Result<Vec<Stat>, Error> {
        // Neighbouring entries share directories, so a worker takes several at a time.
        const BATCH: usize = 256;
        let starts = (0..self.index.len()).step_by(BATCH);
        let batches: Vec<Range<usize>> =
            starts.map(|start| start..(start + BATCH).min(self.index.len())).collect();
        let mut states = vec![(); workers.max(1)];
        let stats = crew::parallel::map(&batches, &mut states, |(), batch| {
            batch.clone().map(|at| self.copy_one(at)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(stats.into_iter().flatten().collect())
    }

    fn copy_one(&self, at: usize) -> Result<Stat, Error> {
        let (path, mode) = (self.index.path_at(at).as_bytes(), self.index.mode_at(at));
        if !self.is_there(at) {
            return Ok(self.index.entry(at).stat);
        }
        if mode.is_symlink() {
            let target = self.from.read_link(path).map_err(self.failed("read", path))?;
            self.to.symlink(&target, path).map_err(self.failed("create", path))?;
        } else if mode != Mode::GITLINK {
            let from = self.from.open_file(path).map_err(self.failed("read", path))?;
            let to = self.to.create_new(path, mode.is_executable()).map_err(self.failed("create", path))?;
            sys::reflink(&from, &to).map_err(self.failed("share the blocks of", path))?;
        }
        let stat = self.to.stat(path).map_err(self.failed("examine", path))?;
        Ok(stat.as_ref().map(index_stat).unwrap_or_default())
    }
}

/// Returns an error with the reason if no snapshot of a base can be made at `top`.
pub(super) fn can_snapshot(bases: &Path, top: &Path) -> Result<(), String> {
    for path in [bases, top] {
        if !sys::volume::is_btrfs(path).unwrap_or(false) {
            return Err(format!("'{}' is not on btrfs", path.display()));
        }
    }
    match is_same_volume(bases, top) {
        true => Ok(()),
        false => Err("the base directory and the workspace are on different file systems".to_owned()),
    }
}

/// Returns an error with the reason if files in the two directories cannot share blocks.
pub(super) fn can_share_blocks(bases: &Path, top: &Path) -> Result<(), String> {
    sys::can_reflink(bases, top).map_err(|error| match error.kind() {
        io::ErrorKind::CrossesDevices => {
            "the base directory and the workspace are on different file systems".to_owned()
        }
        _ => format!("files cannot share blocks here: {}", sys::reason(&error)),
    })
}

fn is_same_volume(one: &Path, other: &Path) -> bool {
    let uuid = |path: &Path| sys::volume::uuid(path).ok().flatten();
    match (uuid(one), uuid(other)) {
        (Some(one), Some(other)) => one == other,
        // Kernels before 6.9 do not report the UUID. If the volumes differ, the snapshot fails
        // later.
        _ => true,
    }
}
