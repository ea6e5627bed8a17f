//! Reads and replaces the index file.
//!
//! Order of a change: [`lock`], [`load`], change the value, [`commit`]. The lock is taken before
//! loading, and held until the new file is renamed over the old one. So no other writer's change is
//! lost.
//!
//! On failure the old index stays, and dropping the [`Lock`] removes the lock file. A shared index
//! written before the failure stays behind unused until it expires, as in Git.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use bstr::BStr;
use bytes::Bytes;
use format::{
    HashKind, ObjectId,
    index::{
        Entry, Index, Version,
        read::{self, Decoded},
        split::Delta,
        write::{self, Part},
    },
};
use sys::{
    File, Stat, by_path,
    profile::{self, Phase},
};

use crate::{
    Components, Error, Fsync, HashWriter, Hashing, Lock, LockOptions, SharedRepository, check_mapped_files,
    lock::sync_parent, objects::ObjectTransaction,
};

mod fingerprint;
mod shared;

pub use fingerprint::{Fingerprint, fingerprint};
pub use shared::{has_shared_beside, path_of_places};

/// Options for reading an index.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// `index.threads`; 0 means the number of cores.
    pub threads: usize,
    /// True to verify the trailing checksum. Git verifies it only in `fsck`.
    pub verify: bool,
    /// The caller's access pattern.
    pub access: Access,
}

/// The caller's access pattern for the entries of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The caller needs all entries, or changes them.
    #[default]
    All,
    /// The caller looks up some entries, or each entry once. The entries may stay as stored in the
    /// file, which stays mapped ([`read::decode_stored`]).
    Lookups,
}

/// Options for writing an index.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `index.version`, or 4 with `feature.manyFiles`. It applies to an index that has no version
    /// yet.
    pub version: Option<u32>,
    /// `index.skipHash`; the default is `feature.manyFiles`.
    pub skip_hash: bool,
    /// `index.threads`; 0 means the number of cores.
    pub threads: usize,
    /// `index.recordEndOfIndexEntries`; by default true if `index.threads` is set to anything but
    /// 1.
    pub end_of_entries: bool,
    /// `index.recordOffsetTable`; by default true if `index.threads` is set to anything but 1.
    pub offset_table: bool,
    /// `core.splitIndex`; if unset, a split index stays split.
    pub split: Option<bool>,
    /// An index that is not split gets the newest shared index beside it, unless `split` is set or
    /// there is none.
    pub joins_shared: bool,
    /// `splitIndex.maxPercentChange`; the default is 20.
    pub max_percent_change: Option<u8>,
    /// `splitIndex.sharedIndexExpire`
    pub shared_index_expire: Expire,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
}

/// The age of unused shared indices to remove when a new one is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expire {
    /// Last used more than two weeks ago.
    #[default]
    TwoWeeks,
    /// Keep all.
    Never,
    /// Last used before this time.
    Before(SystemTime),
}

/// A callback that returns true if a file's content differs from its entry although its stat fields
/// match.
///
/// [`commit`] calls it, from several threads, for entries that are racy ([`Index::is_racy`]) and
/// not known to be up to date. It returns false if the file is missing, or if its stat fields
/// differ: the stat fields already show such a change. Entries reported as modified get the size 0,
/// so that the next reader compares the content.
pub type IsModified<'a> = dyn Fn(&BStr, &Entry) -> bool + Sync + 'a;

/// The reason why an index could not be read. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("{}: index file open failed: {}", .path.display(), sys::reason(.source))]
    Open { path: PathBuf, source: io::Error },
    #[error("{}: unable to map index file: {}", .path.display(), sys::reason(.source))]
    Map { path: PathBuf, source: io::Error },
    #[error("{}: index file smaller than expected", .path.display())]
    TooSmall { path: PathBuf },
    /// Git prints `error: <source>` first.
    #[error("index file corrupt")]
    Corrupt { path: PathBuf, source: read::Error },
    #[error("{source}")]
    Format { path: PathBuf, source: read::Error },
    #[error("broken index, expect {expected} in {}, got {found}", .path.display())]
    SharedMismatch { path: PathBuf, expected: ObjectId, found: ObjectId },
}

/// The reason why an index was not written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CommitError {
    /// Like Git, refuses to write an index from which no tree can be written.
    #[error("cache entry has null sha1: {path}")]
    NullOid { path: bstr::BString },
    #[error(transparent)]
    Store(#[from] Error),
    /// The new objects could not be published, so the index does not refer to them.
    #[error(transparent)]
    Objects(Error),
}

/// The promise for a new index after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// The new index is there, if the policy hardens indexes.
    New,
    /// The new index or the old one is there, complete: they differ in stat data and cached trees
    /// only.
    Either,
}

/// Takes `<path>.lock`. Call it before loading, and hold the lock until [`commit`].
pub fn lock(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
    Lock::take(path, options)
}

/// Reads the index at `path`, and its shared index if it is split. A missing file counts as an
/// empty index.
pub fn load(path: &Path, hash: HashKind, options: &ReadOptions) -> Result<Index, LoadError> {
    Ok(load_with_fingerprint(path, hash, options)?.0)
}

/// Like [`load`], for a split index whose shared index is the file `shared`, whatever its name.
pub fn load_over(
    path: &Path,
    shared: &Path,
    hash: HashKind,
    options: &ReadOptions,
) -> Result<Index, LoadError> {
    Ok(load_files(path, Some(shared), hash, options)?.0)
}

/// Like [`load`], and returns the file's fingerprint, or `None` if there was no file.
pub fn load_with_fingerprint(
    path: &Path,
    hash: HashKind,
    options: &ReadOptions,
) -> Result<(Index, Option<Fingerprint>), LoadError> {
    load_files(path, None, hash, options)
}

/// Reads an index and its shared index, which is the file `shared`, or has Git's name.
fn load_files(
    path: &Path,
    shared: Option<&Path>,
    hash: HashKind,
    options: &ReadOptions,
) -> Result<(Index, Option<Fingerprint>), LoadError> {
    let _phase = profile::span(Phase::Index);
    let (decoded, stat) = match decode(path, None, hash, options) {
        Err(LoadError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok((Index::empty(hash), None));
        }
        result => result?,
    };
    let seen = Fingerprint::new(decoded.checksum(), &stat);
    let mut index = match decoded.base() {
        None => decoded.finish().map_err(|source| refused(path, source))?,
        Some(expected) => {
            let base_path = shared.map_or_else(|| shared::path(path, expected), Path::to_owned);
            // The shared half is large and never changed in place. Its entries stay in its file
            // even for a caller that changes some of them.
            let lookups = ReadOptions { access: Access::Lookups, ..options.clone() };
            let places = shared::map_places(&base_path);
            let (base, _) = decode(&base_path, places.as_ref(), hash, &lookups)?;
            let found = base.checksum();
            if found != expected {
                return Err(LoadError::SharedMismatch { path: base_path, expected, found });
            }
            if shared.is_none() {
                shared::freshen(&base_path);
            }
            decoded.merge(base).map_err(|source| refused(path, source))?
        }
    };
    index.timestamp = timestamp(&stat);
    Ok((index, Some(seen)))
}

/// Smudges racy entries, writes the index into the lock file, and renames that into place.
///
/// Afterwards `index` equals the file, including its timestamp.
pub fn commit(
    lock: Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
    is_modified: &IsModified<'_>,
) -> Result<(), CommitError> {
    commit_with(lock, index, options, fsync, is_modified, Survival::New, None)
}

/// Like [`commit`], but publishes `objects` before the index that may refer to them. The lock file
/// is synced together with the files of the objects, which saves a round of flushes.
pub fn commit_with(
    mut lock: Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
    is_modified: &IsModified<'_>,
    survival: Survival,
    mut objects: Option<ObjectTransaction<'_>>,
) -> Result<(), CommitError> {
    let _phase = profile::span(Phase::Index);
    smudge(index, options.threads, is_modified);
    check_mapped_files()?;
    match attempt(&mut lock, index, options, fsync, survival, &mut objects) {
        // Without the new index, a worktree that was just changed shows local changes everywhere,
        // so a second attempt is worthwhile.
        Err(CommitError::Store(_)) if lock.is_held() => {
            lock.restart()?;
            attempt(&mut lock, index, options, fsync, survival, &mut objects)
        }
        answer => answer,
    }
}

/// Like [`commit_with`], but does not rename the lock file yet: other programs may read and replace
/// it until [`publish`].
pub fn stage(
    lock: &mut Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
    is_modified: &IsModified<'_>,
    objects: Option<ObjectTransaction<'_>>,
) -> Result<(), CommitError> {
    let _phase = profile::span(Phase::Index);
    smudge(index, options.threads, is_modified);
    check_mapped_files()?;
    prepare(lock, index, options, fsync)?;
    sync(lock, fsync, objects)?;
    Ok(lock.close()?)
}

/// Renames the lock file that [`stage`] wrote, or the file that another program has put in its
/// place, over the index.
pub fn publish(mut lock: Lock, fsync: &Fsync) -> Result<(), Error> {
    let file = by_path::open(lock.lock_path());
    let io = |source| Error::Io { what: "sync", path: lock.lock_path().to_owned(), source };
    fsync.file(Components::INDEX, &file.map_err(io)?).map_err(io)?;
    let path = lock.path().to_owned();
    lock.publish()?;
    sync_parent(fsync, Components::INDEX, &path)
}

fn attempt(
    lock: &mut Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
    survival: Survival,
    objects: &mut Option<ObjectTransaction<'_>>,
) -> Result<(), CommitError> {
    prepare(lock, index, options, fsync)?;
    sync(lock, fsync, objects.take())?;
    let path = lock.path().to_owned();
    lock.publish()?;
    if survival == Survival::New {
        sync_parent(fsync, Components::INDEX, &path)?;
    }
    Ok(())
}

/// Syncs the lock file, and publishes the objects.
fn sync(lock: &Lock, fsync: &Fsync, objects: Option<ObjectTransaction<'_>>) -> Result<(), CommitError> {
    let Some(objects) = objects else { return Ok(lock.sync(fsync, Components::INDEX)?) };
    if fsync.hardens(Components::INDEX) {
        // The first flush of an object's file then commits this file too. The sync reports an error
        // of the disk.
        let _started = sys::start_writeback(lock.file(), 0..i64::MAX as u64);
    }
    objects.publish_with(|| lock.sync(fsync, Components::INDEX)).map_err(CommitError::Objects)
}

/// Writes the lock file.
fn prepare(
    lock: &mut Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
) -> Result<(), CommitError> {
    if options.split.is_none() && options.joins_shared && index.base.is_none() {
        index.base = shared::newest(lock.path(), index.hash);
    }
    if options.split.unwrap_or(index.base.is_some()) && !index.sparse {
        let delta = share(lock, index, options, fsync)?;
        let base = index.base.expect("made if there was none");
        write(lock.file(), index, Part::Split { base, delta: &delta }, options, Trailer::AsConfigured)
            .map_err(|error| error.with_path(lock.lock_path()))?;
    } else {
        index.base = None;
        write(lock.file(), index, Part::Whole, options, Trailer::AsConfigured)
            .map_err(|error| error.with_path(lock.lock_path()))?;
    }
    let stat = sys::stat_of(lock.file()).map_err(|source| Error::Io {
        what: "stat",
        path: lock.lock_path().to_owned(),
        source,
    })?;
    index.timestamp = timestamp(&stat);
    Ok(())
}

/// Ensures that a shared index exists for this one, and returns the differences from it.
fn share(
    lock: &Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
) -> Result<Delta, CommitError> {
    const DEFAULT_PERCENT: u8 = 20;
    let percent = options.max_percent_change.unwrap_or(DEFAULT_PERCENT);
    if let Some(oid) = index.base {
        let path = shared::path(lock.path(), oid);
        let delta = difference(&path, oid, index);
        check_mapped_files()?;
        // If the shared index is missing or damaged, a new one is written.
        if let Some(delta) = delta.filter(|delta| !delta.exceeds(index.len(), percent)) {
            shared::freshen(&path);
            return Ok(delta);
        }
    }
    let new = shared::NewSharedIndex::create(lock.path(), options.shared)?;
    let oid = write(new.file(), index, Part::Shared, options, Trailer::Hash)
        .map_err(|error| error.with_path(new.path()))?;
    new.publish(oid, fsync)?;
    shared::expire(lock.path(), oid, options.shared_index_expire);
    index.clear_unshared();
    index.base = Some(oid);
    Ok(Delta::default())
}

/// Compares with the shared index `oid` at `path`. Returns `None` if the file is missing or has
/// another checksum.
fn difference(path: &Path, oid: ObjectId, index: &Index) -> Option<Delta> {
    let map = by_path::open(path).and_then(|file| sys::Map::of(&file)).ok()?;
    let is_the_same = read::checksum(&map, index.hash) == Ok(oid);
    is_the_same.then(|| Delta::known(index).or_else(|| Delta::between(&map, index).ok())).flatten()
}

/// A file of fewer bytes is read on one thread.
const WORTH_THREADS: usize = 1 << 16;

/// Reads the file at `path`. `places` is the content of the file of its places, if there is one.
fn decode(
    path: &Path,
    places: Option<&Bytes>,
    hash: HashKind,
    options: &ReadOptions,
) -> Result<(Decoded, Stat), LoadError> {
    let file = by_path::open(path).map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
    let unreadable = sys::unreadable_page_count();
    let mapped = || Ok((sys::stat_of(&file)?, sys::Map::of(&file)?));
    let (stat, map) = mapped().map_err(|source| LoadError::Map { path: path.to_owned(), source })?;
    let threads = if map.len() < WORTH_THREADS {
        // Query the number of cores only if it is needed.
        1
    } else {
        // Prefetch the whole file, in case it is on a slow disk. For a cached file this takes
        // 30 µs per 10 MB.
        map.prefetch();
        cores(options.threads)
    };
    let how = read::Options {
        threads,
        verify: options.verify,
        prepare_memory: sys::use_huge_pages,
        in_parallel: sys::in_parallel,
    };
    let decoded = match options.access {
        Access::All => read::decode(&map, hash, how),
        Access::Lookups => read::decode_stored(Bytes::from_owner(map), places, hash, how),
    };
    // A read error that other code met earlier, in another mapping, does not fail this load. The
    // work done so far can then still be recorded.
    if sys::unreadable_page_count() > unreadable
        && let Some((path, source)) = sys::unreadable_map()
    {
        return Err(LoadError::Map { path, source });
    }
    Ok((decoded.map_err(|source| refused(path, source))?, stat))
}

fn refused(path: &Path, source: read::Error) -> LoadError {
    let path = path.to_owned();
    match source {
        read::Error::TooSmall => LoadError::TooSmall { path },
        source if source.is_corruption() => LoadError::Corrupt { path, source },
        source => LoadError::Format { path, source },
    }
}

/// Marks entries whose file changed so soon after it was compared that its stat fields do not show
/// the change.
fn smudge(index: &mut Index, threads: usize, is_modified: &IsModified<'_>) {
    let racy: Vec<usize> = index.racy().filter(|&at| !index.is_uptodate_at(at)).collect();
    if racy.is_empty() {
        return;
    }
    let seen = &*index;
    let modified = |positions: &[usize]| -> Vec<usize> {
        let modified = |&&at: &&usize| is_modified(seen.path_at(at), &seen.entry(at));
        positions.iter().filter(modified).copied().collect()
    };
    // Each entry costs a stat, and a file read if the stat shows no change. So a thread pays off
    // with far fewer entries than for reading an index.
    const PER_THREAD: usize = 32;
    // To learn the number of cores costs a dozen system calls, more than a few entries do.
    let threads = if racy.len() <= PER_THREAD { 1 } else { cores(threads) };
    let share = racy.len().div_ceil(threads).max(PER_THREAD);
    let modified: Vec<usize> = thread::scope(|scope| {
        let mut parts = racy.chunks(share);
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| {
                scope.spawn(|| {
                    let _profiled = profile::thread(Phase::Index);
                    modified(part)
                })
            })
            .collect();
        let mut found = modified(first);
        for other in others {
            match other.join() {
                Ok(more) => found.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    for at in modified {
        index.update(at, |entry| entry.stat.size = 0);
    }
}

/// The trailer of an index file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trailer {
    /// The file's hash, or zeros with `index.skipHash`.
    AsConfigured,
    /// The file's hash, because the file is named after it.
    Hash,
}

fn write(
    file: &File,
    index: &Index,
    part: Part<'_>,
    options: &WriteOptions,
    trailer: Trailer,
) -> Result<ObjectId, WriteError> {
    // Below this number of entries, a thread costs more than hashing does.
    const WORTH_A_THREAD: usize = 5000;
    let hashing = match trailer {
        Trailer::AsConfigured if options.skip_hash => Hashing::Skip,
        _ if index.len() >= WORTH_A_THREAD && cores(options.threads) > 1 => Hashing::Threaded,
        _ => Hashing::Inline,
    };
    let version = options.version.and_then(Version::from_number).unwrap_or(Version::V2);
    let blocks = if options.offset_table { blocks(index.len(), options.threads) } else { 0 };
    let format = write::Options { version, end_of_entries: options.end_of_entries, blocks };
    let mut out = HashWriter::new(file, index.hash, hashing);
    write::encode(index, part, &format, &mut |piece| out.write(piece))?;
    let (_, checksum) = out.finish().map_err(write::Error::Emit)?;
    Ok(checksum)
}

/// Returns the number of blocks in the offset table, as Git computes it: by `index.threads`;
/// otherwise one core stays free to read the extensions.
fn blocks(entries: usize, threads: usize) -> usize {
    const PER_BLOCK: usize = 10_000;
    match threads {
        0 if entries < PER_BLOCK => 0,
        0 => (entries / PER_BLOCK).min(cores(0) - 1),
        threads => threads.min(entries),
    }
}

type WriteError = write::Error<io::Error>;

trait WithPath {
    fn with_path(self, path: &Path) -> CommitError;
}

impl WithPath for WriteError {
    fn with_path(self, path: &Path) -> CommitError {
        match self {
            write::Error::NullOid { path } => CommitError::NullOid { path },
            write::Error::Emit(source) => {
                CommitError::Store(Error::Io { what: "write", path: path.to_owned(), source })
            }
            write::Error::SplitSparse => unreachable!("a sparse index is written whole"),
        }
    }
}

fn cores(threads: usize) -> usize {
    match threads {
        0 => sys::cores(),
        threads => threads,
    }
}

/// Returns a file's modification time, truncated to the width of the index.
fn timestamp(stat: &Stat) -> (u32, u32) {
    let (seconds, nanoseconds) = stat.mtime;
    (seconds as u32, nanoseconds)
}

/// Returns the time before which unused files expire, or `None` for never.
fn deadline(expire: Expire) -> Option<SystemTime> {
    const TWO_WEEKS: Duration = Duration::from_secs(14 * 24 * 60 * 60);
    match expire {
        Expire::TwoWeeks => SystemTime::now().checked_sub(TWO_WEEKS),
        Expire::Never => None,
        Expire::Before(time) => Some(time),
    }
}

#[cfg(test)]
mod tests;
