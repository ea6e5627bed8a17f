//! Finds out what is in a pack: the names and places of its objects, for its index.
//!
//! Promise: [`Pack::finish`] gives an answer only if every object was inflated, every delta
//! applied, every object named, and no object differs from an existing one of the same name. For
//! any bytes the result is that or an error in Git's words, with bounded memory, and no recursion.
//!
//! Order: [`scan()`] reads the stream once and copies it. The caller checks the trailer, and maps
//! the copy. [`Pack::resolve`] applies the deltas. [`Pack::complete`] adds the bases that a thin
//! pack lacks. docs/design/packs.md says why. [`scan_beginning()`] reads a pack that broke off.

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
use crate::objects::{Objects, buffer::Buffer, inflate::Inflater};

/// How a pack is indexed.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The hash of the names.
    pub hash: HashKind,
    /// The number of threads, this one included.
    pub threads: usize,
    /// `core.bigFileThreshold`: larger blobs are not held.
    pub big_file_threshold: u64,
    /// `core.deltaBaseCacheLimit`: the bytes of bases that each thread holds.
    pub base_cache: usize,
    /// The most bytes that a pack may have.
    pub limit: Option<u64>,
    /// The objects to compare with, and to take missing bases from.
    pub existing: Option<&'a Objects>,
    /// Set to stop.
    pub interrupt: &'a AtomicBool,
    /// Counts the work done so far.
    pub meter: &'a Meter,
    /// Sees the objects as they are named.
    pub observer: Option<&'a dyn Observer>,
}

/// Takes an object that was not held: its name, kind, size and content.
pub type Take<'t, E> = dyn FnMut(&ObjectId, Kind, u64, &mut dyn Read) -> Result<(), E> + 't;

/// Sees the objects of a pack while they are in memory.
pub trait Observer: Sync {
    /// Takes an object that was named and compared, in any order, from any thread. It is at
    /// `offset` in the pack. Objects that are not held do not come: see [`Observer::large`].
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64);

    /// Takes an object that is not held, after all others. If the answer is [`Wanted::Content`], it
    /// comes to [`Observer::object`] too.
    fn large(&self, _object: &Large) -> Wanted {
        Wanted::Name
    }

    /// Returns true if objects are of use before the whole pack was read. Deltas are then applied
    /// as they arrive, as long as their bases are in memory.
    fn is_in_hurry(&self) -> bool {
        false
    }
}

/// An object that is too large to be held while a pack is read.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Large {
    pub oid: ObjectId,
    pub kind: Kind,
    /// The bytes of its content.
    pub size: u64,
    /// Its place in the pack.
    pub offset: u64,
}

/// How much of a large object an observer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing more.
    Name,
    /// All bytes, in memory.
    Content,
}

/// Counters for those who watch.
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
    /// The objects become loose objects.
    pub unpacks: AtomicBool,
}

/// A stream with a pack.
pub struct Source<'a> {
    /// The stream.
    pub stream: &'a mut dyn Read,
    /// The stream is a file: reading ahead does not wait.
    pub is_file: bool,
    /// Bytes of it that somebody has read already, 12 at most.
    pub before: &'a [u8],
}

/// The bytes after the entries of a pack.
pub struct End {
    /// The checksum of all bytes before.
    pub trailer: Vec<u8>,
    /// Bytes that were read after the pack.
    pub rest: Vec<u8>,
    /// The stream is a file, and goes on after the pack.
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
    /// The number of bytes before the trailer.
    pub fn end(&self) -> u64 {
        self.table.end
    }

    /// The number of objects.
    pub fn count(&self) -> u32 {
        self.table.count()
    }

    /// The number of deltas that are not applied yet.
    pub fn unresolved(&self) -> usize {
        self.unresolved
    }

    /// Applies all deltas whose bases are in the pack. `data` are the bytes of the pack. If they
    /// are those of `file`, they are read from there: pages of a map would count as memory of this
    /// process.
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

    /// Compares the objects that the first pass did not hold with existing ones.
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

    /// Shows the observer the objects that the first pass did not hold. It knows the other objects
    /// of the pack by now, and may need the contents of some.
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

    /// Passes each object that was not held to `take`: name, kind, size and content.
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
