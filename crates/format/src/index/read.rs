//! Bytes to an [`Index`].
//!
//! Order: header, entries (in parts, each on a thread of its own), extensions, order of the entries.
//! A file's trailer is looked at only if asked, as in Git; one of all zeros always holds. The texts of
//! errors are Git's.
//!
//! A split index is only half of one: [`Decoded::base`] names the file that holds the other half, and
//! [`Decoded::merge`] puts them together.

use std::thread;

use bstr::{BString, ByteSlice};

use super::{
    Index, RawExtension, Version,
    bytes::Reader,
    cache_tree::CacheTree,
    entry::{Codec, Run, disorder},
    fsmonitor, offsets,
    resolve_undo::ResolveUndo,
    split::Link,
    untracked::UntrackedCache,
};
use crate::{HashKind, ObjectId, hash::Hasher};

/// Below this many entries a thread costs more than it saves (Git's figure).
const ENTRIES_PER_THREAD: usize = 10_000;

const HEADER: usize = 12;

/// How to read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads to use at most; 0 counts as 1.
    pub threads: usize,
    /// Whether the trailing checksum must hold. Git checks it in `fsck` only.
    pub verify: bool,
}

/// Why bytes are no index.
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
    /// The entry or extension at this offset is not whole.
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
    /// Whether Git reports this as an error and then says "index file corrupt", rather than dying of
    /// the error itself.
    pub fn is_corruption(&self) -> bool {
        matches!(
            self,
            Error::Signature(_) | Error::Version(_) | Error::Checksum | Error::Extension(_) | Error::Link(_)
        )
    }
}

/// A file's content. Of a split index only the half that is in the file.
#[derive(Debug)]
pub struct Decoded {
    pub(super) index: Index,
    pub(super) link: Option<Link>,
    pub(super) fsmonitor: Option<fsmonitor::Pending>,
    pub(super) disorder: Option<Error>,
    checksum: ObjectId,
}

/// Reads a file's content.
pub fn decode(data: &[u8], hash: HashKind, options: Options) -> Result<Decoded, Error> {
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

    let verify = || {
        let mut hasher = Hasher::checksum(hash);
        hasher.update(content);
        if hasher.finish() == Ok(checksum) { Ok(()) } else { Err(Error::Checksum) }
    };
    let codec = Codec { hash, compressed: version == Version::V4 };
    let entries = Entries { codec, content, count: count as usize };
    let run = if options.verify && !checksum.is_null() {
        if options.threads > 1 {
            thread::scope(|scope| {
                let verified = scope.spawn(verify);
                let run = entries.read(options.threads);
                verified.join().expect("hashing does not panic").and(run)
            })
        } else {
            verify().and_then(|()| entries.read(1))
        }
    } else {
        entries.read(options.threads)
    }?;

    let mut index = Index::empty(hash);
    index.version = Some(version);
    index.entries = run.entries;
    index.paths = run.paths;
    let mut decoded = Decoded { index, link: None, fsmonitor: None, disorder: run.disorder, checksum };
    decoded.read_extensions(content, run.end)?;
    Ok(decoded)
}

impl Decoded {
    /// The name of the shared index this one was split from, `sharedindex.<name>`, to be merged with.
    pub fn base(&self) -> Option<ObjectId> {
        self.link.as_ref().map(|link| link.base).filter(|base| !base.is_null())
    }

    /// The file's trailer, whether it holds or not.
    pub fn checksum(&self) -> ObjectId {
        self.checksum
    }

    /// The index, if it stands alone.
    pub fn finish(mut self) -> Result<Index, Error> {
        if let Some(error) = self.disorder {
            return Err(error);
        }
        // Only replacements in a split index have no name, and they would be the first.
        if self.index.entries.first().is_some_and(|entry| entry.path.len == 0) {
            return Err(Error::Name { near: BString::default() });
        }
        if let Some(pending) = self.fsmonitor {
            self.index.fsmonitor = pending.settle(&mut self.index.entries);
        }
        Ok(self.index)
    }

    fn read_extensions(&mut self, content: &[u8], offset: usize) -> Result<(), Error> {
        let hash = self.index.hash;
        let mut reader = Reader(&content[offset..]);
        while !reader.0.is_empty() {
            let offset = content.len() - reader.0.len();
            let mut next = || {
                let signature: [u8; 4] = reader.array()?;
                let size = reader.u32()?;
                Some((signature, reader.take(size as usize)?))
            };
            let Some((signature, data)) = next() else {
                return Err(Error::Truncated { offset });
            };
            match &signature {
                b"TREE" => self.index.cache_tree = CacheTree::read(data, hash),
                b"REUC" => self.index.resolve_undo = ResolveUndo::read(data, hash),
                b"UNTR" => self.index.untracked = UntrackedCache::read(data, hash),
                b"FSMN" => self.fsmonitor = fsmonitor::Pending::read(data),
                b"link" => self.link = Some(Link::read(data, hash)?),
                b"sdir" => self.index.sparse = true,
                // Of use only while reading; made anew when writing.
                &offsets::END | &offsets::TABLE => {}
                [b'A'..=b'Z', ..] => {
                    self.index.unknown.push(RawExtension { signature, data: data.to_vec() });
                }
                _ => return Err(Error::Extension(signature)),
            }
        }
        if self.link.is_some() && self.index.sparse {
            return Err(Error::SplitSparse);
        }
        Ok(())
    }
}

/// The entries of a file, yet to be read.
#[derive(Clone, Copy)]
struct Entries<'a> {
    codec: Codec,
    content: &'a [u8],
    count: usize,
}

impl Entries<'_> {
    fn read(self, threads: usize) -> Result<Run, Error> {
        if self.count > (self.content.len() - HEADER) / self.codec.shortest() {
            return Err(Error::Truncated { offset: HEADER });
        }
        let parts = threads.min(self.count / ENTRIES_PER_THREAD).max(1);
        if parts > 1
            && let Some(blocks) = offsets::find_table(self.content, self.codec.hash, self.count)
            && let Some(run) = self.read_blocks(&blocks, parts)
        {
            return Ok(run);
        }
        self.read_parts(parts)
    }

    /// Reads parts of equal size, whose starts are found by passing over the entries before them.
    fn read_parts(self, parts: usize) -> Result<Run, Error> {
        let Entries { codec, content, count } = self;
        let size = count / parts;
        thread::scope(|scope| {
            let mut cursor = Codec::start(HEADER);
            let mut readers = Vec::new();
            for part in 0..parts - 1 {
                let from = cursor.clone();
                let capacity = if part == 0 { count } else { size };
                readers.push(scope.spawn(move || codec.read(content, from, size, capacity, self.budget())));
                codec.skip(content, &mut cursor, size)?;
            }
            let rest = count - size * readers.len();
            let last = codec.read(content, cursor, rest, rest, self.budget());
            let mut runs: Vec<_> =
                readers.into_iter().map(|reader| reader.join().expect("reading does not panic")).collect();
            runs.push(last);
            self.join(runs)
        })
    }

    /// Reads blocks each of which can be read by itself, some per thread. `None` if they are not what
    /// the table says, or anything else is wrong with them: what exactly, reading in order will tell.
    fn read_blocks(self, blocks: &[offsets::Block], parts: usize) -> Option<Run> {
        let Entries { codec, content, count } = self;
        let share = blocks.len().div_ceil(parts);
        let runs = thread::scope(|scope| {
            let readers: Vec<_> = blocks
                .chunks(share)
                .enumerate()
                .map(|(part, blocks)| {
                    scope.spawn(move || {
                        let mut runs = Vec::new();
                        for (at, block) in blocks.iter().enumerate() {
                            let capacity = if part == 0 && at == 0 { count } else { block.count };
                            let from = Codec::start(block.offset);
                            runs.push(codec.read(content, from, block.count, capacity, self.budget()));
                        }
                        runs
                    })
                })
                .collect();
            readers
                .into_iter()
                .flat_map(|reader| reader.join().expect("reading does not panic"))
                .collect::<Vec<_>>()
        });
        let ends = runs.iter().map(|run| run.as_ref().ok().map(|run| run.end));
        let starts = blocks.iter().skip(1).map(|block| Some(block.offset));
        if !starts.eq(ends.take(blocks.len() - 1)) {
            return None;
        }
        self.join(runs).ok()
    }

    /// How many bytes of paths there may be. Without a bound, a small file of version 4 could repeat a
    /// long path until memory ends; 64 bytes an entry is the least that format takes, and few paths
    /// are longer than what a file system accepts.
    fn budget(self) -> usize {
        let factor = if self.codec.compressed { 64 } else { 1 };
        self.content.len().saturating_mul(factor).min(u32::MAX as usize)
    }

    fn join(self, runs: Vec<Result<Run, Error>>) -> Result<Run, Error> {
        let mut runs = runs.into_iter();
        let mut whole = runs.next().expect("there is at least one part")?;
        for run in runs {
            let run = run?;
            if whole.paths.len() + run.paths.len() > self.budget() {
                return Err(Error::Truncated { offset: whole.end });
            }
            if let (None, Some(last), Some(first)) =
                (&whole.disorder, whole.entries.last(), run.entries.first())
            {
                let one = &whole.paths[last.path.start as usize..];
                let two = &run.paths[..first.path.len as usize];
                whole.disorder = disorder((one.as_bstr(), last.stage), (two.as_bstr(), first.stage));
            }
            whole.disorder = whole.disorder.or(run.disorder);
            let base = whole.paths.len() as u32;
            whole.paths.extend_from_slice(&run.paths);
            whole.entries.extend(run.entries.into_iter().map(|mut entry| {
                entry.path.start += base;
                entry
            }));
            whole.end = run.end;
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Mode,
        index::{Flags, NewEntry, Stage, Stat, write},
    };

    fn large(version: Version) -> Index {
        let mut index = Index::empty(HashKind::Sha1);
        index.version = Some(version);
        for number in 0..1000u32 {
            let oid =
                ObjectId::from_bytes(HashKind::Sha1, &[1 + (number % 7) as u8; 20]).expect("twenty bytes");
            let stat = Stat { ino: number, ..Stat::default() };
            let (mode, flags, stage) = (Mode::FILE, Flags::empty(), Stage::Normal);
            let path = format!("dir{:03}/file{number:05}", number / 10);
            index.push(path.as_str().into(), NewEntry { stat, oid, mode, flags, stage });
        }
        index
    }

    fn content(run: Run) -> Vec<(BString, NewEntry)> {
        let Run { entries, paths, disorder, .. } = run;
        assert_eq!(disorder, None);
        let path = |entry: &crate::index::Entry| {
            paths[entry.path.start as usize..][..entry.path.len as usize].as_bstr().to_owned()
        };
        entries.iter().map(|entry| (path(entry), entry.content())).collect()
    }

    #[test]
    fn parts_and_blocks_give_what_one_pass_gives() {
        for version in [Version::V2, Version::V4] {
            let options = write::Options { version, end_of_entries: true, blocks: 6 };
            let index = large(version);
            let file =
                write::to_vec(&index, write::Part::Whole, &options).expect("no entry without an object");
            let file = &file[..file.len() - 20];
            let codec = Codec { hash: HashKind::Sha1, compressed: version == Version::V4 };
            let entries = Entries { codec, content: file, count: 1000 };
            let whole = content(entries.read_parts(1).expect("well formed"));
            assert_eq!(whole.len(), 1000);
            for parts in [2, 3, 7] {
                assert_eq!(content(entries.read_parts(parts).expect("well formed")), whole);
                let blocks =
                    offsets::find_table(file, HashKind::Sha1, 1000).expect("both extensions are there");
                assert_eq!(blocks.len(), 6);
                assert_eq!(content(entries.read_blocks(&blocks, parts).expect("well formed")), whole);
                let mut moved = blocks.clone();
                moved[2].count += 1;
                moved[3].count -= 1;
                assert!(entries.read_blocks(&moved, parts).is_none(), "the table lies");
            }
        }
    }

    #[test]
    fn disorder_between_parts_is_seen() {
        let mut index = large(Version::V2);
        index.entries.swap(499, 500);
        let options = write::Options { version: Version::V2, end_of_entries: false, blocks: 0 };
        let file = write::to_vec(&index, write::Part::Whole, &options).expect("no entry without an object");
        let codec = Codec { hash: HashKind::Sha1, compressed: false };
        let entries = Entries { codec, content: &file[..file.len() - 20], count: 1000 };
        for parts in [1, 2] {
            assert_eq!(entries.read_parts(parts).expect("whole").disorder, Some(Error::Unordered));
        }
    }
}
