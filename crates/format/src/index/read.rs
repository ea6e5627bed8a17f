//! Reads an [`Index`] from bytes.
//!
//! Order: header, entries, extensions, order of the entries. One thread reads the paths of the
//! entries, the cache-tree and the untracked cache; another reads the rest. All data are read
//! directly into their final memory: a copy would touch more memory for the first time, which costs
//! more than reading. As in Git, the file's trailer is verified only on request; a trailer of zeros
//! is always valid. The error messages are Git's.
//!
//! [`decode_stored`] keeps the entries of an ordinary file in place, without decoding them. For any
//! other file it falls back to [`decode`]. Therefore both accept and refuse the same files.
//!
//! The file of a split index holds only one part. [`Decoded::base`] names the file with the other
//! part, and [`Decoded::merge`] combines them.

use std::{ops::Range, thread};

use ::bytes::Bytes;
use bstr::{BString, ByteSlice};

use super::{
    Entry, HEADER, Index, Overview, RawExtension, Version,
    bytes::Reader,
    cache_tree::CacheTree,
    entry::{Codec, Paths},
    fsmonitor, offsets, places,
    resolve_undo::ResolveUndo,
    scan::{self, Scan},
    split::Link,
    table::{Stored, Table},
    untracked::UntrackedCache,
};
use crate::{HashKind, ObjectId, hash::Hasher};

/// Below this number of entries, a thread costs more than it saves (Git's threshold).
const WORTH_A_THREAD: usize = 10_000;

/// Options for reading an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The maximum number of threads; 0 counts as 1.
    pub threads: usize,
    /// True to verify the trailing checksum. Git verifies it only in `fsck`.
    pub verify: bool,
    /// Called with a large range of memory before it is filled for the first time. The callback may
    /// ask the system for huge pages.
    pub prepare_memory: PrepareMemory,
    /// Runs two closures at once, the first in a thread of its own.
    pub in_parallel: RunInParallel,
}

/// A callback for a range of memory that is about to be filled for the first time.
pub type PrepareMemory = fn(Range<*const u8>);

/// Runs both closures, in parallel if possible. The second closure calls its argument at least
/// about every 0.1 ms.
pub type RunInParallel = fn(&mut (dyn FnMut() + Send), &mut dyn FnMut(&dyn Fn()));

impl Options {
    /// Creates options without a callback for memory.
    pub const fn new(threads: usize, verify: bool) -> Options {
        Options { threads, verify, prepare_memory: |_| (), in_parallel: in_sequence }
    }
}

fn in_sequence(in_thread: &mut (dyn FnMut() + Send), here: &mut dyn FnMut(&dyn Fn())) {
    thread::scope(|scope| {
        scope.spawn(in_thread);
        here(&|| ());
    });
}

/// The reason why the bytes are not a valid index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("index file smaller than expected")]
    TooSmall,
    #[error("bad signature 0x{0:08x}")]
    Signature(u32),
    #[error("bad index version {0}")]
    Version(u32),
    #[error("bad index file sha1 signature")]
    Checksum,
    /// The entry or extension at this offset is truncated.
    #[error("index file corrupt")]
    Truncated { offset: usize },
    #[error("unknown index entry format 0x{0:08x}")]
    EntryFormat(u32),
    #[error("malformed name field in the index, near path '{near}'")]
    Name { near: BString },
    #[error("unordered stage entries in index")]
    Unordered,
    #[error("multiple stage entries for merged file '{path}'")]
    MultipleMerged { path: BString },
    #[error("unordered stage entries for '{path}'")]
    UnorderedStages { path: BString },
    #[error("index uses {} extension, which we do not understand", .0.as_bstr())]
    Extension([u8; 4]),
    #[error("{0}")]
    Link(&'static str),
    #[error("position for {what} {position} exceeds base index size {size}")]
    LinkPosition { what: &'static str, position: u64, size: usize },
    #[error("too many replacements ({wanted} vs {present})")]
    TooManyReplacements { wanted: usize, present: usize },
    #[error("entry {0} is marked as both replaced and deleted")]
    ReplacedAndDeleted(usize),
    #[error("corrupt link extension, entry {position} should have {what} name")]
    LinkName { position: usize, what: &'static str },
    #[error("cannot use split index with a sparse index")]
    SplitSparse,
}

impl Error {
    /// Returns true if Git reports this error and then exits with "index file corrupt". For other
    /// errors, Git exits with the error itself.
    pub fn is_corruption(&self) -> bool {
        matches!(
            self,
            Error::Signature(_) | Error::Version(_) | Error::Checksum | Error::Extension(_) | Error::Link(_)
        )
    }
}

/// The content of a file. For a split index, only the part in that file.
#[derive(Debug)]
pub struct Decoded {
    pub(super) index: Index,
    pub(super) link: Option<Link>,
    pub(super) fsmonitor: Option<fsmonitor::Pending>,
    pub(super) disorder: Option<Error>,
    pub(super) prepare_memory: PrepareMemory,
    checksum: ObjectId,
}

/// Reads a file's content and keeps the entries as stored in `file`, if possible. `places` is the
/// content of the file that [`places::list`] made for this file, if there is one. It is not
/// possible for version 4, a part of a split index, a sparse index, or a file with unusual entries.
/// If the caller needs all entries or changes them, [`decode`] is faster. Only [`decode`] verifies
/// the checksum; with `options.verify` this function falls back to it.
pub fn decode_stored(
    file: Bytes,
    places: Option<&Bytes>,
    hash: HashKind,
    options: Options,
) -> Result<Decoded, Error> {
    match stored(&file, places, hash, options) {
        Some(decoded) => Ok(decoded),
        None => decode(&file, hash, options),
    }
}

/// Returns `None` if the entries cannot be kept as stored. [`decode`] then reports the errors, if
/// any.
fn stored(file: &Bytes, places: Option<&Bytes>, hash: HashKind, options: Options) -> Option<Decoded> {
    let header = Header::read(file, hash).ok()?;
    let Header { content, version, count, checksum } = header;
    let codec = Codec { hash, compressed: false };
    let end = content.len();
    let is_possible = u32::try_from(end).is_ok() && count <= (end - HEADER) / codec.shortest();
    if version == Version::V4 || options.verify || !is_possible {
        return None;
    }
    let known = places.and_then(|places| places::read(places, file, &header, codec, options.prepare_memory));
    let (found, caches) = match known {
        Some(found) => {
            let caches = Caches::read(content, found.end, hash, options.prepare_memory);
            (found, caches)
        }
        None => find_entries(content, count, codec, options)?,
    };
    if found.places.len() < count {
        return None;
    }
    let extensions = Extensions::read(content, found.end, hash).ok()?;
    let Extensions { mut index, link: None, fsmonitor } = extensions else { return None };
    if index.sparse {
        return None;
    }
    let Scan { places, overview, .. } = found;
    index.table = Table::Stored(Stored::new(file.clone(), overview.newest, codec, places));
    index.version = Some(version);
    index.overview = Some(overview);
    index.untracked = caches.untracked;
    index.cache_tree = caches.tree;
    let prepare_memory = options.prepare_memory;
    Some(Decoded { index, link: None, fsmonitor, disorder: None, prepare_memory, checksum })
}

/// Finds the places of `count` entries of a file, and reads the caches behind them. Returns fewer
/// places if some bytes are not a usual entry. `content` is the file without its trailer.
fn find_entries(content: &[u8], count: usize, codec: Codec, options: Options) -> Option<(Scan, Caches)> {
    let (end, hash) = (content.len(), codec.hash);
    let scan_part = |part: Range<usize>, tick: &dyn Fn()| Scan::of(codec, content, part, count, tick);
    let caches = |end| Caches::read(content, end, hash, options.prepare_memory);
    let middle = if options.threads > 1 && count >= WORTH_A_THREAD {
        // The second part is smaller, because its thread also reads the caches.
        scan::guess_entry_start(codec, content, end / 5 * 3)
    } else {
        None
    };
    Some(match middle {
        Some(middle) => {
            let (mut one, mut two) = (None, None);
            let mut in_thread = || {
                let found = scan_part(middle..end, &|| ());
                let caches = caches(found.end);
                two = Some((found, caches));
            };
            let mut here = |tick: &dyn Fn()| one = Some(scan_part(HEADER..middle, tick));
            (options.in_parallel)(&mut in_thread, &mut here);
            let (one, (two, caches)) = (one?, two?);
            let from = two.end;
            let found = one.join(codec, content, two, count)?;
            // The scan may have read an extension as an entry.
            let caches = if found.end == from {
                caches
            } else {
                Caches::read(content, found.end, hash, options.prepare_memory)
            };
            (found, caches)
        }
        None => {
            let found = scan_part(HEADER..end, &|| ());
            let caches = caches(found.end);
            (found, caches)
        }
    })
}

/// Reads a file's content and decodes all entries.
pub fn decode(data: &[u8], hash: HashKind, options: Options) -> Result<Decoded, Error> {
    let Header { content, version, count, checksum } = Header::read(data, hash)?;

    let verify = || {
        let mut hasher = Hasher::checksum(hash);
        hasher.update(content);
        if hasher.finish() == Ok(checksum) { Ok(()) } else { Err(Error::Checksum) }
    };
    let codec = Codec { hash, compressed: version == Version::V4 };
    let entries = Entries { codec, content, count, options };
    let verified = options.verify && !checksum.is_null();
    let Read { entries, overview, extensions, paths, caches } = match options.threads {
        0 | 1 if verified => verify().and_then(|()| entries.read(1)),
        threads if verified => thread::scope(|scope| {
            let verified = scope.spawn(verify);
            let read = entries.read(threads);
            verified.join().expect("hashing does not panic").and(read)
        }),
        threads => entries.read(threads),
    }?;

    let Extensions { mut index, link, fsmonitor } = extensions;
    index.version = Some(version);
    index.table = Table::Owned { entries, paths: paths.bytes };
    index.overview = Some(overview);
    index.untracked = caches.untracked;
    index.cache_tree = caches.tree;
    let prepare_memory = options.prepare_memory;
    Ok(Decoded { index, link, fsmonitor, disorder: paths.disorder, prepare_memory, checksum })
}

/// The header and the trailer of a file. `content` is everything but the trailer.
pub(super) struct Header<'a> {
    pub(super) content: &'a [u8],
    pub(super) version: Version,
    pub(super) count: usize,
    pub(super) checksum: ObjectId,
}

/// Returns the trailer of a file without verifying it.
pub fn checksum(data: &[u8], hash: HashKind) -> Result<ObjectId, Error> {
    Header::read(data, hash).map(|header| header.checksum)
}

impl Header<'_> {
    pub(super) fn read(data: &[u8], hash: HashKind) -> Result<Header<'_>, Error> {
        let Some((content, trailer)) = data.len().checked_sub(hash.len()).map(|at| data.split_at(at)) else {
            return Err(Error::TooSmall);
        };
        let mut header = Reader(content);
        let (Some(signature), Some(version), Some(count)) = (header.u32(), header.u32(), header.u32()) else {
            return Err(Error::TooSmall);
        };
        if signature != u32::from_be_bytes(*b"DIRC") {
            return Err(Error::Signature(signature));
        }
        let version = Version::from_number(version).ok_or(Error::Version(version))?;
        let checksum = ObjectId::from_bytes(hash, trailer).expect("split off at its length");
        Ok(Header { content, version, count: count as usize, checksum })
    }
}

/// The extensions without the expensive ones ([`Caches`]), stored in an index without entries.
struct Extensions {
    index: Index,
    link: Option<Link>,
    fsmonitor: Option<fsmonitor::Pending>,
}

impl Decoded {
    /// Returns the name of the shared index, `sharedindex.<name>`, that this one must be merged
    /// with.
    pub fn base(&self) -> Option<ObjectId> {
        self.link.as_ref().map(|link| link.base).filter(|base| !base.is_null())
    }

    /// Returns the file's trailer, which may be wrong.
    pub fn checksum(&self) -> ObjectId {
        self.checksum
    }

    /// Returns the index, if it is not split.
    pub fn finish(mut self) -> Result<Index, Error> {
        if let Some(error) = self.disorder {
            return Err(error);
        }
        // Only replacement entries of a split index have no name, and they come first.
        if !self.index.is_empty() && self.index.path_at(0).is_empty() {
            return Err(Error::Name { near: BString::default() });
        }
        if let Some(pending) = self.fsmonitor {
            let (count, has_submodules) =
                (self.index.len(), self.index.overview.is_none_or(|all| all.gitlinks));
            self.index.fsmonitor = match &mut self.index.table {
                Table::Owned { entries, .. } => pending.settle(entries),
                Table::Stored(table) => pending.dirty(count).map(|dirty| {
                    table.mark_fsmonitor_valid_except(dirty, has_submodules);
                    pending.into_fsmonitor()
                }),
            };
        }
        Ok(self.index)
    }
}

impl Extensions {
    fn read(content: &[u8], offset: usize, hash: HashKind) -> Result<Extensions, Error> {
        let mut read = Extensions { index: Index::empty(hash), link: None, fsmonitor: None };
        for extension in extensions(content, offset) {
            let (signature, data) = extension?;
            match &signature {
                &TREE | &UNTRACKED => {}
                b"REUC" => read.index.resolve_undo = ResolveUndo::read(data, hash),
                b"FSMN" => read.fsmonitor = fsmonitor::Pending::read(data),
                b"link" => read.link = Some(Link::read(data, hash)?),
                b"sdir" => read.index.sparse = true,
                // These help only a reader; the writer creates them again.
                &offsets::END | &offsets::TABLE => {}
                [b'A'..=b'Z', ..] => {
                    read.index.unknown.push(RawExtension { signature, data: data.to_vec() });
                }
                _ => return Err(Error::Extension(signature)),
            }
        }
        if read.link.is_some() && read.index.sparse {
            return Err(Error::SplitSparse);
        }
        Ok(read)
    }
}

const TREE: [u8; 4] = *b"TREE";
const UNTRACKED: [u8; 4] = *b"UNTR";

/// The caches among the extensions, if present and valid. If an extension is repeated, the last one
/// is used, as for other extensions.
struct Caches {
    tree: Option<CacheTree>,
    untracked: Option<UntrackedCache>,
}

impl Caches {
    /// Ignores malformed extensions: [`Extensions::read`] reports them. The caches keep copies of
    /// their bytes, because the content of a mapped file may change.
    fn read(content: &[u8], offset: usize, hash: HashKind, prepare_memory: PrepareMemory) -> Caches {
        let last = |wanted: [u8; 4]| {
            let found = extensions(content, offset).map_while(Result::ok);
            found.filter(|(signature, _)| *signature == wanted).last().map(|(_, data)| data)
        };
        let copy = |data: &[u8]| {
            let mut copy = with_room(data.len(), prepare_memory);
            copy.extend_from_slice(data);
            copy
        };
        Caches {
            tree: last(TREE).and_then(|data| CacheTree::read(&copy(data).into(), hash)),
            untracked: last(UNTRACKED).and_then(|data| UntrackedCache::read(copy(data), hash)),
        }
    }
}

/// Iterates over signatures and contents of the extensions from `offset` on. The last item is an
/// error if it is truncated.
fn extensions(content: &[u8], offset: usize) -> impl Iterator<Item = Result<([u8; 4], &[u8]), Error>> {
    let mut reader = Reader(&content[offset..]);
    std::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let offset = content.len() - reader.0.len();
        let mut next = || {
            let signature: [u8; 4] = reader.array()?;
            let size = reader.u32()?;
            Some((signature, reader.take(size as usize)?))
        };
        let read = next();
        if read.is_none() {
            reader = Reader(b"");
        }
        Some(read.ok_or(Error::Truncated { offset }))
    })
}

/// All content of a file.
struct Read {
    entries: Vec<Entry>,
    overview: Overview,
    extensions: Extensions,
    paths: Paths,
    caches: Caches,
}

/// The entries of a file before they are read.
#[derive(Clone, Copy)]
struct Entries<'a> {
    codec: Codec,
    content: &'a [u8],
    count: usize,
    options: Options,
}

/// The size of a huge page in bytes.
const HUGE_PAGE: usize = 2 << 20;
/// The largest header that an allocator puts before memory that it maps separately, in bytes.
const ALLOCATOR_HEADER: usize = 4 << 10;

/// Creates a vector for `count` values that is about to be filled. If it takes several huge pages,
/// its capacity fills whole ones, so that the mapping begins at a huge page.
pub(super) fn with_room<T>(count: usize, prepare_memory: PrepareMemory) -> Vec<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes < HUGE_PAGE {
        return Vec::with_capacity(count);
    }
    let whole = (bytes + ALLOCATOR_HEADER).next_multiple_of(HUGE_PAGE) - ALLOCATOR_HEADER;
    let mut vector: Vec<T> = Vec::with_capacity(whole.div_ceil(size_of::<T>()));
    let room = vector.spare_capacity_mut().as_ptr_range();
    prepare_memory(room.start.cast()..room.end.cast());
    vector
}

impl Entries<'_> {
    /// Reads the entries and everything after them.
    fn read(self, threads: usize) -> Result<Read, Error> {
        let Entries { codec, content, count, options: Options { prepare_memory, in_parallel, .. } } = self;
        if count > (content.len() - HEADER) / codec.shortest() {
            return Err(Error::Truncated { offset: HEADER });
        }
        let read_entries = |tick: &dyn Fn()| {
            let entries = with_room(count, prepare_memory);
            let (mut entries, overview, end) =
                codec.read_entries(content, HEADER, count, self.budget(), entries, tick)?;
            let mut extensions = Extensions::read(content, end, codec.hash)?;
            // The monitor's bitmap counts the entries of the merged index, so in a split index it
            // is applied later.
            if extensions.link.is_none()
                && let Some(pending) = extensions.fsmonitor.take()
            {
                extensions.index.fsmonitor = pending.settle(&mut entries);
            }
            Ok((entries, overview, extensions))
        };
        let read_paths = || {
            let room = codec.room_for_paths(content.len() - HEADER, count, self.budget());
            let bytes = with_room(room, prepare_memory);
            let (paths, end) = codec.read_paths(content, HEADER, count, self.budget(), bytes)?;
            Ok((paths, Caches::read(content, end, codec.hash, prepare_memory)))
        };
        let (entries, paths) = if threads > 1 && count >= WORTH_A_THREAD {
            let (mut entries, mut paths) = (None, None);
            let mut read_entries = |tick: &dyn Fn()| entries = Some(read_entries(tick));
            in_parallel(&mut || paths = Some(read_paths()), &mut read_entries);
            (entries.expect("both were done"), paths.expect("both were done"))
        } else {
            (read_entries(&|| ()), read_paths())
        };
        // If both threads found an error, the error from the paths has the offset.
        let (paths, caches) = paths?;
        let (entries, overview, extensions) = entries?;
        Ok(Read { entries, overview, extensions, paths, caches })
    }

    /// Returns the maximum length of all paths in bytes. Without it, a small file of version 4
    /// could repeat a long path until memory runs out. An entry of that version takes at least 64
    /// bytes, and few paths exceed the limit of a file system.
    fn budget(self) -> usize {
        let factor = if self.codec.compressed { 64 } else { 1 };
        self.content.len().saturating_mul(factor).min(u32::MAX as usize)
    }
}

#[cfg(test)]
mod tests;
