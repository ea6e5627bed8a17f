//! Folds small packs into one.
//!
//! Commands that add many objects write a pack each ([`crate::objects::ObjectTransaction`]). Every
//! lookup searches every pack, so the number of packs must stay small. Above a limit, their entries
//! are copied into one new pack.
//!
//! Promise: no object is lost, and other processes may read at the same time. The new pack is
//! published and synced before the first old pack is removed. A reader that has an old pack open
//! continues to read it; a reader that does not find the pack lists packs again, as Git does.
//!
//! A pack is a candidate if it is small, its objects are stored whole (Git's own packs have
//! deltas), it has no companion file with a special meaning (`.keep`, `.promisor`, `.mtimes`,
//! `.bitmap`), and no multi-pack-index covers it. Entries are copied unchanged, and verified by
//! their CRC-32. A pack with any damage is skipped.
//!
//! Only one process folds at a time (`objects/maintenance.lock`, which `git maintenance` takes
//! too), and none while `git gc` runs. On any failure the old packs stay.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use format::{HashKind, ObjectId, idx::Idx, midx::Midx, pack};
use sys::{File, by_path};
use zlib_rs::crc32::crc32;

use crate::{
    Components, Error, Fsync, Hashing, Lock, LockOptions, Method, SharedRepository,
    pack::{Entries, Entry, FinishOptions, Staged, Target, Writing},
};

/// The maximum size of a candidate, in bytes. It keeps a fold short, and most results are too large
/// to be copied again.
const SMALL: u64 = 16 << 20;

/// After this time Git treats the `gc.pid` of a `gc` as left behind.
const GC_TIMEOUT: Duration = Duration::from_secs(12 * 60 * 60);

/// The candidates and the options for a fold.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The object directory of a repository.
    pub objects: &'a Path,
    /// The hash of the repository.
    pub hash: HashKind,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// The sync policy. The new pack is synced in any case, unless a test disables all syncs.
    pub fsync: &'a Fsync,
    /// `pack.packSizeLimit`, in bytes.
    pub pack_size_limit: Option<u64>,
    /// `pack.writeReverseIndex`
    pub reverse_index: bool,
    /// `sapwood.foldPacks`: fold if there are more small packs than this.
    pub above: usize,
}

/// Folds small packs if there are too many. Returns the number of packs that were folded; 0 if
/// there was nothing to do, or another process maintains the repository.
pub fn fold(options: &Options<'_>) -> Result<usize, Error> {
    let dir = options.objects.join("pack");
    if candidates(&dir, options)?.len() <= options.above || is_gc_running(options.objects) {
        return Ok(0);
    }
    let Some(_maintenance) = lock_maintenance(options) else { return Ok(0) };
    let mut small: Vec<SmallPack> = candidates(&dir, options)?
        .into_iter()
        .filter_map(|stem| SmallPack::open(stem, options.hash))
        .collect();
    if small.len() <= options.above {
        return Ok(0);
    }
    let mut room = options.pack_size_limit.unwrap_or(u64::MAX);
    small.retain(|pack| match room.checked_sub(pack.size) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });
    if small.len() < 2 {
        return Ok(0);
    }
    let Some((new, copied)) = copy(&small, options)? else { return Ok(0) };
    // A process that writes a multi-pack-index now waits for the lock, and then covers no removed
    // pack.
    let midx_path = dir.join("multi-pack-index");
    let Ok(_midx) = Lock::take(&midx_path, &lock_options(options)) else { return Ok(0) };
    let still: HashSet<PathBuf> = candidates(&dir, options)?.into_iter().collect();
    let mut removed = 0;
    for pack in copied {
        if pack.stem == new || !still.contains(&pack.stem) {
            continue;
        }
        // The index is removed first: no reader opens a pack without it.
        for extension in ["idx", "rev", "pack"] {
            match by_path::remove_file(&pack.stem.with_extension(extension)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let path = pack.stem.with_extension(extension);
                    return Err(Error::Io { what: "remove", path, source: error });
                }
                _ => {}
            }
        }
        removed += 1;
    }
    Ok(removed)
}

fn lock_options(options: &Options<'_>) -> LockOptions {
    LockOptions { shared: options.shared, ..LockOptions::default() }
}

/// The first word in the lock file of a fold. Its process id follows.
const OWNER: &[u8] = b"sapwood ";

/// Takes the lock. A lock that a killed fold left behind is removed. If two processes remove it at
/// the same time, both fold: each removes only packs whose objects are in its own new pack, so no
/// object is lost.
fn lock_maintenance(options: &Options<'_>) -> Option<Lock> {
    let take = || Lock::take(&options.objects.join("maintenance"), &lock_options(options));
    let mut lock = match take() {
        Err(Error::Locked { path, .. }) if is_left_behind(&path) => {
            by_path::remove_file(&path).ok()?;
            take().ok()?
        }
        answer => answer.ok()?,
    };
    lock.write(&[OWNER, std::process::id().to_string().as_bytes(), b"\n"].concat()).ok()?;
    Some(lock)
}

fn is_left_behind(lock: &Path) -> bool {
    let content = by_path::read(lock).ok().flatten().unwrap_or_default();
    let pid =
        content.strip_prefix(OWNER).and_then(|pid| std::str::from_utf8(pid).ok()?.trim_end().parse().ok());
    pid.is_some_and(|pid| sys::is_running(pid) == Some(false))
}

/// Returns true if a `gc` runs, or a `gc` that ended recently did not remove its file.
fn is_gc_running(objects: &Path) -> bool {
    let Some(file) = objects.parent().map(|dir| dir.join("gc.pid")) else { return false };
    match by_path::stat_followed(&file) {
        Ok(None) => false,
        Ok(Some(stat)) => {
            let started = SystemTime::UNIX_EPOCH + Duration::from_secs(stat.mtime.0.max(0).unsigned_abs());
            started.elapsed().map_or(true, |age| age <= GC_TIMEOUT)
        }
        Err(_) => true,
    }
}

/// Returns the paths, without extensions, of the packs that are candidates by their names and
/// sizes, sorted.
fn candidates(dir: &Path, options: &Options<'_>) -> Result<Vec<PathBuf>, Error> {
    let listed = match by_path::list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(|source| Error::Io { what: "read", path: dir.to_owned(), source })?,
    };
    let mut extensions: BTreeMap<PathBuf, (usize, bool)> = BTreeMap::new();
    for (name, _) in listed {
        if name == "multi-pack-index.d" {
            // Incremental multi-pack-indexes are rare. If there is one, nothing is folded.
            return Ok(Vec::new());
        }
        let path = dir.join(name);
        let Some(extension) = path.extension() else { continue };
        let (needed, is_marked) = match extension.to_str() {
            Some("pack" | "idx") => (1, false),
            Some("rev") => (0, false),
            _ => (0, true),
        };
        let found = extensions.entry(path.with_extension("")).or_default();
        *found = (found.0 + needed, found.1 || is_marked);
    }
    let Some(covered) = covered(dir, options.hash) else { return Ok(Vec::new()) };
    let is_small = |stem: &PathBuf| {
        let size = by_path::stat(&stem.with_extension("pack")).ok().flatten().map(|stat| stat.size);
        size.is_some_and(|size| size <= SMALL)
    };
    let stems = extensions.into_iter().filter(|(_, (needed, is_marked))| *needed == 2 && !is_marked);
    let stems = stems.map(|(stem, _)| stem).filter(|stem| !covered.contains(stem));
    let stems =
        stems.filter(|stem| stem.file_name().is_some_and(|name| is_standard(name.as_encoded_bytes())));
    Ok(stems.filter(is_small).collect())
}

fn is_standard(name: &[u8]) -> bool {
    name.strip_prefix(b"pack-").is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns the packs that a multi-pack-index covers. Returns `None` if it cannot be read.
fn covered(dir: &Path, hash: HashKind) -> Option<HashSet<PathBuf>> {
    let Some(content) = by_path::read(&dir.join("multi-pack-index")).ok()? else {
        return Some(HashSet::new());
    };
    let midx = Midx::parse(content, hash).ok()?;
    let names = midx.pack_names().map(|name| dir.join(sys::os_str(name)).with_extension(""));
    Some(names.collect())
}

/// Receives the name, the bytes and the CRC-32 of an entry.
type Take<'t> = dyn FnMut(ObjectId, &[u8], u32) -> Result<(), Error> + 't;

/// A candidate for a fold.
struct SmallPack {
    stem: PathBuf,
    file: File,
    size: u64,
    idx: Idx<Vec<u8>>,
    /// The positions in the index, in the order of the offsets.
    order: Vec<u32>,
}

impl SmallPack {
    /// Opens a pack. Returns `None` if it has deltas or damage, or does not exist.
    fn open(stem: PathBuf, hash: HashKind) -> Option<SmallPack> {
        let idx = Idx::parse(by_path::read(&stem.with_extension("idx")).ok()??, hash).ok()?;
        let file = by_path::open(&stem.with_extension("pack")).ok()?;
        let size = sys::stat_of(&file).ok()?.size;
        let order = format::rev::order_of(&idx)?;
        let pack = SmallPack { stem, file, size, idx, order };
        let mut window = Window { file: &pack.file, start: 0, bytes: Vec::new() };
        let header = window.at(0, size)?;
        let mut trailer = vec![0; hash.len()];
        pack.file.read_exact_at(&mut trailer, size.checked_sub(hash.len() as u64)?).ok()?;
        if pack::parse_header(header).ok()? != pack.idx.count() || trailer != pack.idx.pack_checksum() {
            return None;
        }
        for &n in &pack.order {
            let entry = pack::parse_entry(window.at(pack.idx.offset(n)?, size)?, hash).ok()?;
            pack.idx.crc32(n).filter(|_| matches!(entry.stored, pack::Stored::Whole(_)))?;
        }
        Some(pack)
    }

    /// Calls `take` with each entry, in the order of the file. Returns false if the file does not
    /// match its index.
    fn entries(&self, hash: HashKind, take: &mut Take<'_>) -> Result<bool, Error> {
        let ends = self.order[1.min(self.order.len())..].iter().map(|&n| self.idx.offset(n));
        let ends = ends.chain([self.size.checked_sub(hash.len() as u64)]);
        let mut bytes = Vec::new();
        for (&n, end) in self.order.iter().zip(ends) {
            let (Some(start), Some(end)) = (self.idx.offset(n), end) else { return Ok(false) };
            let len = end.checked_sub(start).and_then(|len| usize::try_from(len).ok());
            let Some(len) = len.filter(|_| end <= self.size) else { return Ok(false) };
            bytes.resize(len, 0);
            if self.file.read_exact_at(&mut bytes, start).is_err() {
                return Ok(false);
            }
            let sum = crc32(0, &bytes);
            if self.idx.crc32(n) != Some(sum) {
                return Ok(false);
            }
            take(self.idx.name(n), &bytes, sum)?;
        }
        Ok(true)
    }
}

/// Part of a file, so that many small entries cost one read.
struct Window<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns the bytes from `offset` on, enough for the header of an entry, in a file of `size`
    /// bytes.
    fn at(&mut self, offset: u64, size: u64) -> Option<&[u8]> {
        const PIECE: u64 = 64 << 10;
        const ENOUGH: u64 = 64;
        let wanted = size.checked_sub(offset)?.min(ENOUGH);
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + wanted > end {
            let len = usize::try_from((size - offset).min(PIECE)).ok()?;
            self.bytes.resize(len, 0);
            self.file.read_exact_at(&mut self.bytes, offset).ok()?;
            self.start = offset;
        }
        self.bytes.get(usize::try_from(offset - self.start).ok()?..)
    }
}

/// Copies the packs into a new one and publishes it. Returns the path of the new pack without an
/// extension, and the packs that were copied. Returns `None` if fewer than two can be copied.
fn copy<'p>(
    packs: &'p [SmallPack],
    options: &Options<'_>,
) -> Result<Option<(PathBuf, Vec<&'p SmallPack>)>, Error> {
    let mut fsync = *options.fsync;
    fsync.components |= Components::PACK | Components::PACK_METADATA;
    fsync.method = Method::Fsync;
    let Options { objects, hash, shared, .. } = *options;
    let target = Target { objects, hash, shared, fsync: &fsync };
    let mut staged = Staged::create(target, Hashing::Skip, Writing::Direct)?;
    let path = staged.path().to_owned();
    let io = |what| {
        let path = path.clone();
        move |source| Error::Io { what, path: path.clone(), source }
    };
    staged.writer().write(&pack::encode_header(0)).map_err(io("write"))?;
    let (mut entries, mut names, mut copied) = (Vec::new(), HashSet::new(), Vec::new());
    for pack in packs {
        let checkpoint = staged.writer().checkpoint().map_err(io("write"))?;
        let before = entries.len();
        let is_whole = pack.entries(hash, &mut |oid, bytes, crc32| {
            if names.insert(oid) {
                entries.push(Entry { oid, offset: staged.writer().position(), crc32 });
                staged.writer().write(bytes).map_err(io("write"))?;
            }
            Ok(())
        })?;
        if is_whole {
            copied.push(pack);
        } else {
            for entry in entries.drain(before..) {
                names.remove(&entry.oid);
            }
            staged.writer().rewind(&checkpoint).map_err(io("truncate"))?;
        }
    }
    if copied.len() < 2 {
        return Ok(None);
    }
    let count = u32::try_from(entries.len()).expect("small packs have fewer objects");
    let beside = FinishOptions { reverse_index: options.reverse_index, ..FinishOptions::default() };
    let complete = staged.set_count(count)?.finish(&Entries::from(entries), &beside)?;
    let stem = complete.stem();
    complete.publish()?;
    Ok(Some((stem, copied)))
}

#[cfg(test)]
mod tests;
