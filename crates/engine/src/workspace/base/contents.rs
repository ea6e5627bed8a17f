//! The contents of a tree's files: decoded, converted, and added to the blob files.
//!
//! Order: entries whose content already exists are settled without reading the object. The others
//! are divided into batches of neighbouring paths, which workers take in order. A worker decodes
//! its batch in pack order and writes it in path order, so that a later walk over the files reads
//! the disk sequentially.
//!
//! Files that need an external filter are the work of one more thread (see `filtered`).
//!
//! Memory: a worker holds at most [`ARENA`] bytes of contents and one object.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bstr::{BString, ByteSlice as _};
use format::{
    ObjectId,
    hash::Hasher,
    index::{Flags, Index},
};
use repo::{
    Repository,
    convert::{self, Class, Converter},
    keys,
    objects::{self, Kind, Location, Reader},
};

use super::{AddOptions, Error, append::Appender, blobs::Content, filtered};
use crate::crew::{Workers, parallel};

/// The number of files of a batch. Objects that are deltas of each other mostly belong to
/// neighbouring files.
const BATCH: usize = 256;
/// A worker flushes its arena at this size, in bytes.
pub(super) const ARENA: usize = 8 << 20;
/// Contents from this size on, in bytes, are written directly from the reader's buffer.
const LARGE: usize = 1 << 20;
/// The number of files from which another worker pays off.
const SHARE: usize = 64;
/// The approximate number of progress reports.
const REPORTS: usize = 1000;

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The entry has no file: it is outside of the sparse patterns.
    Nothing,
    /// A directory of a submodule.
    Submodule,
    /// The target of a symbolic link.
    Link(BString),
    /// A regular file; `None` if it is empty.
    File(Option<Content>),
}

/// An entry whose object has to be decoded.
#[derive(Clone, Copy)]
struct Unit {
    entry: usize,
    class: Class,
    is_link: bool,
}

pub(super) struct Run<'r> {
    pub(super) repo: &'r Repository,
    pub(super) index: &'r Index,
    pub(super) converter: &'r Converter,
    pub(super) appender: &'r Appender,
    pub(super) options: &'r AddOptions<'r>,
    /// True if the object names in the index are the hashes of the unconverted contents, because
    /// there are no replace refs.
    names_hold: bool,
    done: AtomicUsize,
    pub(super) messages: Mutex<Vec<String>>,
}

/// Finds or adds the content of each entry of `index`. Returns them in the order of the entries.
pub(super) fn settle(
    repo: &Repository,
    index: &Index,
    converter: &Converter,
    appender: &Appender,
    options: &AddOptions<'_>,
    messages: &mut Vec<String>,
) -> Result<Vec<Found>, Error> {
    let run = Run {
        repo,
        index,
        converter,
        appender,
        options,
        names_hold: repo.replacements()?.is_empty(),
        done: AtomicUsize::new(0),
        messages: Mutex::default(),
    };
    let (mut found, units, again) = run.divide()?;
    let oids = |unit: &Unit| index.entry(unit.entry).oid;
    let fetched = repo.objects().fetch_to_read(&mut units.iter().map(oids));
    fetched.map_err(|source| match units.first() {
        Some(unit) => run.unreadable(unit.entry, source),
        None => Error::Tree(source.into()),
    })?;
    let (filtered, units): (Vec<Unit>, Vec<Unit>) =
        units.into_iter().partition(|unit| unit.class == Class::External);
    let filtered: Vec<usize> = filtered.iter().map(|unit| unit.entry).collect();
    let batches: Vec<&[Unit]> = units.chunks(BATCH).collect();
    let most = match options.workers {
        Workers::Auto => sys::cores(),
        Workers::Fixed(count) => count,
    };
    let mut workers: Vec<Worker<'_>> =
        (0..parallel::threads(units.len(), SHARE, most)).map(|_| Worker::new(&run)).collect();
    let stop = AtomicBool::new(false);
    let lane = || filtered::write(&run, &filtered, &stop);
    let (written, from_lane) = std::thread::scope(|scope| {
        let started = if filtered.is_empty() {
            None
        } else {
            std::thread::Builder::new().spawn_scoped(scope, lane).ok()
        };
        let written = parallel::map(&batches, &mut workers, |worker, batch| worker.write(batch));
        stop.store(written.is_err(), Ordering::Relaxed);
        let from_lane = match started {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => lane(),
        };
        (written, from_lane)
    });
    let (written, from_lane) = (written?, from_lane?);
    drop(workers);
    for (entry, one) in written.into_iter().flatten().chain(from_lane) {
        found[entry] = one;
    }
    for (entry, first) in again {
        found[entry] = found[first].clone();
    }
    messages.append(&mut run.messages.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(found)
}

/// The found contents by entry position, the units to decode, and the duplicates: the position of
/// an entry and that of an earlier entry with the same content.
type Divided = (Vec<Found>, Vec<Unit>, Vec<(usize, usize)>);

impl Run<'_> {
    /// Settles the entries whose content already exists, and returns the others.
    fn divide(&self) -> Result<Divided, Error> {
        let index = self.index;
        let mut found = vec![Found::Nothing; index.len()];
        let (mut units, mut again) = (Vec::new(), Vec::new());
        let mut first_of: HashMap<ObjectId, usize> = HashMap::new();
        let has_links = self.repo.config(&keys::core::SYMLINKS)?;
        let mut convert = self.converter.worker();
        let empty = ObjectId::empty_blob(index.hash);
        for (at, entry) in index.entries().iter().enumerate() {
            if entry.flags.contains(Flags::SKIP_WORKTREE) {
                continue;
            }
            if entry.mode.is_gitlink() {
                found[at] = Found::Submodule;
                continue;
            }
            let is_link = entry.mode.is_symlink() && has_links;
            let class = if entry.mode.is_symlink() {
                Class::None
            } else {
                convert.class(index.path(entry), entry.mode)?
            };
            if class == Class::None && !is_link && self.names_hold {
                if entry.oid == empty {
                    found[at] = Found::File(None);
                    continue;
                }
                if let Some(content) = self.appender.find(&entry.oid) {
                    found[at] = Found::File(Some(content));
                    continue;
                }
                if let Some(&first) = first_of.get(&entry.oid) {
                    again.push((at, first));
                    continue;
                }
                first_of.insert(entry.oid, at);
            }
            units.push(Unit { entry: at, class, is_link });
        }
        self.done.store(index.len() - units.len(), Ordering::Relaxed);
        Ok((found, units, again))
    }

    pub(super) fn path(&self, entry: usize) -> BString {
        self.index.path_at(entry).to_owned()
    }

    pub(super) fn unreadable(&self, entry: usize, source: objects::Error) -> Error {
        Error::Content { path: self.path(entry), source: Box::new(source) }
    }

    pub(super) fn count(&self) {
        let (done, total) = (self.done.fetch_add(1, Ordering::Relaxed) + 1, self.index.len());
        if done == total || done.is_multiple_of(1 + total / REPORTS) {
            (self.options.progress)(done, total);
        }
    }
}

/// A content in the arena that has not been written yet.
struct Piece {
    entry: usize,
    oid: ObjectId,
    start: usize,
    len: usize,
}

struct Worker<'r> {
    run: &'r Run<'r>,
    reader: Reader<'r>,
    convert: convert::Worker,
    converted: Vec<u8>,
    arena: Vec<u8>,
    pieces: Vec<Piece>,
}

impl<'r> Worker<'r> {
    fn new(run: &'r Run<'r>) -> Worker<'r> {
        Worker {
            run,
            reader: run.repo.objects().reader(),
            convert: run.converter.worker(),
            converted: Vec::new(),
            arena: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Adds the contents of a batch.
    fn write(&mut self, batch: &[Unit]) -> Result<Vec<(usize, Found)>, Error> {
        let run = self.run;
        let oid = |unit: &Unit| run.index.entry(unit.entry).oid;
        let locate = |unit: &Unit| run.repo.objects().locate_packed(&oid(unit));
        let mut order: Vec<(Option<Location>, Unit)> =
            batch.iter().map(|unit| (locate(unit), *unit)).collect();
        order.sort_by_key(|(location, _)| *location);
        let mut found = Vec::with_capacity(batch.len());
        for (location, unit) in order {
            if run.options.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if unit.is_link {
                found.push((unit.entry, self.link(unit.entry)?));
            } else {
                self.file(unit, location, &mut found)?;
            }
            if self.arena.len() >= ARENA {
                self.flush(&mut found)?;
            }
            run.count();
        }
        self.flush(&mut found)?;
        let messages = self.convert.take_messages();
        if !messages.is_empty() {
            run.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        }
        Ok(found)
    }

    fn link(&mut self, entry: usize) -> Result<Found, Error> {
        let oid = self.run.index.entry(entry).oid;
        match self.reader.read(&oid) {
            // The kernel ends a link target at its first NUL.
            Ok((Kind::Blob, target)) => {
                let end = target.find_byte(0).unwrap_or(target.len());
                Ok(Found::Link(target[..end].into()))
            }
            Ok(_) => Err(Error::NotABlob { path: self.run.path(entry), oid }),
            Err(source) => Err(self.run.unreadable(entry, source)),
        }
    }

    fn file(
        &mut self,
        unit: Unit,
        location: Option<Location>,
        found: &mut Vec<(usize, Found)>,
    ) -> Result<(), Error> {
        let (run, entry) = (self.run, unit.entry);
        let oid = run.index.entry(entry).oid;
        let not_a_blob = || Error::NotABlob { path: run.path(entry), oid };
        let limit = match unit.class {
            Class::None => run.options.big_file_threshold,
            Class::InProcess | Class::External => u64::MAX,
        };
        let blob = match self.reader.read_located(&oid, location, limit) {
            Ok(objects::Content::Whole(Kind::Blob, blob)) => blob,
            Ok(objects::Content::Large(Kind::Blob, size)) if unit.class == Class::None => {
                found.push((entry, self.stream(entry, oid, size)?));
                return Ok(());
            }
            Ok(objects::Content::Large(Kind::Blob, _)) => match self.reader.read(&oid) {
                Ok((Kind::Blob, blob)) => blob,
                Ok(_) => return Err(not_a_blob()),
                Err(source) => return Err(run.unreadable(entry, source)),
            },
            Ok(_) => return Err(not_a_blob()),
            Err(source) => return Err(run.unreadable(entry, source)),
        };
        let bytes = match unit.class {
            Class::None => blob,
            Class::InProcess | Class::External => {
                let path = run.index.path_at(entry);
                let converted = self.convert.to_worktree(path, oid, blob, &mut self.converted);
                converted.map_err(|source| Error::Convert { path: path.into(), source: Box::new(source) })?
            }
        };
        if bytes.is_empty() {
            found.push((entry, Found::File(None)));
            return Ok(());
        }
        let oid = match unit.class {
            Class::None if run.names_hold => oid,
            _ => name_of(bytes, run.index.hash).ok_or_else(not_a_blob)?,
        };
        if bytes.len() >= LARGE {
            let place = run.appender.add(&[(oid, bytes)])?;
            found.push((entry, Found::File(place.first().copied())));
        } else {
            self.pieces.push(Piece { entry, oid, start: self.arena.len(), len: bytes.len() });
            self.arena.extend_from_slice(bytes);
        }
        if self.converted.capacity() > LARGE {
            self.converted = Vec::new();
        }
        Ok(())
    }

    /// Adds a blob that is too large for memory.
    fn stream(&mut self, entry: usize, oid: ObjectId, size: u64) -> Result<Found, Error> {
        let run = self.run;
        let interrupt = run.options.interrupt;
        let streamed = run.appender.stream(oid, size, |sink| {
            self.reader.stream(&oid, &mut |piece| {
                if interrupt.load(Ordering::Relaxed) {
                    Err(std::io::ErrorKind::Interrupted.into())
                } else {
                    sink(piece)
                }
            })
        })?;
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        match streamed {
            Ok(Some(content)) => Ok(Found::File(Some(content))),
            Ok(None) => Err(Error::NotABlob { path: run.path(entry), oid }),
            Err(source) => Err(run.unreadable(entry, source)),
        }
    }

    /// Writes the contents of the arena, in path order.
    fn flush(&mut self, found: &mut Vec<(usize, Found)>) -> Result<(), Error> {
        self.pieces.sort_unstable_by_key(|piece| piece.entry);
        let bytes = |piece: &Piece| &self.arena[piece.start..][..piece.len];
        let contents: Vec<(ObjectId, &[u8])> =
            self.pieces.iter().map(|piece| (piece.oid, bytes(piece))).collect();
        let places = self.run.appender.add(&contents)?;
        let files = self.pieces.iter().zip(places);
        found.extend(files.map(|(piece, place)| (piece.entry, Found::File(Some(place)))));
        self.pieces.clear();
        self.arena.clear();
        Ok(())
    }
}

/// Returns the object id of a blob with these bytes, or `None` for a SHA-1 collision attack.
pub(super) fn name_of(bytes: &[u8], hash: format::HashKind) -> Option<ObjectId> {
    let mut hasher = Hasher::object(hash, "blob", bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish().ok()
}
