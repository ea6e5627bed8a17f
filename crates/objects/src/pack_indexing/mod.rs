//! Finds the objects of a pack, with their names and offsets, for its index.
//!
//! Promise: [`Pack::finish`] returns objects only if every object was inflated, every delta
//! applied, every object hashed, and no object differs from an existing one of the same name. For
//! any input the result is that or an error in Git's wording, with bounded memory, and no
//! recursion.
//!
//! Order: [`scan()`] reads the stream once and copies it. The caller checks the trailer, and maps
//! the copy. [`Pack::resolve`] applies the deltas. [`Pack::complete`] adds the bases that a thin
//! pack lacks. docs/design/packs.md has the reasons. [`scan_beginning()`] reads a pack whose
//! transfer broke off.

mod error;
mod existing;
mod families;
mod hashing;
mod header;
mod inflate;
mod input;
mod lately;
mod resolve;
mod salvage;
mod scan;
mod table;
mod thin;
mod whole;
mod worker;

use std::{
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use format::{HashKind, Kind, ObjectId};

pub use error::{Error, Flaw};
pub use input::Copy;
pub use salvage::scan_beginning;
pub use table::Indexed;
pub use thin::Append;
pub use whole::WholePack;

use self::{
    existing::Namer,
    families::Families,
    input::{Input, Origin},
    resolve::Resolver,
    table::{Form, Table},
};
use crate::database::{Objects, buffer::Buffer, inflate::Inflater};

/// Options for indexing a pack.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The hash of the names.
    pub hash: HashKind,
    /// The number of threads, this one included.
    pub threads: usize,
    /// `core.bigFileThreshold`, in bytes: larger blobs are not kept in memory.
    pub big_file_threshold: u64,
    /// `core.deltaBaseCacheLimit`: the bytes of delta bases that each thread may keep.
    pub base_cache: usize,
    /// The maximum length of the pack, in bytes.
    pub limit: Option<u64>,
    /// The existing objects to compare with, which also supply missing bases.
    pub existing: Option<&'a Objects>,
    /// Set by the caller to stop.
    pub interrupt: &'a AtomicBool,
    /// Counts the work done so far.
    pub meter: &'a Meter,
    /// Receives the objects when they are hashed.
    pub observer: Option<&'a dyn Observer>,
}

/// Receives an object that was not kept in memory: its name, kind, size and content.
pub type Take<'t, E> = dyn FnMut(&ObjectId, Kind, u64, &mut dyn Read) -> Result<(), E> + 't;

/// Receives the objects of a pack while they are in memory.
pub trait Observer: Sync {
    /// Receives an object after it was hashed and compared, in any order, on any thread. Its entry
    /// is at `offset` in the pack. Objects that are not kept in memory go to [`Observer::large`].
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64);

    /// Receives an object that is not kept in memory, after all others. After [`Wanted::Content`]
    /// the object is also passed to [`Observer::object`].
    fn large(&self, _object: &Large) -> Wanted {
        Wanted::Name
    }

    /// Returns true if the observer needs objects before the whole pack was read. Deltas are then
    /// applied as they arrive, as long as their bases are in memory.
    fn is_in_hurry(&self) -> bool {
        false
    }
}

/// An object that is too large to keep in memory while a pack is read.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Large {
    pub oid: ObjectId,
    pub kind: Kind,
    /// The bytes of its content.
    pub size: u64,
    /// The offset of its entry in the pack.
    pub offset: u64,
}

/// The part of a large object that an observer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Only its name.
    Name,
    /// All bytes, in memory.
    Content,
}

/// Counters for progress reports.
#[derive(Debug, Default)]
pub struct Meter {
    /// The number of objects; 0 until it is known.
    pub total: AtomicU64,
    /// The number of objects read.
    pub received: AtomicU64,
    /// The number of bytes read.
    pub bytes: AtomicU64,
    /// The number of deltas; 0 until it is known.
    pub deltas: AtomicU64,
    /// The number of deltas applied.
    pub resolved: AtomicU64,
    /// The number of bases that were added to a thin pack.
    pub added: AtomicU64,
    /// True if the objects become loose objects.
    pub unpacks: AtomicBool,
}

/// A stream that contains a pack.
pub struct Source<'a> {
    /// The stream.
    pub stream: &'a mut dyn Read,
    /// True if the stream is a file: reading ahead does not wait for a writer.
    pub is_file: bool,
    /// Bytes that the caller has already read from it, 12 at most.
    pub before: &'a [u8],
}

/// The bytes after the entries of a pack.
pub struct End {
    /// The checksum of all bytes before.
    pub trailer: Vec<u8>,
    /// Bytes that were read after the pack.
    pub rest: Vec<u8>,
    /// True if the stream is a file with more bytes after the pack.
    pub has_junk: bool,
}

/// A pack whose entries are known.
pub struct Pack<'a> {
    options: Options<'a>,
    table: Table,
    families: Families,
    unresolved: usize,
}

/// Reads a pack, and passes its bytes up to the trailer to `copy`.
pub fn scan<'a>(
    source: Source<'_>,
    options: &Options<'a>,
    copy: &mut Copy<'_>,
) -> Result<(Pack<'a>, End), Error> {
    let origin = Origin {
        source: source.stream,
        is_file: source.is_file,
        limit: options.limit,
        interrupt: options.interrupt,
        meter: &options.meter.bytes,
    };
    let input = Input::new(origin, source.before, copy);
    let (table, end) = scan::scan(input, options)?;
    Ok((Pack::of(table, options), end))
}

impl<'a> Pack<'a> {
    fn of(mut table: Table, options: &Options<'a>) -> Pack<'a> {
        let is_delta = |form: Form| form == Form::Delta;
        let unresolved = table.entries.iter().filter(|entry| is_delta(entry.form)).count();
        let families = Families::of(&mut table);
        options.meter.deltas.store(unresolved as u64, Ordering::Relaxed);
        Pack { options: *options, table, families, unresolved }
    }
}

impl Pack<'_> {
    /// Returns the number of bytes before the trailer.
    pub fn end(&self) -> u64 {
        self.table.end
    }

    /// Returns the number of objects.
    pub fn count(&self) -> u32 {
        self.table.count()
    }

    /// Returns the number of deltas that are not applied yet.
    pub fn unresolved(&self) -> usize {
        self.unresolved
    }

    /// Applies all deltas whose bases are in the pack. `data` are the bytes of the pack. With
    /// `file`, which must contain the same bytes, they are read from the file: pages of a mapping
    /// would count as memory of this process.
    pub fn resolve(&mut self, data: &[u8], file: Option<&sys::File>) -> Result<(), Error> {
        self.compare_large(data)?;
        if self.unresolved > 0 {
            self.apply_deltas(data, file)?;
        }
        self.show_large(data)
    }

    fn apply_deltas(&mut self, data: &[u8], file: Option<&sys::File>) -> Result<(), Error> {
        let names = std::mem::take(&mut self.table.names);
        let mut resolver = Resolver::new(&self.options, &self.table, &self.families, data, names);
        resolver.file = file;
        let (names, resolved) = resolver.run()?;
        self.table.names = names;
        self.unresolved -= resolved;
        maps_are_readable()
    }

    /// Compares the objects that the first pass did not keep with existing objects.
    fn compare_large(&self, data: &[u8]) -> Result<(), Error> {
        let mut namer = Namer::new(&self.options);
        for &index in &self.table.large {
            let entry = self.table.entry(index);
            let Form::Whole(kind) = entry.form else { continue };
            let deflated = data.get(self.table.compressed(index)).ok_or(Error::Inconsistent)?;
            namer.compare_stream(&self.table.name(index), kind, entry.size, deflated)?;
        }
        maps_are_readable()
    }

    /// Passes the objects that the first pass did not keep to the observer. It has received all
    /// other objects of the pack by now, and may need the contents of some of these.
    fn show_large(&self, data: &[u8]) -> Result<(), Error> {
        let Some(observer) = self.options.observer else { return Ok(()) };
        let (mut inflater, mut content, memory) = (Inflater::new(), Buffer::default(), Arc::default());
        for &index in &self.table.large {
            let entry = self.table.entry(index);
            let Form::Whole(kind) = entry.form else { continue };
            let large = Large { oid: self.table.name(index), kind, size: entry.size, offset: entry.offset };
            if observer.large(&large) == Wanted::Name {
                continue;
            }
            let deflated = data.get(self.table.compressed(index)).ok_or(Error::Inconsistent)?;
            let too_large = || Error::Memory(entry.size);
            let size = usize::try_from(entry.size).map_err(|_| too_large())?;
            let place = content.resize(size, &memory).map_err(|_| too_large())?;
            inflater.whole(deflated, place).map_err(|_| Error::Inconsistent)?;
            observer.object(&large.oid, kind, content.bytes(), entry.offset);
        }
        maps_are_readable()
    }

    /// Passes each object that was not kept in memory to `take`: name, kind, size and content.
    pub fn each_large<E>(&self, data: &[u8], take: &mut Take<'_, E>) -> Result<(), E> {
        for &index in &self.table.large {
            let entry = self.table.entry(index);
            let Form::Whole(kind) = entry.form else { continue };
            let deflated = data.get(self.table.compressed(index)).unwrap_or_default();
            let mut content = sirocco::inflate::Reader::new(sirocco::Format::Zlib, deflated);
            take(&self.table.name(index), kind, entry.size, &mut content)?;
        }
        Ok(())
    }

    /// Returns the objects for the index.
    pub fn finish(self) -> Result<Indexed, Error> {
        match self.unresolved {
            0 => Ok(Indexed::new(self.table)),
            left => Err(Error::Unresolved(left)),
        }
    }
}

/// Returns an error if a mapped file could not be read.
fn maps_are_readable() -> Result<(), Error> {
    match sys::unreadable_map() {
        None => Ok(()),
        Some((path, source)) => Err(Error::Map { path, source }),
    }
}

#[cfg(test)]
mod tests;
