//! Appends contents to the blob files of a base directory.
//!
//! Order: write contents, sync, write records, sync. So no record refers to bytes that a crash may
//! lose. Contents of a base that becomes durable later get records in another file (see
//! `pending`). Bytes without a record are garbage. An addition that ends without
//! [`Appender::publish`] truncates them. Several threads may add contents, and publish in between.
//! Only complete contents get records. Meanwhile the disk begins to write them (see `writeback`).
//!
//! The caller holds the lock of the base directory when an addition begins. From then on the lock
//! of the generation's data keeps others away: they add to another generation.

use std::{
    collections::HashMap,
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use format::ObjectId;
use sys::{File, by_path};

use super::{
    super::boot::Boot,
    Error,
    blobs::{
        BLOCK, BlobFile, Blobs, Content, Next, Record, data_file, header, index_file, length, push_record,
    },
    pending,
    writeback::Writeback,
};

/// The durability of published contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Publication {
    /// They and their records are on the disk.
    Synced,
    /// They are believed until the machine is started again.
    Pending(Boot),
    /// The user disabled every sync.
    Unsynced,
}

/// An addition to a generation. Dropping it removes what was not published.
pub(super) struct Appender {
    blobs: Blobs,
    /// The index of the blob file in [`Blobs::files`].
    file: u32,
    files: Files,
    state: Mutex<State>,
    /// Lock order: this mutex before `state`.
    published: Mutex<Published>,
    writeback: Writeback,
    /// The locks of the alternates.
    _alternates: Vec<File>,
}

struct Files {
    generation: u32,
    data: File,
    data_path: PathBuf,
    index: File,
    index_path: PathBuf,
}

struct State {
    /// The next free block.
    next: u64,
    /// Contents that are written or being written.
    added: HashMap<ObjectId, Content>,
    /// Complete contents without a record.
    written: Vec<(ObjectId, Content)>,
}

/// The lengths of both files in bytes, without unpublished additions.
struct Published {
    data: u64,
    index: u64,
    is_new: bool,
    /// Contents of the generation that are not durable.
    pending: Vec<Record>,
}

impl Blobs {
    /// Starts an addition. `alternates` are the locks of alternates, which are held until the
    /// addition ends.
    pub(super) fn append(mut self, alternates: Vec<File>) -> Result<Appender, Error> {
        let Next { number, file, data, is_new } = self.next_generation()?;
        let (data_path, index_path) = (data_file(&self.dir, number), index_file(&self.dir, number));
        let index = if is_new {
            by_path::create_new(&index_path, 0o666)
        } else {
            by_path::open_to_change(&index_path)
        };
        let failed = |source| Error::Io { action: "open", path: index_path.clone(), source };
        let index = index.map_err(failed)?;
        let pending = self.believed(number, file, &data_path)?;
        let published = Published { data: length(&data_path)?, index: length(&index_path)?, is_new, pending };
        let state =
            State { next: published.data.div_ceil(BLOCK), added: HashMap::new(), written: Vec::new() };
        let writeback = Writeback::of(&data_path, published.data);
        let files = Files { generation: number, data, data_path, index, index_path };
        Ok(Appender {
            blobs: self,
            file,
            files,
            state: state.into(),
            published: published.into(),
            writeback,
            _alternates: alternates,
        })
    }

    /// Returns the pending records of the generation that is locked. Those of an earlier boot are
    /// believed if their bytes are intact, and become known.
    fn believed(&mut self, generation: u32, file: u32, data: &Path) -> Result<Vec<Record>, Error> {
        let Some(pending) = pending::read(&self.dir, generation, self.hash)? else { return Ok(Vec::new()) };
        if pending.boot.is_current() {
            return Ok(pending.records);
        }
        let intact = pending::intact(data, pending.records, &self.known, self.hash)?;
        self.add_records(file, intact.clone());
        Ok(intact)
    }
}

impl Appender {
    fn state(&self) -> MutexGuard<'_, State> {
        // Consistent even after a panic: each change of the state is one insertion, after its
        // checks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the location of a content that exists or is being added.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<Content> {
        self.blobs.find(oid).or_else(|| self.state().added.get(oid).copied())
    }

    /// Returns a blob file. Its length covers only published contents.
    pub(super) fn blob_file(&self, file: u32) -> BlobFile {
        let found = &self.blobs.files[file as usize];
        let blocks = if file == self.file { self.published().data.div_ceil(BLOCK) } else { found.blocks };
        BlobFile { blocks, ..found.clone() }
    }

    /// Adds contents in the given order, contiguously. Returns their locations. Contents that
    /// already exist are not written.
    pub(super) fn add(&self, contents: &[(ObjectId, &[u8])]) -> Result<Vec<Content>, Error> {
        const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let (first, places) = self.reserve_all(contents)?;
        let mut pieces = Vec::with_capacity(contents.len() * 2);
        let mut new = Vec::new();
        for ((oid, bytes), (content, is_new)) in contents.iter().zip(&places) {
            if *is_new {
                let padding = (content.blocks() * BLOCK) as usize - bytes.len();
                pieces.extend([IoSlice::new(bytes), IoSlice::new(&ZEROS[..padding])]);
                new.push((*oid, *content));
            }
        }
        let written = self.files.data.write_pieces_at(&mut pieces, first * BLOCK);
        let mut state = self.state();
        match written {
            Ok(()) => {
                state.written.append(&mut new);
                self.writeback.reached(state.next * BLOCK);
            }
            Err(source) => {
                state.forget(&new);
                return Err(self.failed("write", source));
            }
        }
        Ok(places.into_iter().map(|(content, _)| content).collect())
    }

    /// Reserves blocks for new contents. Returns the first free block, and for each content its
    /// location and true if it is new.
    fn reserve_all(&self, contents: &[(ObjectId, &[u8])]) -> Result<(u64, Vec<(Content, bool)>), Error> {
        let mut state = self.state();
        let first = state.next;
        let mut places = Vec::with_capacity(contents.len());
        for (at, (oid, bytes)) in contents.iter().enumerate() {
            if let Some(known) = self.blobs.find(oid).or_else(|| state.added.get(oid).copied()) {
                places.push((known, false));
                continue;
            }
            match self.reserve(&mut state, *oid, bytes.len() as u64) {
                Ok(content) => places.push((content, true)),
                Err(error) => {
                    let new = contents[..at].iter().zip(&places).filter(|(_, (_, is_new))| *is_new);
                    let new: Vec<_> = new.map(|((oid, _), (content, _))| (*oid, *content)).collect();
                    state.forget(&new);
                    return Err(error);
                }
            }
        }
        Ok((first, places))
    }

    /// Adds a content of `size` bytes, which `fill` provides in pieces. Returns `None` if `fill`
    /// provided another number of bytes.
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
        let mut state = self.state();
        if failure.is_some() || filled.is_err() || !is_whole {
            state.added.remove(&oid);
        } else {
            state.written.push((oid, content));
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
        let content = Content { file: self.file, block, size };
        state.next += content.blocks();
        state.added.insert(oid, content);
        Ok(content)
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Io { action, path: self.files.data_path.clone(), source }
    }

    /// Publishes the contents added since the last call. With [`Publication::Synced`], syncs the
    /// contents, writes their records, and syncs the records; contents that were pending become
    /// durable too. After a failure these contents count as missing.
    pub(super) fn publish(&self, publication: &Publication) -> Result<(), Error> {
        let mut published = self.published();
        let mut written = {
            let mut state = self.state();
            let promotes = *publication == Publication::Synced && !published.pending.is_empty();
            if state.written.is_empty() && !published.is_new && !promotes {
                return Ok(());
            }
            // The file includes the complete last block. No thread writes beyond `next`.
            let length = state.next * BLOCK;
            self.files.data.set_len(length).map_err(|source| self.failed("write", source))?;
            std::mem::take(&mut state.written)
        };
        written.sort_unstable_by_key(|(_, content)| content.block);
        let result = self.record(&mut published, &written, publication);
        match (&result, written.last()) {
            (Ok(()), Some((_, last))) => published.data = published.data.max(last.end() * BLOCK),
            (Ok(()), None) => {}
            (Err(_), _) => self.state().forget(&written),
        }
        result
    }

    fn record(
        &self,
        published: &mut Published,
        written: &[(ObjectId, Content)],
        publication: &Publication,
    ) -> Result<(), Error> {
        let new = written.iter().map(|&(oid, Content { block, size, .. })| Record { oid, block, size });
        let (dir, generation, hash) = (&self.blobs.dir, self.files.generation, self.blobs.hash);
        match publication {
            Publication::Pending(boot) => {
                self.append_records(published, &[])?;
                let all: Vec<Record> = published.pending.iter().copied().chain(new).collect();
                pending::write(dir, generation, hash, boot, &all)?;
                published.pending = all;
            }
            Publication::Unsynced => self.append_records(published, &new.collect::<Vec<_>>())?,
            Publication::Synced => {
                sys::sync_data(&self.files.data).map_err(|source| self.failed("sync", source))?;
                let all: Vec<Record> = published.pending.iter().copied().chain(new).collect();
                let is_first = published.is_new || !published.pending.is_empty();
                self.append_records(published, &all)?;
                let index = &self.files.index_path;
                let failed = |path: &Path| {
                    let path = path.to_owned();
                    |source| Error::Io { action: "sync", path, source }
                };
                sys::sync_data(&self.files.index).map_err(failed(index))?;
                if is_first {
                    let blobs = dir.join("blobs");
                    by_path::sync_dir(&blobs).map_err(failed(&blobs))?;
                }
                if !published.pending.is_empty() {
                    pending::remove(dir, generation)?;
                    published.pending.clear();
                }
            }
        }
        Ok(())
    }

    /// Writes records to the index, which gets its head if it is new.
    fn append_records(&self, published: &mut Published, records: &[Record]) -> Result<(), Error> {
        let (files, hash) = (&self.files, self.blobs.hash);
        let (mut bytes, offset) = if published.is_new {
            (header(hash).to_vec(), 0)
        } else {
            (Vec::new(), pending::after_records(published.index, hash))
        };
        records.iter().for_each(|record| push_record(&mut bytes, record));
        if bytes.is_empty() {
            return Ok(());
        }
        let failed = |source| Error::Io { action: "write", path: files.index_path.clone(), source };
        files.index.write_pieces_at(&mut [IoSlice::new(&bytes)], offset).map_err(failed)?;
        published.index = offset + bytes.len() as u64;
        published.is_new = false;
        Ok(())
    }
}

impl State {
    fn forget(&mut self, contents: &[(ObjectId, Content)]) {
        for (oid, _) in contents {
            self.added.remove(oid);
        }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        let published = self.published();
        // A failure here only wastes disk space until the next `gc`.
        if published.is_new {
            let _ = by_path::remove_file(&self.files.index_path);
            let _ = by_path::remove_file(&self.files.data_path);
        } else {
            let _ = self.files.index.set_len(published.index);
            let _ = self.files.data.set_len(published.data);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{fs, path::Path};

    use format::HashKind;

    use super::*;
    use crate::workspace::base::blobs::generations;

    fn oid(bytes: &[u8]) -> ObjectId {
        let mut hasher = format::hash::Hasher::object(HashKind::Sha1, "blob", bytes.len() as u64);
        hasher.update(bytes);
        hasher.finish().expect("no attack")
    }

    fn stored(dir: &Path, content: Content) -> Vec<u8> {
        let blobs = Blobs::open(dir, &[], HashKind::Sha1).expect("opened");
        let path = blobs.dir.join(&blobs.files[content.file as usize].path);
        let file = by_path::open(&path).expect("opened");
        let mut bytes = vec![0; content.size as usize];
        file.read_exact_at(&mut bytes, u64::from(content.block) * BLOCK).expect("read");
        bytes
    }

    fn add(dir: &Path, contents: &[&[u8]]) {
        let blobs = Blobs::open(dir, &[], HashKind::Sha1).expect("opened");
        let appender = blobs.append(Vec::new()).expect("begun");
        let named: Vec<_> = contents.iter().map(|bytes| (oid(bytes), *bytes)).collect();
        appender.add(&named).expect("added");
        appender.publish(&Publication::Synced).expect("published");
    }

    fn check(dir: &Path, contents: &[&[u8]]) {
        let blobs = Blobs::open(dir, &[], HashKind::Sha1).expect("opened");
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
        let attempt = || {
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
            generations(dir.path()).expect("listed")
        };
        // A child that another test forks may hold the lock of a generation until it executes.
        assert!((0..20).any(|_| attempt() == [1]));
    }

    #[test]
    fn an_addition_that_fails_leaves_nothing() {
        let dir = dir();
        let begin = |dir: &Path| {
            let blobs = Blobs::open(dir, &[], HashKind::Sha1).expect("opened");
            blobs.append(Vec::new()).expect("begun").add(&[(oid(b"lost"), b"lost")]).expect("added");
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
    fn additions_at_once_go_to_generations_of_their_own() {
        let dir = dir();
        add(dir.path(), &[b"before"]);
        let begin = || {
            let blobs = Blobs::open(dir.path(), &[], HashKind::Sha1).expect("opened");
            blobs.append(Vec::new()).expect("begun")
        };
        let (one, other) = (begin(), begin());
        one.add(&[(oid(b"one"), b"one")]).expect("added");
        other.add(&[(oid(b"other"), b"other")]).expect("added");
        other.publish(&Publication::Synced).expect("published");
        one.publish(&Publication::Synced).expect("published");
        one.add(&[(oid(b"lost"), b"lost")]).expect("added");
        drop((one, other));
        assert_eq!(generations(dir.path()).expect("listed"), [1, 2]);
        let blobs = Blobs::open(dir.path(), &[], HashKind::Sha1).expect("opened");
        assert_eq!(blobs.known.len(), 3);
        let places = [&b"before"[..], b"one", b"other"].map(|bytes| blobs.find(&oid(bytes)).expect("found"));
        assert_eq!(places.map(|content| content.file), [0, 0, 1]);
        assert_eq!(stored(dir.path(), places[1]), b"one");
        // Both are free again. A child that another test forks may hold a lock until it executes.
        let mut contents = (0..100_u8).map(|number| [number; 7]);
        assert!(contents.any(|content| {
            let before = generations(dir.path()).expect("listed");
            add(dir.path(), &[&content]);
            generations(dir.path()).expect("listed") == before
        }));
    }

    #[test]
    fn each_hash_has_its_own_generations() {
        let dir = dir();
        add(dir.path(), &[b"one"]);
        let other = Blobs::open(dir.path(), &[], HashKind::Sha256).expect("opened");
        assert!(other.known.is_empty());
        other.append(Vec::new()).expect("begun").publish(&Publication::Unsynced).expect("published");
        assert_eq!(generations(dir.path()).expect("listed"), [1, 2]);
        add(dir.path(), &[b"two"]);
        check(dir.path(), &[b"one", b"two"]);
    }

    #[test]
    fn a_stream_must_have_the_promised_size() {
        let dir = dir();
        let blobs = Blobs::open(dir.path(), &[], HashKind::Sha1).expect("opened");
        let appender = blobs.append(Vec::new()).expect("begun");
        let stream = |bytes: &'static [u8], size| {
            appender.stream(oid(bytes), size, |sink| bytes.chunks(100).try_for_each(sink))
        };
        let place = stream(&[3; 1000], 1000).expect("written").expect("filled").expect("whole");
        assert_eq!(stream(&[4; 10], 11).expect("written").expect("filled"), None);
        assert!(stream(&[5; 10], 9).expect("written").is_err());
        appender.publish(&Publication::Synced).expect("published");
        assert_eq!(stored(dir.path(), place), [3; 1000]);
    }
}
