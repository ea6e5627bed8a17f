//! The contents of the files of all images of a base directory.
//!
//! A generation is a pair of files. `<number>.data` holds contents, each from the beginning of a
//! block of 512 bytes. `<number>.index` says which content lies where. Contents are named by the
//! object id of their bytes.
//!
//! Order of an addition: bytes, sync, records, sync. So a record never names bytes that a crash may
//! take away. Both files only grow. Bytes without a record are dead; an addition that fails in this
//! process removes them. Each record has a checksum. A record that does not match it is ignored: it
//! is the torn tail of an addition that nobody relies on.
//!
//! The caller holds the lock of the base directory during an addition.

use std::{
    collections::HashMap,
    io::{self, IoSlice, Read as _},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use format::{HashKind, ObjectId, erofs};
use sys::{File, by_path};

use super::Error;

/// The binary logarithm of the block size: the smallest that the kernel mounts, because the rest of
/// a content's last block is lost.
pub(super) const BLOCK_BITS: u32 = 9;
const BLOCK: u64 = 1 << BLOCK_BITS;
/// A new generation begins when the last one has this many blocks (512 GiB).
const MAX_BLOCKS: u64 = 1 << 30;

const MAGIC: &[u8; 8] = b"swblobs1";
const HEADER: usize = 16;

/// The place of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) generation: u32,
    pub(super) block: u32,
    pub(super) size: u64,
}

impl Content {
    pub(super) fn blocks(&self) -> u64 {
        self.size.div_ceil(BLOCK)
    }
}

/// The contents of all generations with one kind of hash.
pub(super) struct Blobs {
    dir: PathBuf,
    hash: HashKind,
    /// Each content once; later generations replace earlier ones.
    known: HashMap<ObjectId, Content>,
    /// The generations with this hash, ascending.
    generations: Vec<u32>,
    /// The highest number in use, of any hash.
    last: u32,
}

/// Returns the bytes that a file takes on the disk.
pub(super) fn room(path: &Path) -> Result<u64, Error> {
    sys::by_path::room(path).map_err(|source| Error::Io { action: "examine", path: path.to_owned(), source })
}

/// Replaces the records of a generation by those that lie outside of `dead`, and syncs them.
fn forget(
    bases: &Path,
    generation: u32,
    hash: HashKind,
    records: Vec<(ObjectId, Content)>,
    dead: &[Range<u64>],
) -> Result<(), Error> {
    let is_dead = |content: &Content| {
        let start = u64::from(content.block) * BLOCK;
        let at = dead.partition_point(|range| range.end <= start);
        dead.get(at).is_some_and(|range| range.start < start + content.size.max(1))
    };
    let count = records.len();
    let kept: Vec<_> = records.into_iter().filter(|(_, content)| !is_dead(content)).collect();
    if kept.len() == count {
        return Ok(());
    }
    let path = index_file(bases, generation);
    let staged = path.with_extension("index.new");
    let failed = |source| Error::Io { action: "write", path: path.clone(), source };
    let _ = by_path::remove_file(&staged);
    let mut bytes = header(hash).to_vec();
    kept.iter().for_each(|(oid, content)| push_record(&mut bytes, oid, content));
    let file = by_path::create_new(&staged, 0o666).map_err(failed)?;
    file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(failed)?;
    sys::sync_file(&file).map_err(failed)?;
    by_path::rename(&staged, &path).map_err(failed)?;
    by_path::sync_dir(&bases.join("blobs")).map_err(failed)
}

fn push_record(records: &mut Vec<u8>, oid: &ObjectId, content: &Content) {
    let start = records.len();
    records.extend_from_slice(oid.as_bytes());
    records.extend_from_slice(&content.block.to_le_bytes());
    records.extend_from_slice(&content.size.to_le_bytes());
    let checksum = erofs::crc32c(!0, &records[start..]);
    records.extend_from_slice(&checksum.to_le_bytes());
}

/// Returns the file with the contents of a generation.
pub(super) fn data_file(bases: &Path, generation: u32) -> PathBuf {
    bases.join("blobs").join(format!("{generation}.data"))
}

fn index_file(bases: &Path, generation: u32) -> PathBuf {
    bases.join("blobs").join(format!("{generation}.index"))
}

/// Returns the numbers of all generations, ascending.
pub(super) fn generations(bases: &Path) -> Result<Vec<u32>, Error> {
    let dir = bases.join("blobs");
    let names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    let number = |name: &std::ffi::OsStr| name.to_str()?.split_once('.')?.0.parse().ok();
    let mut numbers: Vec<u32> = names.iter().filter_map(|(name, _)| number(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Removes the files of a generation.
pub(super) fn remove(bases: &Path, generation: u32) -> Result<(), Error> {
    for path in [index_file(bases, generation), data_file(bases, generation)] {
        match by_path::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Io { action: "remove", path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

impl Blobs {
    /// Reads the records of all generations in the base directory `bases`.
    pub(super) fn open(bases: &Path, hash: HashKind) -> Result<Blobs, Error> {
        let all = generations(bases)?;
        let last = all.last().copied().unwrap_or(0);
        let mut blobs =
            Blobs { dir: bases.to_owned(), hash, known: HashMap::new(), generations: Vec::new(), last };
        for generation in all {
            if let Some(records) = read_records(bases, generation, hash)? {
                blobs.generations.push(generation);
                blobs.known.reserve(records.len());
                blobs.known.extend(records);
            }
        }
        Ok(blobs)
    }

    /// Returns the place of a content.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<Content> {
        self.known.get(oid).copied()
    }

    /// Begins an addition.
    pub(super) fn append(&self) -> Result<Appender<'_>, Error> {
        let current = match self.generations.last() {
            Some(&last) if length(&data_file(&self.dir, last))?.div_ceil(BLOCK) < MAX_BLOCKS => Some(last),
            _ => None,
        };
        self.append_to(current.unwrap_or(self.last + 1))
    }

    /// Gives back the room of `dead` byte ranges of a generation: their records go first. Returns
    /// the number of bytes. Does nothing unless `for_real`. A file system without holes keeps the
    /// room.
    pub(super) fn give_back(
        bases: &Path,
        generation: u32,
        dead: &[Range<u64>],
        for_real: bool,
    ) -> Result<u64, Error> {
        let path = data_file(bases, generation);
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        let before = room(&path)?;
        if !for_real {
            let sum: u64 = dead.iter().map(|range| range.end - range.start).sum();
            return Ok(sum.min(before));
        }
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            if let Some(records) = read_records(bases, generation, hash)? {
                forget(bases, generation, hash, records, dead)?;
            }
        }
        let file = by_path::open_to_change(&path).map_err(failed)?;
        for range in dead {
            match sys::punch_hole(&file, range.clone()) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(0),
                result => result.map_err(failed)?,
            }
        }
        sys::sync_data(&file).map_err(failed)?;
        Ok(before.saturating_sub(room(&path)?))
    }

    fn append_to(&self, generation: u32) -> Result<Appender<'_>, Error> {
        let is_new = !self.generations.contains(&generation);
        let (data_path, index_path) = (data_file(&self.dir, generation), index_file(&self.dir, generation));
        let open = |path: &Path| {
            let opened = match is_new {
                true => by_path::create_new(path, 0o666),
                false => by_path::open_to_change(path),
            };
            opened.map_err(|source| Error::Io { action: "open", path: path.to_owned(), source })
        };
        let (data, index) = (open(&data_path)?, open(&index_path)?);
        let index_end = length(&index_path)?;
        let start = length(&data_path)?;
        let state = State { next: start.div_ceil(BLOCK), added: HashMap::new() };
        let (blobs, is_published) = (self, false);
        let files = Files { data, data_path, index, index_path };
        Ok(Appender { blobs, generation, files, start, index_end, is_new, state: state.into(), is_published })
    }
}

/// Returns the size of a file; 0 if it is missing.
pub(super) fn length(path: &Path) -> Result<u64, Error> {
    match by_path::stat_followed(path) {
        Ok(Some(stat)) => Ok(stat.size),
        Ok(None) => Ok(0),
        Err(source) => Err(Error::Io { action: "examine", path: path.to_owned(), source }),
    }
}

/// The length of a record: name, block, size, checksum.
fn record_len(hash: HashKind) -> usize {
    hash.len() + 16
}

fn header(hash: HashKind) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8] = hash.len() as u8;
    header[9] = BLOCK_BITS as u8;
    header
}

/// Returns the intact records of a generation whose contents lie within its data. Returns `None` if
/// it has another hash, or its creation was not finished.
fn read_records(
    bases: &Path,
    generation: u32,
    hash: HashKind,
) -> Result<Option<Vec<(ObjectId, Content)>>, Error> {
    let path = index_file(bases, generation);
    let read = by_path::open(&path).and_then(|mut file| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Io { action: "read", path, source }),
    };
    let Some(records) = bytes.strip_prefix(&header(hash)) else { return Ok(None) };
    let end = length(&data_file(bases, generation))?;
    let parse = |record: &[u8]| {
        let (record, checksum) = record.split_at(record.len() - 4);
        let oid = ObjectId::from_bytes(hash, &record[..hash.len()])?;
        let block = u32::from_le_bytes(record[hash.len()..][..4].try_into().ok()?);
        let size = u64::from_le_bytes(record[hash.len() + 4..].try_into().ok()?);
        let is_intact = erofs::crc32c(!0, record).to_le_bytes() == checksum;
        let is_there = (u64::from(block) << BLOCK_BITS).checked_add(size).is_some_and(|last| last <= end);
        (is_intact && is_there).then_some((oid, Content { generation, block, size }))
    };
    Ok(Some(records.chunks_exact(record_len(hash)).filter_map(parse).collect()))
}

/// An addition to a generation. Dropped without [`Appender::publish`], it takes everything back.
pub(super) struct Appender<'b> {
    blobs: &'b Blobs,
    generation: u32,
    files: Files,
    /// The length of both files before.
    start: u64,
    index_end: u64,
    is_new: bool,
    state: Mutex<State>,
    is_published: bool,
}

struct Files {
    data: File,
    data_path: PathBuf,
    index: File,
    index_path: PathBuf,
}

struct State {
    /// The next free block.
    next: u64,
    added: HashMap<ObjectId, Content>,
}

impl Appender<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one insertion, after its checks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of a content, whether it was there before or is being added.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<Content> {
        self.blobs.find(oid).or_else(|| self.state().added.get(oid).copied())
    }

    /// Adds contents that lie together, in the given order. Returns their places. Contents that
    /// are there already are not written.
    pub(super) fn add(&self, contents: &[(ObjectId, &[u8])]) -> Result<Vec<Content>, Error> {
        const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let mut pieces = Vec::with_capacity(contents.len() * 2);
        let (first, places) = {
            let mut state = self.state();
            let first = state.next;
            let place = |(oid, bytes): &(ObjectId, &[u8])| {
                if let Some(known) = self.blobs.find(oid).or_else(|| state.added.get(oid).copied()) {
                    return Ok((known, false));
                }
                let content = self.reserve(&mut state, *oid, bytes.len() as u64)?;
                Ok((content, true))
            };
            let places: Vec<_> = contents.iter().map(place).collect::<Result<_, Error>>()?;
            (first, places)
        };
        for ((_, bytes), (content, is_new)) in contents.iter().zip(&places) {
            if *is_new {
                let padding = (content.blocks() * BLOCK) as usize - bytes.len();
                pieces.extend([IoSlice::new(bytes), IoSlice::new(&ZEROS[..padding])]);
            }
        }
        let written = self.files.data.write_pieces_at(&mut pieces, first * BLOCK);
        written.map_err(|source| self.failed("write", source))?;
        Ok(places.into_iter().map(|(content, _)| content).collect())
    }

    /// Adds a content of `size` bytes that `fill` passes on in pieces. Returns `None` if it passed
    /// on another number of bytes.
    pub(super) fn stream<E>(
        &self,
        oid: ObjectId,
        size: u64,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<Result<Option<Content>, E>, Error> {
        let content = self.reserve(&mut self.state(), oid, size)?;
        let start = u64::from(content.block) * BLOCK;
        let (mut offset, mut failure) = (start, None);
        let filled = fill(&mut |piece| {
            let len = piece.len() as u64;
            if offset + len > start + size {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.files.data.write_pieces_at(&mut [IoSlice::new(piece)], offset).map_err(|source| {
                failure = Some(source);
                io::Error::from(io::ErrorKind::Other)
            })?;
            offset += len;
            Ok(())
        });
        let is_whole = offset == start + size;
        if failure.is_some() || filled.is_err() || !is_whole {
            self.state().added.remove(&oid);
        }
        match failure {
            Some(source) => Err(self.failed("write", source)),
            None => Ok(filled.map(|()| is_whole.then_some(content))),
        }
    }

    /// Reserves the next blocks.
    fn reserve(&self, state: &mut State, oid: ObjectId, size: u64) -> Result<Content, Error> {
        let block = u32::try_from(state.next).ok().filter(|_| {
            state.next.checked_add(size.div_ceil(BLOCK)).is_some_and(|end| end <= u64::from(u32::MAX))
        });
        let block = block.ok_or_else(|| Error::Image("the contents take more than 2 TiB".to_owned()))?;
        let content = Content { generation: self.generation, block, size };
        state.next += content.blocks();
        state.added.insert(oid, content);
        Ok(content)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io { action, path: self.files.data_path.clone(), source }
    }

    /// Makes the addition last: syncs the contents, then adds their records and syncs those.
    pub(super) fn publish(mut self, sync: bool) -> Result<(), Error> {
        let hash = self.blobs.hash;
        let mut added: Vec<_> = {
            let mut state = self.state();
            std::mem::take(&mut state.added).into_iter().collect()
        };
        if added.is_empty() && !self.is_new {
            return Ok(());
        }
        added.sort_unstable_by_key(|(_, content)| content.block);
        let last = added.last().map_or(self.start, |(_, content)| {
            // The whole last block is part of the file.
            (u64::from(content.block) + content.blocks()) * BLOCK
        });
        let files = &self.files;
        files.data.set_len(last.max(self.start)).map_err(|source| self.failed("write", source))?;
        if sync {
            sys::sync_data(&files.data).map_err(|source| self.failed("sync", source))?;
        }
        let (mut records, offset) = match self.is_new {
            true => (header(hash).to_vec(), 0),
            false => {
                let record = record_len(hash) as u64;
                let whole = (self.index_end - HEADER as u64).div_ceil(record) * record + HEADER as u64;
                (Vec::new(), whole)
            }
        };
        for (oid, content) in &added {
            push_record(&mut records, oid, content);
        }
        let failed = |action| move |source| Error::Io { action, path: files.index_path.clone(), source };
        let written = files.index.write_pieces_at(&mut [IoSlice::new(&records)], offset);
        written.map_err(failed("write"))?;
        if sync {
            sys::sync_data(&files.index).map_err(failed("sync"))?;
            if self.is_new {
                let dir = self.blobs.dir.join("blobs");
                by_path::sync_dir(&dir).map_err(|source| Error::Io { action: "sync", path: dir, source })?;
            }
        }
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // A failure here costs room, until `gc`.
        if self.is_new {
            let _ = by_path::remove_file(&self.files.index_path);
            let _ = by_path::remove_file(&self.files.data_path);
        } else {
            let _ = self.files.index.set_len(self.index_end);
            let _ = self.files.data.set_len(self.start);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::fs;

    use super::*;

    fn oid(bytes: &[u8]) -> ObjectId {
        let mut hasher = format::hash::Hasher::object(HashKind::Sha1, "blob", bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish().expect("no attack")
    }

    fn stored(dir: &Path, content: Content) -> Vec<u8> {
        let file = by_path::open(&data_file(dir, content.generation)).expect("opened");
        let mut bytes = vec![0; content.size as usize];
        file.read_exact_at(&mut bytes, u64::from(content.block) * BLOCK).expect("read");
        bytes
    }

    fn add(dir: &Path, contents: &[&[u8]]) {
        let blobs = Blobs::open(dir, HashKind::Sha1).expect("opened");
        let appender = blobs.append().expect("begun");
        let named: Vec<_> = contents.iter().map(|bytes| (oid(bytes), *bytes)).collect();
        appender.add(&named).expect("added");
        appender.publish(true).expect("published");
    }

    fn check(dir: &Path, contents: &[&[u8]]) {
        let blobs = Blobs::open(dir, HashKind::Sha1).expect("opened");
        for bytes in contents {
            let content = blobs.find(&oid(bytes)).expect("found");
            assert_eq!(stored(dir, content), *bytes);
        }
        assert_eq!(blobs.known.len(), contents.len());
    }

    fn dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory for tests");
        fs::create_dir(dir.path().join("blobs")).expect("created");
        dir
    }

    #[test]
    fn a_torn_tail_is_ignored_and_later_additions_are_found() {
        let dir = dir();
        let long = vec![7; 1300];
        let all: [&[u8]; 4] = [b"one", &long, b"two", b"three"];
        add(dir.path(), &all[..2]);
        check(dir.path(), &all[..2]);
        let index = index_file(dir.path(), 1);
        for torn in [&b"torn"[..], &[0; 36], &[9; 100]] {
            let mut bytes = fs::read(&index).expect("read");
            bytes.extend_from_slice(torn);
            fs::write(&index, bytes).expect("written");
        }
        let mut data = fs::read(data_file(dir.path(), 1)).expect("read");
        data.extend_from_slice(b"unfinished");
        fs::write(data_file(dir.path(), 1), data).expect("written");
        check(dir.path(), &all[..2]);
        add(dir.path(), &all[1..3]);
        add(dir.path(), &all);
        check(dir.path(), &all);
        assert_eq!(generations(dir.path()).expect("listed"), [1]);
    }

    #[test]
    fn an_addition_that_fails_leaves_nothing() {
        let dir = dir();
        let begin = |dir: &Path| {
            let blobs = Blobs::open(dir, HashKind::Sha1).expect("opened");
            blobs.append().expect("begun").add(&[(oid(b"lost"), b"lost")]).expect("added");
        };
        begin(dir.path());
        assert_eq!(fs::read_dir(dir.path().join("blobs")).expect("listed").count(), 0);
        add(dir.path(), &[b"kept"]);
        let before = fs::read(data_file(dir.path(), 1)).expect("read");
        begin(dir.path());
        assert_eq!(fs::read(data_file(dir.path(), 1)).expect("read"), before);
        check(dir.path(), &[b"kept"]);
    }

    #[test]
    fn each_hash_has_its_own_generations() {
        let dir = dir();
        add(dir.path(), &[b"one"]);
        let other = Blobs::open(dir.path(), HashKind::Sha256).expect("opened");
        assert!(other.known.is_empty());
        other.append().expect("begun").publish(false).expect("published");
        assert_eq!(generations(dir.path()).expect("listed"), [1, 2]);
        add(dir.path(), &[b"two"]);
        check(dir.path(), &[b"one", b"two"]);
    }

    #[test]
    fn a_stream_must_have_the_promised_size() {
        let dir = dir();
        let blobs = Blobs::open(dir.path(), HashKind::Sha1).expect("opened");
        let appender = blobs.append().expect("begun");
        let stream = |bytes: &'static [u8], size| {
            appender.stream(oid(bytes), size, |sink| bytes.chunks(100).try_for_each(sink))
        };
        let place = stream(&[3; 1000], 1000).expect("written").expect("filled").expect("whole");
        assert_eq!(stream(&[4; 10], 11).expect("written").expect("filled"), None);
        assert!(stream(&[5; 10], 9).expect("written").is_err());
        appender.publish(true).expect("published");
        assert_eq!(stored(dir.path(), place), [3; 1000]);
    }
}
