//! The newer layer of a workspace: files with the bytes of its base and a later modification time.
//!
//! The files of a base are older than every build, and bases share nothing but contents. So a
//! workspace needs to say itself which of its files changed after a build: after a rebase, the
//! files that differ between both commits; in a new workspace with ignored files of another
//! worktree, the files that differ from that worktree, and those that are newer than a build there.
//! The layer lies between the base and the frozen layers. It is written while nothing is mounted,
//! and replaced as a whole. No status reads it: the index has the stat data of its files.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stage, Stat};
use repo::Repository;
use store::{Fsync, LockOptions, index::WriteOptions};
use sys::{Dir, DirMut, FileType, by_path};

use super::{
    backend::{self, Door, image},
    base::{Base, OLDEST_BASE, find_in},
};
use crate::{
    crew::parallel,
    files::own,
    look::{
        LookError,
        compare::{self, Positions},
        facts::{QueryKind, Seen},
        stat::{Match, index_stat},
    },
};

/// Seconds and nanoseconds of a modification time.
pub type Time = (i64, u32);

/// The modification time of a file of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// A given time.
    At(Time),
    /// The time at which the layer is written. It is later than every given time.
    Now,
}

/// The content of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files and links of the base.
    pub files: BTreeMap<BString, When>,
    /// Directories whose time differs from that of the base. Other directories of the layer are as
    /// new as the newest file in them.
    pub directories: BTreeMap<BString, When>,
}

/// The reason why a layer could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Mount(#[from] backend::Error),
    #[error(transparent)]
    Look(#[from] LookError),
    #[error("cannot update the index '{}': {source}", .path.display())]
    Index { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}

impl Plan {
    /// Returns true if no layer is needed.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    /// Reads the layer at `dir`. Returns an empty plan if there is none.
    pub fn read(dir: &Path) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        if by_path::stat(dir).map_err(Error::io("look at", dir))?.is_some() {
            plan.add(dir, BStr::new(""))?;
        }
        Ok(plan)
    }

    fn add(&mut self, root: &Path, dir: &BStr) -> Result<(), Error> {
        let place = if dir.is_empty() { root.to_owned() } else { root.join(sys::os_str(dir)) };
        for (name, kind) in by_path::list(&place).map_err(Error::io("read", &place))? {
            let mut path = dir.to_owned();
            if !dir.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let place = place.join(&name);
            let stat = by_path::stat(&place).map_err(Error::io("look at", &place))?;
            let stat = stat.ok_or_else(|| Error::io("look at", &place)(ErrorKind::NotFound.into()))?;
            let when = When::At(stat.mtime);
            if kind == FileType::Directory {
                self.add(root, path.as_bstr())?;
                self.directories.insert(path, when);
            } else {
                self.files.insert(path, when);
            }
        }
        Ok(())
    }

    /// Writes the layer to the directory `to`, which must not exist, with files of `base`, which
    /// need not be mounted. Returns the stat data of the files, sorted by path.
    pub fn write(&self, base: &Base, door: &Door, to: &Path) -> Result<Vec<(BString, Stat)>, Error> {
        let held = image::mount(base, door)?;
        let written = self.write_mounted(base, to);
        drop(held);
        let _ = image::unmount_if_unused(base, door);
        if written.is_err() {
            let _ = by_path::remove_dir_all(to);
        }
        written
    }

    /// Gives the files below `top`, a writable copy of a base, the times of this plan. Returns
    /// their stat data, sorted by path.
    pub fn apply(&self, top: &Path) -> Result<Vec<(BString, Stat)>, Error> {
        let root = own::open(top).map_err(Error::io("open", top))?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), now.subsec_nanos());
        let set = |path: &BString, when: When| -> Result<Stat, Error> {
            let failed = |action| Error::io(action, &top.join(sys::os_str(path)));
            let time = if let When::At(time) = when { time } else { now };
            root.set_modified(path, time).map_err(failed("change the time of"))?;
            let stat = root.stat(path).map_err(failed("look at"))?;
            Ok(stat.as_ref().map(index_stat).unwrap_or_default())
        };
        let stats = self.files.iter().map(|(path, when)| Ok((path.clone(), set(path, *when)?)));
        let stats = stats.collect::<Result<_, Error>>()?;
        self.directories.iter().try_for_each(|(path, when)| set(path, *when).map(drop))?;
        Ok(stats)
    }

    fn write_mounted(&self, base: &Base, to: &Path) -> Result<Vec<(BString, Stat)>, Error> {
        const BATCH: usize = 64;
        let open = |path: &Path| Dir::open(path).map_err(Error::io("open", path));
        by_path::create_dir(to).map_err(Error::io("create", to))?;
        let writer = Writer {
            shown: base.layers().iter().map(|dir| open(dir)).collect::<Result<_, _>>()?,
            bytes: [base.bytes()]
                .iter()
                .chain(&base.layers()[1..])
                .map(|dir| open(dir))
                .collect::<Result<_, _>>()?,
            to: own::open(to).map_err(Error::io("open", to))?,
            top: to,
            base: &base.files(),
        };
        let dirs = self.all_directories();
        let mut times = Vec::new();
        for (dir, when) in &dirs {
            times.extend(writer.create_dir(dir)?.map(|of_base| (dir, when.unwrap_or(When::At(of_base)))));
        }
        let files: Vec<(&BString, When)> = self.files.iter().map(|(path, when)| (path, *when)).collect();
        let batches: Vec<&[(&BString, When)]> = files.chunks(BATCH).collect();
        let mut states = vec![(); parallel::threads(files.len(), BATCH, sys::cores())];
        let stats = parallel::map(&batches, &mut states, |(), batch| {
            batch.iter().map(|(path, when)| writer.copy(path.as_bstr(), *when)).collect::<Result<Vec<_>, _>>()
        })?;
        for (dir, when) in times {
            if let When::At(time) = when {
                let failed = Error::io("change the time of", &to.join(sys::os_str(dir)));
                writer.to.set_modified(dir, time).map_err(failed)?;
            }
        }
        Ok(files.into_iter().map(|(path, _)| path.clone()).zip(stats.into_iter().flatten()).collect())
    }

    /// Returns all directories of the layer, each after its parent, with their times. `None` stands
    /// for the time of the base's directory.
    fn all_directories(&self) -> BTreeMap<&BStr, Option<When>> {
        let mut all: BTreeMap<&BStr, Option<When>> = BTreeMap::new();
        let paths: BTreeSet<&BStr> = self.directories.keys().map(|path| path.as_bstr()).collect();
        for path in self.files.keys().map(|path| path.as_bstr()).chain(paths) {
            for end in path.find_iter("/") {
                all.entry(path[..end].as_bstr()).or_default();
            }
        }
        for (path, when) in &self.files {
            if let Some(end) = path.rfind_byte(b'/') {
                let known = all.entry(path[..end].as_bstr()).or_default();
                *known = (*known).max(Some(*when));
            }
        }
        all.extend(self.directories.iter().map(|(path, when)| (path.as_bstr(), Some(*when))));
        all
    }
}

/// Copies files of a base.
struct Writer<'a> {
    /// The layers of the base, as a workspace shows them, from top to bottom.
    shown: Vec<Dir>,
    /// The directories that hold their bytes.
    bytes: Vec<Dir>,
    to: DirMut,
    top: &'a Path,
    base: &'a Path,
}

impl Writer<'_> {
    /// Creates a directory of the layer. Returns the time of the base's directory. Does nothing if
    /// the base has no such directory.
    fn create_dir(&self, path: &BStr) -> Result<Option<Time>, Error> {
        let failed = |action| Error::io(action, &self.top.join(sys::os_str(path)));
        let found = find_in(&self.shown, path).map_err(failed("look at"))?;
        let stat = found.map(|(_, stat)| stat).filter(|stat| stat.file_type == FileType::Directory);
        let Some(stat) = stat else { return Ok(None) };
        self.to.create_dir(path).map_err(failed("create"))?;
        by_path::set_mode(&self.top.join(sys::os_str(path)), stat.mode & 0o7777).map_err(failed("change"))?;
        Ok(Some(stat.mtime))
    }

    fn copy(&self, path: &BStr, when: When) -> Result<Stat, Error> {
        let read = || Error::io("read", &self.base.join(sys::os_str(path)));
        let write = || Error::io("write", &self.top.join(sys::os_str(path)));
        let found = find_in(&self.shown, path).map_err(read())?;
        let (layer, stat) = found.ok_or_else(|| read()(ErrorKind::NotFound.into()))?;
        if stat.file_type == FileType::Symlink {
            let target = self.shown[layer].read_link(path).map_err(read())?;
            self.to.symlink(&target, path).map_err(write())?;
        } else {
            let from = self.bytes[layer].open_file(path).map_err(read())?;
            let to = self.to.create_new(path, false).map_err(write())?;
            if sys::reflink(&from, &to).is_err() {
                sys::copy(&from, &to).map_err(write())?;
            }
            sys::set_mode(&to, stat.mode & 0o7777).map_err(write())?;
        }
        if let When::At(time) = when {
            self.to.set_modified(path, time).map_err(write())?;
        }
        let stat = self.to.stat(path).map_err(write())?;
        Ok(stat.as_ref().map(index_stat).unwrap_or_default())
    }
}

/// The worktree whose ignored files a new workspace gets, after they were copied.
pub struct Source {
    index: Index,
    /// The time of each entry's file, if it has the content of the entry.
    times: Vec<Option<Time>>,
    /// The directories of tracked files.
    directories: Vec<(BString, Time)>,
    /// The time of the oldest copied file that is newer than every base.
    oldest: Option<Time>,
}

impl Source {
    /// Examines the worktree at `root`, whose ignored files were copied to the frozen layer
    /// `copied`.
    pub fn read(repo: &Repository, root: &Dir, index: Index, copied: &Path) -> Result<Source, Error> {
        let oldest = oldest(copied)?;
        let at_all: Vec<usize> = (0..index.len()).filter(|&at| is_file(&index.entry(at))).collect();
        let mut times = vec![None; index.len()];
        for &at in &at_all {
            let (seconds, nanoseconds) = index.entry(at).stat.mtime;
            times[at] = Some((i64::from(seconds), nanoseconds));
        }
        let asked = Positions::These(&at_all);
        for compared in compare::compare(repo, root, &index, asked, QueryKind::StatIfAny)? {
            times[compared.at] = match compared.seen {
                Seen::There(stat) if compared.verdict == Match::Same => Some(stat.mtime),
                _ => None,
            };
        }
        // An index without fractions of seconds does not have the exact time.
        for (at, time) in times.iter_mut().enumerate() {
            if time.is_some_and(|time| time.1 == 0) {
                *time = root.stat(index.path_at(at)).ok().flatten().map(|stat| stat.mtime);
            }
        }
        let mut directories = Vec::new();
        for dir in directories_of(&index) {
            if let Ok(Some(stat)) = root.stat(dir) {
                directories.push((dir.to_owned(), stat.mtime));
            }
        }
        Ok(Source { index, times, directories, oldest })
    }

    /// Plans the newer layer of a workspace on `base`.
    pub fn plan_for(&self, base: &Base) -> Result<Plan, Error> {
        let loaded = base.load_index(&store::index::ReadOptions::default());
        let failed = |error| Error::Index { path: base.rest_of_index(), source: Box::new(error) };
        Ok(self.plan(&loaded.map_err(failed)?))
    }

    /// Plans the newer layer of a workspace on the base with this index. Each file that differs
    /// from the worktree is newer than every copied file. Each other file has the same order with
    /// the copied files as in the worktree.
    fn plan(&self, base: &Index) -> Plan {
        let mut plan = Plan::default();
        let Some(oldest) = self.oldest else { return plan };
        for at in (0..base.len()).filter(|&at| is_file(&base.entry(at))) {
            let (path, entry) = (base.path_at(at), base.entry(at));
            let known = self.index.position(path, Stage::Normal).ok();
            let is_same = |&at: &usize| {
                let own = self.index.entry(at);
                own.oid == entry.oid && own.mode == entry.mode
            };
            match known.filter(is_same).and_then(|at| self.times[at]) {
                Some(time) if time < oldest => {}
                Some(time) => drop(plan.files.insert(path.to_owned(), When::At(time))),
                None => drop(plan.files.insert(path.to_owned(), When::Now)),
            }
        }
        let has = |dir: &BStr| !base.range_below(dir).is_empty();
        for (dir, time) in &self.directories {
            if *time >= oldest && has(dir.as_bstr()) {
                plan.directories.insert(dir.clone(), When::At(*time));
            }
        }
        let parent = |path: &[u8]| path.rfind_byte(b'/').map(|end| BString::from(&path[..end]));
        for at in 0..self.index.len() {
            let path = self.index.path_at(at);
            if base.position(path, Stage::Normal).is_err()
                && let Some(dir) = parent(path).filter(|dir| has(dir.as_bstr()))
            {
                plan.directories.insert(dir, When::Now);
            }
        }
        for (path, _) in plan.files.iter().filter(|(_, when)| **when == When::Now) {
            parent(path).map(|dir| plan.directories.remove(&dir));
        }
        plan
    }
}

fn is_file(entry: &Entry) -> bool {
    entry.stage == Stage::Normal
        && !entry.mode.is_gitlink()
        && !entry.mode.is_tree()
        && !entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD)
}

/// Returns the directories of the entries, each once.
fn directories_of(index: &Index) -> BTreeSet<&BStr> {
    let mut all = BTreeSet::new();
    let mut last = BStr::new("");
    for at in 0..index.len() {
        let path = index.path_at(at);
        let dir = path[..path.rfind_byte(b'/').unwrap_or(0)].as_bstr();
        if dir != last {
            all.extend(dir.find_iter("/").chain([dir.len()]).map(|end| dir[..end].as_bstr()));
            last = dir;
        }
    }
    all.remove(BStr::new(""));
    all
}

/// Returns the time of the oldest file of a layer, without those that are older than every base:
/// programs that install packages give such times to files that nobody built here.
fn oldest(layer: &Path) -> Result<Option<Time>, Error> {
    let mut oldest: Option<Time> = None;
    for (name, kind) in by_path::list(layer).map_err(Error::io("read", layer))? {
        let path = layer.join(name);
        let found = match kind {
            FileType::Directory => self::oldest(&path)?,
            _ => by_path::stat(&path).map_err(Error::io("look at", &path))?.map(|stat| stat.mtime),
        };
        let found = found.filter(|time| time.0 >= OLDEST_BASE);
        oldest = [oldest, found].into_iter().flatten().min();
    }
    Ok(oldest)
}

/// Records the stat data of files of the layer in the index of a new workspace.
pub fn record(
    admin: &Path,
    hash: format::HashKind,
    stats: &[(BString, Stat)],
    fsync: &Fsync,
) -> Result<(), Error> {
    let path = admin.join("index");
    let failed =
        |source: Box<dyn std::error::Error + Send + Sync>| Error::Index { path: path.clone(), source };
    let lock = store::index::lock(&path, &LockOptions::default()).map_err(|error| failed(error.into()))?;
    let loaded = store::index::load(&path, hash, &store::index::ReadOptions::default());
    let mut index = loaded.map_err(|error| failed(error.into()))?;
    for (path, stat) in stats {
        if let Ok(at) = index.position(path.as_bstr(), Stage::Normal) {
            index.update(at, |entry| entry.stat = *stat);
        }
    }
    let options = WriteOptions { split: Some(true), ..WriteOptions::default() };
    let written = store::index::commit(lock, &mut index, &options, fsync, &|_, _| false);
    written.map(drop).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_as_new_as_its_newest_file() {
        let (old, new) = (When::At((1, 0)), When::At((2, 0)));
        let plan = Plan {
            files: [("a/b/c", old), ("a/b/d", new), ("e/f/g", When::Now), ("h", old)]
                .map(|(path, when)| (path.into(), when))
                .into(),
            directories: [("a/x/y".into(), When::Now)].into(),
        };
        let expected = [
            ("a", None),
            ("a/b", Some(new)),
            ("a/x", None),
            ("a/x/y", Some(When::Now)),
            ("e", None),
            ("e/f", Some(When::Now)),
        ];
        assert_eq!(plan.all_directories(), expected.map(|(path, when)| (path.into(), when)).into());
    }
}
