//! Makes a tree of directories, links and files from an index and another checkout of it.

use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Flags, Index, Stat};
use sys::{Dir, DirMut};

use crate::{crew, look::stat::index_stat};

/// A failed step.
pub(crate) struct Failed {
    pub(crate) action: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// A tree to make.
pub(crate) struct Populate<'a> {
    /// The entries. Those outside of the sparse patterns have no file.
    pub(crate) index: &'a Index,
    /// The checkout that provides the targets of links.
    pub(crate) from: &'a Dir,
    /// The new directory, which is empty.
    pub(crate) to: &'a DirMut,
    /// Its path, for errors.
    pub(crate) top: &'a Path,
    /// Makes the regular file of the entry at this position. An error has the action that failed.
    pub(crate) make_file: &'a (dyn Fn(usize) -> Result<(), (&'static str, io::Error)> + Sync),
}

impl Populate<'_> {
    /// Makes everything. Returns the stat data of every entry.
    pub(crate) fn run(&self, workers: usize) -> Result<Vec<Stat>, Failed> {
        self.create_directories()?;
        // Neighbouring entries share directories, so a worker takes several at a time.
        const BATCH: usize = 256;
        let starts = (0..self.index.len()).step_by(BATCH);
        let batches: Vec<Range<usize>> =
            starts.map(|start| start..(start + BATCH).min(self.index.len())).collect();
        let mut states = vec![(); workers.max(1)];
        let stats = crew::parallel::map(&batches, &mut states, |(), batch| {
            batch.clone().map(|at| self.make(at)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(stats.into_iter().flatten().collect())
    }

    fn failed(&self, action: &'static str, path: &[u8]) -> impl FnOnce(io::Error) -> Failed + use<> {
        let path = self.top.join(sys::os_str(path));
        move |source| Failed { action, path, source }
    }

    /// Returns true if the entry at position `at` is on disk.
    fn is_there(&self, at: usize) -> bool {
        !self.index.entry(at).flags.contains(Flags::SKIP_WORKTREE)
    }

    fn create_directories(&self) -> Result<(), Failed> {
        let mut dirs: BTreeSet<&BStr> = BTreeSet::new();
        for at in (0..self.index.len()).filter(|&at| self.is_there(at)) {
            let path = self.index.path_at(at);
            let slashes = path.find_iter("/").map(|slash| path[..slash].as_bstr());
            dirs.extend(slashes.chain(self.index.mode_at(at).is_gitlink().then_some(path)));
        }
        // The set is sorted, so each directory comes after its parent.
        dirs.iter().try_for_each(|dir| self.to.create_dir(dir).map_err(self.failed("create", dir)))
    }

    fn make(&self, at: usize) -> Result<Stat, Failed> {
        let (path, mode) = (self.index.path_at(at).as_bytes(), self.index.mode_at(at));
        if !self.is_there(at) {
            return Ok(self.index.entry(at).stat);
        }
        if mode.is_symlink() {
            let target = self.from.read_link(path).map_err(self.failed("read", path))?;
            self.to.symlink(&target, path).map_err(self.failed("create", path))?;
        } else if !mode.is_gitlink() {
            (self.make_file)(at).map_err(|(action, source)| self.failed(action, path)(source))?;
        }
        let stat = self.to.stat(path).map_err(self.failed("examine", path))?;
        Ok(stat.as_ref().map(index_stat).unwrap_or_default())
    }
}
