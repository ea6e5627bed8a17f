//! The reader of one thread: its buffers, its inflater, its delta base cache, and the choice
//! between copies of an object.
//!
//! Copies are tried in the order in which they are found. A damaged copy is marked, so that it is
//! not found again, and the next one is tried.

mod decode;
mod loose;
mod stream;

use std::sync::Arc;

use format::{Kind, ObjectId};
use sys::{
    File,
    profile::{self, Phase},
};

use super::buffer::Buffer;
use super::cache::{Cache, Key};
use super::error::maps_are_readable;
use super::inflate::Inflater;
use super::pack::{Pack, Window};
use super::packs::Packs;
use super::permits::Permit;
use super::{Error, Fault, Limits, Location, Objects};

/// The memory that a reader keeps for its next object, in bytes. It frees the rest.
pub(super) const RETAINED: usize = 16 << 20;

/// Like [`RETAINED`], for the readers of large crews. They need a permit for larger objects.
const RETAINED_BY_SMALL: usize = 1 << 20;

/// A loose object of more bytes than this is streamed.
const LOOSE_WHOLE: u64 = 1 << 20;

/// The reader of one thread.
#[derive(Debug)]
pub struct Reader<'a> {
    objects: &'a Objects,
    packs: Arc<Packs>,
    /// The pack of the last object, if it should be searched first.
    last: Option<u32>,
    inflater: Inflater,
    cache: Cache,
    chain: Vec<Link>,
    /// The position of the last read in a pack.
    window: Window,
    delta: Buffer,
    out: Buffer,
    /// The key of the object in `out`, if it may serve as a base.
    out_key: Option<(Key, Kind)>,
    file: Vec<u8>,
    /// [`RETAINED`] or [`RETAINED_BY_SMALL`].
    retained: usize,
    permit: Option<Permit>,
    limits: Limits,
    /// The work for the current object, see [`Limits::work`].
    work: u64,
    rescues: u8,
    counts: Counts,
}

/// The work of a reader, for measurements and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inflated entries of packs, including deltas.
    pub inflated: u64,
    /// The inflated bytes.
    pub inflated_bytes: u64,
    /// Applied deltas.
    pub deltas: u64,
    /// Chains that ended at a cached base.
    pub hits: u64,
}

/// An object that is read up to a limit.
#[derive(Debug)]
pub enum Content<'r> {
    /// The whole object.
    Whole(Kind, &'r [u8]),
    /// Its type and size, which is over the limit. [`Reader::stream`] reads it.
    Large(Kind, u64),
}

/// A delta on the way from an object to its base.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The offset of the entry.
    offset: u64,
    /// The offset of its compressed data.
    payload: usize,
    /// The inflated size of the delta.
    size: u64,
}

/// Like [`Content`], but refers to the bytes by their place.
#[derive(Clone, Copy, Debug)]
enum Decoded {
    Whole(Kind, Held),
    Large(Kind, u64),
}

/// The place of a decoded object.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// In `out`, from this position on.
    Out(usize),
    Cached(usize),
}

impl<'a> Reader<'a> {
    pub(super) fn new(objects: &'a Objects, base_cache: usize) -> Reader<'a> {
        Reader {
            objects,
            packs: objects.packs(),
            last: None,
            inflater: Inflater::new(),
            cache: Cache::new(base_cache),
            chain: Vec::new(),
            window: Window::default(),
            delta: Buffer::default(),
            out: Buffer::default(),
            out_key: None,
            file: Vec::new(),
            retained: RETAINED,
            permit: None,
            limits: objects.options.limits.unwrap_or(Limits::NONE),
            work: 0,
            rescues: 0,
            counts: Counts::default(),
        }
    }

    /// Makes a reader for a large crew.
    pub(super) fn small(objects: &'a Objects, base_cache: usize) -> Reader<'a> {
        Reader { retained: RETAINED_BY_SMALL, ..Reader::new(objects, base_cache) }
    }

    /// Waits for a permit if `size` exceeds the bytes that this reader may hold without one.
    fn take_permit(&mut self, size: usize) {
        if size > self.retained && self.retained < RETAINED && self.permit.is_none() {
            self.permit = Some(self.objects.permits.take());
        }
    }

    /// Begins the work for an object.
    fn begin_work(&mut self) {
        self.work = 0;
    }

    /// Checks the limits before memory is allocated for `size` bytes.
    fn spend(&mut self, size: u64) -> Result<(), Fault> {
        if size > self.limits.largest {
            return Err(Fault::TooLarge(size));
        }
        self.work = self.work.saturating_add(size);
        if self.work > self.limits.work { Err(Fault::TooLong) } else { Ok(()) }
    }

    /// Returns the permit: the last object is no longer needed.
    fn release_permit(&mut self) {
        if self.permit.is_some() {
            self.out_key = None;
            self.out.shrink_to(self.retained);
            self.delta.shrink_to(self.retained);
            if self.file.capacity() > self.retained {
                self.file = Vec::new();
            }
            self.permit = None;
        }
    }

    /// Decodes a whole object into the reader's memory.
    pub fn read(&mut self, oid: &ObjectId) -> Result<(Kind, &[u8]), Error> {
        let fetched = self.fetch(oid);
        maps_are_readable()?;
        match fetched {
            Ok((kind, held)) => Ok((kind, self.held(held))),
            // The empty tree always exists, even if it is not stored.
            Err(Error::Missing(_) | Error::Promised(_) | Error::Alternates { .. })
                if *oid == ObjectId::empty_tree(oid.kind()) =>
            {
                Ok((Kind::Tree, &[]))
            }
            Err(error) => Err(error),
        }
    }

    /// Decodes an object unless it is larger than `limit` bytes and can be streamed. An object that
    /// is stored as a delta cannot be streamed; Git does not make deltas of objects larger than
    /// `core.bigFileThreshold`. A loose object of more than 1 MiB is always left for streaming,
    /// because decoding it whole has no benefit.
    pub fn read_up_to(&mut self, oid: &ObjectId, limit: u64) -> Result<Content<'_>, Error> {
        self.read_located(oid, None, limit)
    }

    /// Like [`Reader::read_up_to`], with the result of [`Objects::locate`] for this object, which
    /// saves the search.
    pub fn read_located(
        &mut self,
        oid: &ObjectId,
        location: Option<Location>,
        limit: u64,
    ) -> Result<Content<'_>, Error> {
        let oid = self.objects.replaced(oid)?;
        let read = self.each_copy(
            &oid,
            location,
            |reader, pack, offset| match reader.large_packed(pack, offset, limit)? {
                Some((kind, size)) => Ok(Decoded::Large(kind, size)),
                None => reader.decode(pack, offset).map(|(kind, held)| Decoded::Whole(kind, held)),
            },
            |reader, file| reader.decode_loose(file, limit.min(LOOSE_WHOLE)),
            |reader, size| {
                if size > limit {
                    Some(Decoded::Large(Kind::Blob, size))
                } else {
                    reader.content(&oid, size).map(|held| Decoded::Whole(Kind::Blob, held))
                }
            },
        );
        maps_are_readable()?;
        Ok(match read? {
            Decoded::Whole(kind, held) => Content::Whole(kind, self.held(held)),
            Decoded::Large(kind, size) => Content::Large(kind, size),
        })
    }

    /// Returns type and size. Decodes only the beginning of the object.
    pub fn header(&mut self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        let oid = self.objects.replaced(oid)?;
        let loose = |reader: &mut Self, file: &File| reader.loose_header(file);
        let header = self.each_copy(&oid, None, Reader::packed_header, loose, |_, _| None);
        maps_are_readable().and(header)
    }

    /// Returns the size of an object that the caller is going to read.
    pub fn size(&mut self, oid: &ObjectId) -> Result<u64, Error> {
        let oid = self.objects.replaced(oid)?;
        let loose = |reader: &mut Self, file: &File| reader.loose_header(file);
        let content = |_: &mut Self, size| Some((Kind::Blob, size));
        let header = self.each_copy(&oid, None, Reader::packed_header, loose, content);
        maps_are_readable().and(header).map(|(_, size)| size)
    }

    /// Returns the work of this reader so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn held(&self, held: Held) -> &[u8] {
        match held {
            Held::Out(start) => &self.out.bytes()[start..],
            Held::Cached(slot) => self.cache.get(slot).1,
        }
    }

    fn fetch(&mut self, oid: &ObjectId) -> Result<(Kind, Held), Error> {
        let oid = self.objects.replaced(oid)?;
        self.fetch_real(&oid)
    }

    /// Like [`Reader::fetch`], for a name after replacements.
    fn fetch_real(&mut self, oid: &ObjectId) -> Result<(Kind, Held), Error> {
        let whole = |reader: &mut Self, file: &File| match reader.decode_loose(file, u64::MAX)? {
            Decoded::Whole(kind, held) => Ok((kind, held)),
            Decoded::Large(_, size) => Err(Fault::Memory(size)),
        };
        let content = |reader: &mut Self, size| reader.content(oid, size).map(|held| (Kind::Blob, held));
        self.each_copy(oid, None, Reader::decode, whole, content)
    }

    /// Reads a content that is stored outside of the object database.
    fn content(&mut self, oid: &ObjectId, size: u64) -> Option<Held> {
        let contents = self.objects.contents()?;
        self.chain.clear();
        let mut out = self.target(usize::try_from(size).ok()?);
        let bytes = out.resize(size as usize, &self.objects.pool).ok()?;
        let mut at = 0;
        let read = contents.read(oid, &mut |piece| {
            let place = bytes.get_mut(at..at + piece.len()).ok_or(std::io::ErrorKind::InvalidData)?;
            place.copy_from_slice(piece);
            at += piece.len();
            Ok(())
        });
        self.out = out;
        (matches!(read, Some(Ok(()))) && at as u64 == size).then_some(Held::Out(0))
    }

    /// Reads an object from one of its copies. In a partial clone, a missing object is read from
    /// the contents outside of the object database (by `content`, with its size) or fetched, unless
    /// it is only needed as the base of a delta.
    fn each_copy<T>(
        &mut self,
        oid: &ObjectId,
        location: Option<Location>,
        packed: impl Fn(&mut Self, &Arc<Pack>, u64) -> Result<T, Fault>,
        loose: impl Fn(&mut Self, &File) -> Result<T, Fault>,
        content: impl Fn(&mut Self, u64) -> Option<T>,
    ) -> Result<T, Error> {
        let _phase = profile::span(Phase::Decode);
        self.release_permit();
        match self.try_copies(oid, location, &packed, &loose) {
            Err(Error::Missing(_) | Error::Promised(_))
                if self.objects.options.promisors.is_some()
                    && self.rescues == 0
                    && *oid != ObjectId::empty_tree(oid.kind()) =>
            {
                if let Some(size) = self.size_of_content(oid)
                    && let Some(read) = content(self, size)
                {
                    return Ok(read);
                }
                self.objects.fetch_missing(&mut std::iter::once(*oid))?;
                self.packs = self.objects.packs();
                self.try_copies(oid, None, &packed, &loose)
            }
            read => read,
        }
    }

    fn size_of_content(&self, oid: &ObjectId) -> Option<u64> {
        let contents = self.objects.contents()?;
        contents.size(oid).or_else(|| {
            contents.refresh();
            contents.size(oid)
        })
    }

    /// Tries the copies of an object in order, until one can be read.
    fn try_copies<T>(
        &mut self,
        oid: &ObjectId,
        location: Option<Location>,
        packed: impl Fn(&mut Self, &Arc<Pack>, u64) -> Result<T, Fault>,
        loose: impl Fn(&mut Self, &File) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let mut first_failure = None;
        let mut located = self.located(location);
        for second_look in [false, true] {
            if second_look {
                self.packs = self.objects.rescan(&self.packs);
            }
            while let Some((pack, offset)) = located.take().or_else(|| self.find(oid)) {
                match packed(self, &pack, offset) {
                    Ok(read) => return Ok(read),
                    Err(fault) => {
                        pack.mark_bad(offset);
                        let pack = pack.path().to_owned();
                        first_failure.get_or_insert(Error::Packed { oid: *oid, pack, offset, source: fault });
                    }
                }
            }
            // Repacking does not create loose objects, so they are not tried again.
            for dir in self.objects.loose().iter().filter(|_| !second_look) {
                let failure = match dir.open(oid) {
                    Ok(None) => continue,
                    Ok(Some(file)) => match loose(self, &file) {
                        Ok(read) => return Ok(read),
                        Err(source) => Error::Loose { oid: *oid, path: dir.file(oid), source },
                    },
                    Err(source) => Error::Unreadable { oid: *oid, path: dir.file(oid), source },
                };
                first_failure.get_or_insert(failure);
            }
        }
        if let Some(failure) = first_failure {
            return Err(failure);
        }
        // An earlier read marked the copy as damaged. Another read returns the reason. This is not
        // done for a base, where it could recurse without end.
        match self.packs.find_bad(oid).filter(|_| self.rescues == 0) {
            Some((pack, offset)) => packed(self, &pack, offset).map_err(|source| Error::Packed {
                oid: *oid,
                pack: pack.path().to_owned(),
                offset,
                source,
            }),
            None => Err(self.missing(*oid)),
        }
    }

    #[cold]
    fn missing(&self, oid: ObjectId) -> Error {
        if let Some((pack, source)) =
            self.packs.unusable().and_then(|pack| Some((pack.path().to_owned(), pack.failure()?.clone())))
        {
            return Error::Unusable { oid, pack, source };
        }
        if let Some((dir, source)) = self.packs.unlisted() {
            return Error::Unlisted { oid, dir: dir.clone(), source: Arc::clone(source) };
        }
        if let Some((path, source)) = &self.objects.found().unread {
            return Error::Alternates { oid, path: path.clone(), source: Arc::clone(source) };
        }
        if self.packs.promised() { Error::Promised(oid) } else { Error::Missing(oid) }
    }

    /// Returns the pack of a location, unless the entry is known to be damaged.
    fn located(&mut self, location: Option<Location>) -> Option<(Arc<Pack>, u64)> {
        let Some(Location::Packed { pack, offset }) = location else { return None };
        if self.packs.get(pack).is_none() {
            self.packs = self.objects.packs();
        }
        let pack = self.packs.get(pack)?;
        pack.usable(offset).then(|| (Arc::clone(pack), offset))
    }

    fn find(&mut self, oid: &ObjectId) -> Option<(Arc<Pack>, u64)> {
        let last = self.last.and_then(|id| self.packs.find_in(id, oid));
        let (id, offset) = last.or_else(|| self.packs.find(oid))?;
        self.last = Some(id).filter(|&id| self.packs.should_try_first(id));
        Some((Arc::clone(self.packs.get(id)?), offset))
    }
}
