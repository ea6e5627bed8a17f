//! The index file: loaded whole, replaced whole.
//!
//! Order of a change: [`lock`], [`load`], change the value, [`commit`]. The lock is taken before loading
//! and held until the new file is renamed over the old, so no other writer's work is lost.
//!
//! On failure the old index stays, and the lock goes with the [`Lock`]. A shared index that was
//! written for a split one before the failure stays behind unused, as Git's would, until it expires.

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
        Entry, Flags, Index, Version,
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
    lock::sync_parent,
};

mod shared;

/// How to read an index.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// `index.threads`; 0 for as many as there are cores.
    pub threads: usize,
    /// Whether the trailing checksum must hold. Git looks at it in `fsck` only.
    pub verify: bool,
    /// What is wanted of it.
    pub access: Access,
}

/// What is wanted of an index that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// All of it.
    #[default]
    All,
    /// Answers about some of the entries, or about each once: they may stay as they are in the file, which stays mapped ([`read::decode_stored`]).
    Lookups,
}

/// How to write an index.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `index.version`, or 4 by `feature.manyFiles`: for an index that has no version yet.
    pub version: Option<u32>,
    /// `index.skipHash`; by default as `feature.manyFiles`.
    pub skip_hash: bool,
    /// `index.threads`; 0 for as many as there are cores.
    pub threads: usize,
    /// `index.recordEndOfIndexEntries`; by default whether `index.threads` is set, and not to 1.
    pub end_of_entries: bool,
    /// `index.recordOffsetTable`; by default whether `index.threads` is set, and not to 1.
    pub offset_table: bool,
    /// `core.splitIndex`; unset, an index stays what it was.
    pub split: Option<bool>,
    /// `splitIndex.maxPercentChange`; 20 by default.
    pub max_percent_change: Option<u8>,
    /// `splitIndex.sharedIndexExpire`
    pub shared_index_expire: Expire,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
}

/// Which shared indices nobody used for long are removed when a new one is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expire {
    /// Those last used more than two weeks ago.
    #[default]
    TwoWeeks,
    /// None.
    Never,
    /// Those last used before this time.
    Before(SystemTime),
}

/// Whether a file's content differs from its entry although its stat data are the entry's.
///
/// Asked of entries that are racy ([`Index::is_racy`]) and not known to be up to date, from several
/// threads. The answer is false where there is no file, or its stat data differ already: such an
/// entry betrays itself. What is said to be modified gets the size 0, so that whoever looks next
/// compares the content.
pub type IsModified<'a> = dyn Fn(&BStr, &Entry) -> bool + Sync + 'a;

/// Why an index could not be read. The messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoadError {
    #[error("{}: index file open failed: {}", .path.display(), sys::reason(.source))]
    Open { path: PathBuf, source: io::Error },
    #[error("{}: unable to map index file: {}", .path.display(), sys::reason(.source))]
    Map { path: PathBuf, source: io::Error },
    #[error("{}: index file smaller than expected", .path.display())]
    TooSmall { path: PathBuf },
    /// Git says `error: <source>` first.
    #[error("index file corrupt")]
    Corrupt { path: PathBuf, source: read::Error },
    #[error("{source}")]
    Format { path: PathBuf, source: read::Error },
    #[error("broken index, expect {expected} in {}, got {found}", .path.display())]
    SharedMismatch { path: PathBuf, expected: ObjectId, found: ObjectId },
}

/// Why an index was not written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CommitError {
    /// As Git, rather than write an index that cannot be committed.
    #[error("cache entry has null sha1: {path}")]
    NullOid { path: bstr::BString },
    #[error(transparent)]
    Store(#[from] Error),
}

/// Takes `<path>.lock`. Take it before loading, hold it until [`commit`].
pub fn lock(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
    Lock::take(path, options)
}

/// What tells an index file from another that takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    checksum: ObjectId,
    /// The checksum may be left out (`index.skipHash`).
    modified: (i64, u32),
    inode: u64,
    size: u64,
}

impl Fingerprint {
    fn new(checksum: ObjectId, stat: &Stat) -> Fingerprint {
        Fingerprint { checksum, modified: stat.mtime, inode: stat.ino, size: stat.size }
    }
}

/// The fingerprint of the index at `path`, for who has locked it and knows what it was ([`load_with_fingerprint`]). `None` if there is none, or it cannot be read.
pub fn fingerprint(path: &Path, hash: HashKind) -> Option<Fingerprint> {
    use io::{Read as _, Seek as _};
    let mut file = by_path::open(path).ok()?;
    let stat = sys::stat_of(&file).ok()?;
    let mut trailer = vec![0; hash.len()];
    file.seek(io::SeekFrom::End(-i64::try_from(hash.len()).ok()?)).ok()?;
    file.read_exact(&mut trailer).ok()?;
    let checksum = ObjectId::from_bytes(hash, &trailer)?;
    Some(Fingerprint::new(checksum, &stat))
}

/// Reads the index at `path`, and the shared index beside it if it is split. A missing file is an
/// empty index.
pub fn load(path: &Path, hash: HashKind, options: &ReadOptions) -> Result<Index, LoadError> {
    Ok(load_with_fingerprint(path, hash, options)?.0)
}

/// The same, and what its file was; `None` if there was none.
pub fn load_with_fingerprint(
    path: &Path,
    hash: HashKind,
    options: &ReadOptions,
) -> Result<(Index, Option<Fingerprint>), LoadError> {
    let _phase = profile::span(Phase::Index);
    let (decoded, stat) = match decode(path, hash, options) {
        Err(LoadError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok((Index::empty(hash), None));
        }
        result => result?,
    };
    let seen = Fingerprint::new(decoded.checksum(), &stat);
    let mut index = match decoded.base() {
        None => decoded.finish().map_err(|source| refused(path, source))?,
        Some(expected) => {
            let base_path = shared::path(path, expected);
            let (base, _) = decode(&base_path, hash, options)?;
            let found = base.checksum();
            if found != expected {
                return Err(LoadError::SharedMismatch { path: base_path, expected, found });
            }
            shared::freshen(&base_path);
            decoded.merge(base).map_err(|source| refused(path, source))?
        }
    };
    index.timestamp = timestamp(&stat);
    Ok((index, Some(seen)))
}

/// Smudges racy entries, writes the index into the lock's file and renames that into place.
///
/// `index` is afterwards what the file holds, down to its timestamp.
pub fn commit(
    mut lock: Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
    is_modified: &IsModified<'_>,
) -> Result<(), CommitError> {
    let _phase = profile::span(Phase::Index);
    let threads = cores(options.threads);
    smudge(index, threads, is_modified);
    check_mapped_files()?;
    match attempt(&mut lock, index, options, fsync) {
        // Without its index a worktree that was just changed is full of local changes: worth trying twice.
        Err(CommitError::Store(_)) if lock.is_held() => {
            lock.restart()?;
            attempt(&mut lock, index, options, fsync)
        }
        answer => answer,
    }
}

fn attempt(
    lock: &mut Lock,
    index: &mut Index,
    options: &WriteOptions,
    fsync: &Fsync,
) -> Result<(), CommitError> {
    match options.split.unwrap_or(index.base.is_some()) && !index.sparse {
        true => {
            let delta = share(lock, index, options, fsync)?;
            let base = index.base.expect("made if there was none");
            write(lock.file(), index, Part::Split { base, delta: &delta }, options, Trailer::AsConfigured)
                .map_err(|error| error.at(lock.lock_path()))?;
        }
        false => {
            index.base = None;
            write(lock.file(), index, Part::Whole, options, Trailer::AsConfigured)
                .map_err(|error| error.at(lock.lock_path()))?;
        }
    }
    let stat = sys::stat_of(lock.file()).map_err(|source| Error::Io {
        what: "stat",
        path: lock.lock_path().to_owned(),
        source,
    })?;
    lock.sync(fsync, Components::INDEX)?;
    let path = lock.path().to_owned();
    lock.publish()?;
    index.timestamp = timestamp(&stat);
    Ok(sync_parent(fsync, Components::INDEX, &path)?)
}

/// Sees to it that there is a shared index for this one, and says how this one differs from it.
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
        // Where it is gone, or damaged, there has to be another one.
        if let Some(delta) = delta.filter(|delta| !delta.exceeds(index.len(), percent)) {
            shared::freshen(&path);
            return Ok(delta);
        }
    }
    let new = shared::NewSharedIndex::create(lock.path(), options.shared)?;
    let oid = write(new.file(), index, Part::Shared, options, Trailer::Hash)
        .map_err(|error| error.at(new.path()))?;
    new.publish(oid, fsync)?;
    shared::expire(lock.path(), oid, options.shared_index_expire);
    index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::UNSHARED));
    index.base = Some(oid);
    Ok(Delta::default())
}

/// From the shared index `oid`, which is at `path`. `None` if it is not.
fn difference(path: &Path, oid: ObjectId, index: &Index) -> Option<Delta> {
    let map = by_path::open(path).and_then(|file| sys::Map::of(&file)).ok()?;
    let is_the_same = read::checksum(&map, index.hash) == Ok(oid);
    is_the_same.then(|| Delta::between(&map, index).ok()).flatten()
}

/// A file of less bytes is read by one thread.
const WORTH_THREADS: usize = 1 << 16;

fn decode(path: &Path, hash: HashKind, options: &ReadOptions) -> Result<(Decoded, Stat), LoadError> {
    let file = by_path::open(path).map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
    let unreadable = sys::unreadable_page_count();
    let mapped = || Ok((sys::stat_of(&file)?, sys::Map::of(&file)?));
    let (stat, map) = mapped().map_err(|source| LoadError::Map { path: path.to_owned(), source })?;
    let threads = match map.len() < WORTH_THREADS {
        // How many cores there are is asked only where it matters.
        true => 1,
        false => {
            // All of it at once, where it comes from far away; of what is in memory it takes 30 µs for 10 MB.
            map.prefetch();
            cores(options.threads)
        }
    };
    let how = read::Options {
        threads,
        verify: options.verify,
        prepare_memory: sys::use_huge_pages,
        in_parallel: sys::in_parallel,
    };
    let decoded = match options.access {
        Access::All => read::decode(&map, hash, how),
        Access::Lookups => read::decode_stored(Bytes::from_owner(map), hash, how),
    };
    // What others met before, in maps of theirs, is no reason to leave unrecorded what was done.
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

/// Marks entries whose file was changed so soon after it was compared that its stat data do not show it.
fn smudge(index: &mut Index, threads: usize, is_modified: &IsModified<'_>) {
    if !index.has_racy() {
        return;
    }
    let racy: Vec<usize> = (0..index.entries().len())
        .filter(|&at| {
            let entry = &index.entries()[at];
            !entry.flags.contains(Flags::UPTODATE) && index.is_racy(entry)
        })
        .collect();
    if racy.is_empty() {
        return;
    }
    let seen = &*index;
    let modified = |positions: &[usize]| -> Vec<usize> {
        let modified = |&&at: &&usize| is_modified(seen.path_at(at), &seen.entries()[at]);
        positions.iter().filter(modified).copied().collect()
    };
    // Each is a stat and, if nothing shows, a file read: worth a thread long before reading entries is.
    const PER_THREAD: usize = 32;
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
        index.entries_mut()[at].stat.size = 0;
    }
}

/// What ends the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trailer {
    /// Its hash, or zeros by `index.skipHash`.
    AsConfigured,
    /// Its hash, because the file is named by it.
    Hash,
}

fn write(
    file: &File,
    index: &Index,
    part: Part<'_>,
    options: &WriteOptions,
    trailer: Trailer,
) -> Result<ObjectId, WriteError> {
    // Below this a thread costs more than hashing does.
    const WORTH_A_THREAD: usize = 5000;
    let threads = cores(options.threads);
    let hashing = match trailer {
        Trailer::AsConfigured if options.skip_hash => Hashing::Skip,
        _ if threads > 1 && index.entries().len() >= WORTH_A_THREAD => Hashing::Threaded,
        _ => Hashing::Inline,
    };
    let version = options.version.and_then(Version::from_number).unwrap_or(Version::V2);
    let blocks = if options.offset_table { blocks(index.entries().len(), options.threads) } else { 0 };
    let format = write::Options { version, end_of_entries: options.end_of_entries, blocks };
    let mut out = HashWriter::new(file, index.hash, hashing);
    write::encode(index, part, &format, &mut |piece| out.write(piece))?;
    let (_, checksum) = out.finish().map_err(write::Error::Emit)?;
    Ok(checksum)
}

/// How many blocks the offset table gets, as Git has it: by `index.threads`, or one core is left for
/// whoever reads the extensions.
fn blocks(entries: usize, threads: usize) -> usize {
    const PER_BLOCK: usize = 10_000;
    match threads {
        0 => (entries / PER_BLOCK).min(cores(0) - 1),
        threads => threads.min(entries),
    }
}

type WriteError = write::Error<io::Error>;

trait At {
    fn at(self, path: &Path) -> CommitError;
}

impl At for WriteError {
    fn at(self, path: &Path) -> CommitError {
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

/// A file's modification time, as an index keeps times.
fn timestamp(stat: &Stat) -> (u32, u32) {
    let (seconds, nanoseconds) = stat.mtime;
    (seconds as u32, nanoseconds)
}

/// Two weeks, or whatever else, before now. `None` for never.
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
