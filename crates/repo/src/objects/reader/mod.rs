//! One thread's reader: its buffers, its inflater, its cache of delta bases; and which copy of an
//! object is read.
//!
//! Copies are tried in the order in which they are found. One that is damaged is marked, so that it is
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
use super::turns::Turn;
use super::{Error, Fault, Location, Objects};

/// Memory that a reader keeps for its next object, in bytes; more is given back.
pub(super) const RETAINED: usize = 16 << 20;

/// Of those that are many: what takes more is done by turns.
const RETAINED_BY_MANY: usize = 1 << 20;

/// A loose object larger than this is rather streamed, in bytes.
const LOOSE_WHOLE: u64 = 1 << 20;

/// One thread's reader.
#[derive(Debug)]
pub struct Reader<'a> {
    objects: &'a Objects,
    packs: Arc<Packs>,
    /// The pack in which the last object was found, if that is worth trying first.
    last: Option<u32>,
    inflater: Inflater,
    cache: Cache,
    chain: Vec<Link>,
    /// Where in a pack it read last.
    window: Window,
    delta: Buffer,
    out: Buffer,
    /// What `out` holds, if it may serve as a base.
    out_key: Option<(Key, Kind)>,
    file: Vec<u8>,
    /// [`RETAINED`] or [`RETAINED_BY_MANY`].
    retained: usize,
    turn: Option<Turn>,
    rescues: u8,
    counts: Counts,
}

/// What a reader did so far, for measuring and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries of packs inflated whole, deltas included.
    pub inflated: u64,
    /// Bytes that came of them.
    pub inflated_bytes: u64,
    /// Deltas applied.
    pub deltas: u64,
    /// Chains that ended at a base in the cache.
    pub hits: u64,
}

/// An object read up to a limit.
#[derive(Debug)]
pub enum Content<'r> {
    /// The whole object.
    Whole(Kind, &'r [u8]),
    /// Its type and size, which is over the limit: to be had by [`Reader::stream`].
    Large(Kind, u64),
}

/// A delta on the way from an object to its base.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Offset of the entry.
    offset: u64,
    /// Where its compressed data starts.
    payload: usize,
    /// Size of the delta, inflated.
    size: u64,
}

/// As [`Content`], with the bytes' place.
#[derive(Clone, Copy, Debug)]
enum Decoded {
    Whole(Kind, Held),
    Large(Kind, u64),
}

/// Where the bytes of a decoded object are.
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
            turn: None,
            rescues: 0,
            counts: Counts::default(),
        }
    }

    /// One of many.
    pub(super) fn small(objects: &'a Objects, base_cache: usize) -> Reader<'a> {
        Reader { retained: RETAINED_BY_MANY, ..Reader::new(objects, base_cache) }
    }

    /// To be called before memory of `size` bytes is used.
    fn take_turn(&mut self, size: usize) {
        if size > self.retained && self.retained < RETAINED && self.turn.is_none() {
            self.turn = Some(self.objects.turns.take());
        }
    }

    /// What was read is no longer needed.
    fn end_turn(&mut self) {
        if self.turn.is_some() {
            self.out_key = None;
            self.out.shed(self.retained);
            self.delta.shed(self.retained);
            if self.file.capacity() > self.retained {
                self.file = Vec::new();
            }
            self.turn = None;
        }
    }

    /// Decodes a whole object into the reader's memory.
    pub fn read(&mut self, oid: &ObjectId) -> Result<(Kind, &[u8]), Error> {
        let fetched = self.fetch(oid);
        maps_are_readable()?;
        match fetched {
            Ok((kind, held)) => Ok((kind, self.held(held))),
            // The empty tree is known everywhere, stored or not.
            Err(Error::Missing(_) | Error::Promised(_) | Error::Alternates { .. })
                if *oid == ObjectId::empty_tree(oid.kind()) =>
            {
                Ok((Kind::Tree, &[]))
            }
            Err(error) => Err(error),
        }
    }

    /// Decodes an object unless it is larger than `limit` bytes and can be streamed: what is stored as
    /// a delta cannot, and Git does not make deltas of what is over `core.bigFileThreshold`. A loose object of
    /// more than 1 MiB is left to be streamed whatever the limit: nothing is gained by holding it whole.
    pub fn read_up_to(&mut self, oid: &ObjectId, limit: u64) -> Result<Content<'_>, Error> {
        self.read_located(oid, None, limit)
    }

    /// As [`Reader::read_up_to`], with what [`Objects::locate`] said of this object: it is not looked for again.
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
        );
        maps_are_readable()?;
        Ok(match read? {
            Decoded::Whole(kind, held) => Content::Whole(kind, self.held(held)),
            Decoded::Large(kind, size) => Content::Large(kind, size),
        })
    }

    /// Type and size, without decoding more than the first bytes.
    pub fn header(&mut self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        let oid = self.objects.replaced(oid)?;
        let header =
            self.each_copy(&oid, None, Reader::packed_header, |reader, file| reader.loose_header(file));
        maps_are_readable().and(header)
    }

    /// What this reader did so far.
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

    /// As [`Reader::fetch`], of a name that replacements were applied to.
    fn fetch_real(&mut self, oid: &ObjectId) -> Result<(Kind, Held), Error> {
        let whole = |reader: &mut Self, file: &File| match reader.decode_loose(file, u64::MAX)? {
            Decoded::Whole(kind, held) => Ok((kind, held)),
            Decoded::Large(_, size) => Err(Fault::Memory(size)),
        };
        self.each_copy(oid, None, Reader::decode, whole)
    }

    /// Reads an object from one of its copies. In a partial clone what is missing is sent for, unless it is
    /// looked for only as the base of a delta.
    fn each_copy<T>(
        &mut self,
        oid: &ObjectId,
        location: Option<Location>,
        packed: impl Fn(&mut Self, &Arc<Pack>, u64) -> Result<T, Fault>,
        loose: impl Fn(&mut Self, &File) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let _phase = profile::span(Phase::Decode);
        self.end_turn();
        match self.try_copies(oid, location, &packed, &loose) {
            Err(Error::Missing(_) | Error::Promised(_))
                if self.objects.options.promisors.is_some()
                    && self.rescues == 0
                    && *oid != ObjectId::empty_tree(oid.kind()) =>
            {
                self.objects.fetch_missing(&mut std::iter::once(*oid))?;
                self.packs = self.objects.packs();
                self.try_copies(oid, None, &packed, &loose)
            }
            read => read,
        }
    }

    /// Tries one copy of an object after the other until one can be read.
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
            // A loose object does not come back by repacking.
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
        // Set aside by an earlier read: looking again tells why. Not while looking for a base, which
        // would go round in circles.
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

    /// The pack of a location, unless the entry is known to be damaged.
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
        self.last = Some(id).filter(|&id| self.packs.remembers(id));
        Some((Arc::clone(self.packs.get(id)?), offset))
    }
}
