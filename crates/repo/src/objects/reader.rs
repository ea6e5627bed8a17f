//! Decoding: one thread's reader with its buffers, inflater and cache of delta bases.
//!
//! Order, for an object stored as a delta: down its chain to the nearest base that is cached or
//! whole; then back up, each base going into the cache once its successor is made. The chain is a
//! list, not a recursion, and holds 24 bytes a link.
//!
//! On failure of a base, the same base is looked for in another pack or as a loose object, as Git
//! does; only if there is none does the object itself count as damaged.

use std::fs::File;
use std::io;
use std::sync::Arc;

use format::pack::{self, Stored};
use format::{Kind, ObjectId, loose};

use super::buffer::Buffer;
use super::cache::{Cache, Key};
use super::inflate::{Inflater, Stop, max_inflated, plausible};
use super::loose::read as read_file;
use super::pack::Pack;
use super::packs::Packs;
use super::{Error, Fault, Location, Objects};

/// Results larger than this have their delta's instructions summed up before memory is set aside.
const LARGE_DELTA_RESULT: u64 = 64 << 20;

/// Memory that a reader keeps for its next object, in bytes; more is given back.
pub(super) const RETAINED: usize = 16 << 20;

/// How many damaged copies deep a rescue may go before it gives up.
const MAX_RESCUES: u8 = 16;

/// Memory in which a loose object is tried first, in bytes.
const LOOSE_ROOM: usize = 64 << 10;

/// Bytes of a loose object that hold its header and more.
const LOOSE_PREFIX: u64 = 4096;

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
    delta: Buffer,
    out: Buffer,
    /// What `out` holds, if it may serve as a base.
    out_key: Option<(Key, Kind)>,
    file: Vec<u8>,
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

/// Where the bytes of a decoded object are.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// In `out`, from this position on.
    Out(usize),
    Cached(usize),
}

/// A base on the way back up a chain.
enum Base {
    Cached(usize),
    Owned(Kind, Buffer),
    /// From elsewhere, so not to be cached under the offset of the damaged one's pack.
    Rescued(Kind, Buffer),
}

impl<'a> Reader<'a> {
    pub(super) fn new(objects: &'a Objects) -> Reader<'a> {
        Reader {
            objects,
            packs: objects.packs(),
            last: None,
            inflater: Inflater::new(),
            cache: Cache::new(objects.options.base_cache),
            chain: Vec::new(),
            delta: Buffer::default(),
            out: Buffer::default(),
            out_key: None,
            file: Vec::new(),
            rescues: 0,
            counts: Counts::default(),
        }
    }

    /// Decodes a whole object into the reader's memory.
    pub fn read(&mut self, oid: &ObjectId) -> Result<(Kind, &[u8]), Error> {
        match self.fetch(oid) {
            Ok((kind, held)) => Ok((kind, self.held(held))),
            // The empty tree is known everywhere, stored or not.
            Err(Error::Missing(_)) if *oid == ObjectId::empty_tree(oid.kind()) => Ok((Kind::Tree, &[])),
            Err(error) => Err(error),
        }
    }

    /// Decodes an object unless it is larger than `limit` bytes and can be streamed: what is stored as
    /// a delta cannot, and Git does not make deltas of what is over `core.bigFileThreshold`.
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
                Some((kind, size)) => Ok(Err((kind, size))),
                None => reader.decode(pack, offset).map(Ok),
            },
            |reader, file| match reader.large_loose(file, limit)? {
                Some((kind, size)) => Ok(Err((kind, size))),
                None => reader.decode_loose(file).map(Ok),
            },
        )?;
        Ok(match read {
            Ok((kind, held)) => Content::Whole(kind, self.held(held)),
            Err((kind, size)) => Content::Large(kind, size),
        })
    }

    /// Type and size, without decoding more than the first bytes.
    pub fn header(&mut self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        let oid = self.objects.replaced(oid)?;
        self.each_copy(&oid, None, Reader::packed_header, |reader, file| reader.loose_header(file))
    }

    /// Hands an object's content on in pieces of at most 256 KiB, without holding it whole. What is
    /// stored as a delta is held whole all the same, and handed on in one piece.
    ///
    /// After an error, what was handed on so far must be thrown away. Calling again then tries
    /// another copy of the object, if there is one.
    pub fn stream(
        &mut self,
        oid: &ObjectId,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let oid = self.objects.replaced(oid)?;
        if let Some((pack, offset)) = self.find(&oid) {
            if let Some(streamed) = self.stream_packed(&pack, offset, sink) {
                return streamed.map_err(|stop| {
                    stopped(stop, oid, |source| {
                        pack.mark_bad(offset);
                        Error::Packed { oid, pack: pack.path().to_owned(), offset, source }
                    })
                });
            }
        } else {
            for dir in &self.objects.loose {
                if let Ok(Some(file)) = dir.open(&oid) {
                    return self.stream_loose(&file, sink).map_err(|stop| {
                        stopped(stop, oid, |source| Error::Loose { oid, path: dir.file(&oid), source })
                    });
                }
            }
        }
        let (_, held) = self.fetch_real(&oid)?;
        sink(self.held(held)).map_err(|source| Error::Sink { oid, source })
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
        self.each_copy(oid, None, Reader::decode, Reader::decode_loose)
    }

    /// Tries one copy of an object after the other until one can be read.
    fn each_copy<T>(
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
            for dir in self.objects.loose.iter().filter(|_| !second_look) {
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

    /// Decodes the entry at an offset of a pack.
    fn decode(&mut self, pack: &Arc<Pack>, offset: u64) -> Result<(Kind, Held), Fault> {
        let data = pack.data().map_err(|error| Fault::Pack(error.clone()))?;
        let (mut at, base) = self.descend(pack, data, offset);
        if self.chain.is_empty() {
            return match base? {
                Base::Cached(slot) => Ok((self.cache.get(slot).0, Held::Cached(slot))),
                Base::Owned(kind, out) | Base::Rescued(kind, out) => {
                    Ok((kind, self.keep(pack, offset, kind, out)))
                }
            };
        }
        let mut base = base;
        while let Some(link) = self.chain.pop() {
            // A base that cannot be had here may be had elsewhere.
            let whole = match base {
                Ok(whole) => Ok(whole),
                Err(fault) => self.rescue(pack, at).ok_or(fault),
            };
            base = whole.and_then(|whole| self.ascend(pack, data, at, whole, link));
            at = link.offset;
        }
        match base? {
            Base::Owned(kind, out) | Base::Rescued(kind, out) => {
                Ok((kind, self.keep(pack, offset, kind, out)))
            }
            Base::Cached(_) => unreachable!("a delta was applied, and its result is owned"),
        }
    }

    /// A buffer to decode into: `out` for the object asked for, one that suits the cache for a base.
    fn target(&mut self, size: usize) -> Buffer {
        // A large object takes the place of cached ones, not one beside them.
        if size > RETAINED {
            self.cache.make_room(size);
        }
        if !self.chain.is_empty() {
            return self.cache.buffer(size);
        }
        self.out_key = None;
        let mut out = std::mem::take(&mut self.out);
        if size <= RETAINED {
            out.shed(RETAINED);
        }
        out
    }

    /// Puts a copy of the current object into the cache, as it turned out to be a base.
    fn cache_out(&mut self, key: Key, kind: Kind) -> Result<(), Fault> {
        let mut copy = self.cache.buffer(self.out.bytes().len());
        copy.sized(self.out.bytes().len())?.copy_from_slice(self.out.bytes());
        self.cache.insert(key, kind, copy);
        self.out_key = None;
        Ok(())
    }

    /// Makes a decoded object the current one.
    fn keep(&mut self, pack: &Pack, offset: u64, kind: Kind, out: Buffer) -> Held {
        self.out = out;
        self.out_key = Some(((pack.id, offset), kind));
        Held::Out(0)
    }

    /// Fills the chain from the entry at `offset` to the nearest base that is cached or whole; returns
    /// that base and its offset.
    fn descend(&mut self, pack: &Pack, data: &[u8], offset: u64) -> (u64, Result<Base, Fault>) {
        self.chain.clear();
        let mut at = offset;
        // Brent's way of finding a loop: a mark that is moved up at each power of two.
        let (mut mark, mut next_mark) = (offset, 2);
        loop {
            let key = (pack.id, at);
            if let Some((_, kind)) = self.out_key.filter(|(out_key, _)| *out_key == key)
                && let Err(fault) = self.cache_out(key, kind)
            {
                return (at, Err(fault));
            }
            if let Some(slot) = self.cache.find(key) {
                self.counts.hits += 1;
                return (at, Ok(Base::Cached(slot)));
            }
            match self.step_down(pack, data, at) {
                Ok(Step::Base(base)) => return (at, Ok(base)),
                Ok(Step::Delta(link, base)) => {
                    self.chain.push(link);
                    at = base;
                }
                Err(fault) => return (at, Err(fault)),
            }
            if at == mark {
                return (at, Err(Fault::Loop));
            }
            if self.chain.len() == next_mark {
                mark = at;
                next_mark *= 2;
            }
        }
    }

    fn step_down(&mut self, pack: &Pack, data: &[u8], at: u64) -> Result<Step, Fault> {
        let entry = pack.entry(data, at)?;
        let payload = at as usize + entry.len;
        let base = match entry.stored {
            Stored::Whole(kind) => {
                let size = plausible(entry.size, data.len() - payload)?;
                let mut out = self.target(size);
                self.counts.inflated += 1;
                self.counts.inflated_bytes += entry.size;
                self.inflater.whole(&data[payload..], out.sized(size)?)?;
                return Ok(Step::Base(Base::Owned(kind, out)));
            }
            stored => base_of(pack, data, at, payload, stored)?,
        };
        Ok(Step::Delta(Link { offset: at, payload, size: entry.size }, base))
    }

    /// Applies one delta; its base, found at `at`, goes into the cache.
    fn ascend(&mut self, pack: &Pack, data: &[u8], at: u64, base: Base, link: Link) -> Result<Base, Fault> {
        let made = self.apply(data, &base, link);
        if let Base::Owned(kind, buffer) = base {
            self.cache.insert((pack.id, at), kind, buffer);
        }
        made
    }

    fn apply(&mut self, data: &[u8], base: &Base, link: Link) -> Result<Base, Fault> {
        let size = plausible(link.size, data.len() - link.payload)?;
        self.counts.inflated += 1;
        self.counts.inflated_bytes += link.size;
        self.counts.deltas += 1;
        if size <= RETAINED {
            self.delta.shed(RETAINED);
        }
        self.inflater.whole(&data[link.payload..], self.delta.sized(size)?)?;
        let header = pack::parse_delta_header(self.delta.bytes()).map_err(Fault::Delta)?;
        let instructions = &self.delta.bytes()[header.len..];
        if header.result_size > LARGE_DELTA_RESULT
            && pack::delta_output_size(instructions).map_err(Fault::Delta)? != header.result_size
        {
            return Err(Fault::Delta(pack::BadDelta));
        }
        let result_size =
            usize::try_from(header.result_size).map_err(|_| Fault::Memory(header.result_size))?;
        let mut out = self.target(result_size);
        let (kind, bytes) = match base {
            Base::Cached(slot) => self.cache.get(*slot),
            Base::Owned(kind, buffer) | Base::Rescued(kind, buffer) => (*kind, buffer.bytes()),
        };
        if header.base_size != bytes.len() as u64 {
            return Err(Fault::Delta(pack::BadDelta));
        }
        let instructions = &self.delta.bytes()[header.len..];
        pack::apply_delta(bytes, instructions, out.sized(result_size)?).map_err(Fault::Delta)?;
        Ok(Base::Owned(kind, out))
    }

    /// Another copy of the object at an offset that turned out to be damaged.
    #[cold]
    fn rescue(&mut self, pack: &Pack, offset: u64) -> Option<Base> {
        if self.rescues == MAX_RESCUES {
            return None;
        }
        let oid = pack.idx().ok()?.name_at(offset)?;
        pack.mark_bad(offset);
        let mut other = Reader::new(self.objects);
        other.rescues = self.rescues + 1;
        let (kind, bytes) = other.read(&oid).ok()?;
        let mut copy = Buffer::default();
        copy.sized(bytes.len()).ok()?.copy_from_slice(bytes);
        Some(Base::Rescued(kind, copy))
    }

    /// Decodes a loose object.
    fn decode_loose(&mut self, file: &File) -> Result<(Kind, Held), Fault> {
        read_file(file, None, &mut self.file).map_err(Fault::Io)?;
        self.out_key = None;
        // Its size is only known once it is inflated: most objects fit into what is at hand.
        self.out.shed(RETAINED);
        let room = self.out.capacity().max(LOOSE_ROOM);
        let inflated = self.inflater.at_most(&self.file, self.out.sized(room)?)?;
        let header = loose::parse_header(&self.out.bytes()[..inflated.len]).ok_or(Fault::LooseHeader)?;
        let size = plausible(header.size, self.file.len())?;
        let len = header.len + size;
        let consumed = match inflated.end {
            Some(consumed) if inflated.len == len => consumed,
            Some(_) => return Err(Fault::Size { expected: header.size, more: inflated.len > len }),
            None => self.inflater.whole(&self.file, self.out.sized(len)?)?,
        };
        if consumed != self.file.len() {
            return Err(Fault::Garbage);
        }
        self.out.sized(len)?;
        Ok((header.kind, Held::Out(header.len)))
    }

    fn parse_loose_header(&mut self) -> Result<loose::Header, Fault> {
        let mut start = [0; loose::MAX_HEADER_LEN];
        let prefix = self.inflater.at_most(&self.file, &mut start)?.len;
        loose::parse_header(&start[..prefix]).ok_or(Fault::LooseHeader)
    }

    fn loose_header(&mut self, file: &File) -> Result<(Kind, u64), Fault> {
        read_file(file, Some(LOOSE_PREFIX), &mut self.file).map_err(Fault::Io)?;
        let header = self.parse_loose_header()?;
        Ok((header.kind, header.size))
    }

    /// Type and size of an entry that is over the limit and can be streamed.
    fn large_packed(&self, pack: &Pack, offset: u64, limit: u64) -> Result<Option<(Kind, u64)>, Fault> {
        let data = pack.data().map_err(|error| Fault::Pack(error.clone()))?;
        let entry = pack.entry(data, offset)?;
        Ok(match entry.stored {
            Stored::Whole(kind) if entry.size > limit => Some((kind, entry.size)),
            _ => None,
        })
    }

    /// Type and size of a loose object that is over the limit. Leaves the file at its beginning.
    fn large_loose(&mut self, mut file: &File, limit: u64) -> Result<Option<(Kind, u64)>, Fault> {
        // Small files, compressed, are small objects: no need to look twice at each.
        let len = sys::stat_of(file).map_err(Fault::Io)?.size;
        if max_inflated(len) <= limit {
            return Ok(None);
        }
        let (kind, size) = self.loose_header(file)?;
        io::Seek::rewind(&mut file).map_err(Fault::Io)?;
        Ok((size > limit).then_some((kind, size)))
    }

    /// `None` if the entry is no whole object, or makes no sense.
    fn stream_packed(
        &mut self,
        pack: &Pack,
        offset: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Option<Result<(), Stop>> {
        let data = pack.data().ok()?;
        let entry = pack.entry(data, offset).ok()?;
        let Stored::Whole(_) = entry.stored else { return None };
        let input = &data[offset as usize + entry.len..];
        Some(self.inflater.stream(input, 0, entry.size, sink).map(drop))
    }

    fn stream_loose(
        &mut self,
        file: &File,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Stop> {
        let map = sys::Map::of(file).map_err(Fault::Io)?;
        let mut start = [0; loose::MAX_HEADER_LEN];
        let prefix = self.inflater.at_most(&map, &mut start)?.len;
        let header = loose::parse_header(&start[..prefix]).ok_or(Fault::LooseHeader)?;
        match self.inflater.stream(&map, header.len, header.size, sink)? {
            consumed if consumed == map.len() => Ok(()),
            _ => Err(Fault::Garbage.into()),
        }
    }

    fn packed_header(&mut self, pack: &Arc<Pack>, offset: u64) -> Result<(Kind, u64), Fault> {
        let data = pack.data().map_err(|error| Fault::Pack(error.clone()))?;
        let entry = pack.entry(data, offset)?;
        let payload = offset as usize + entry.len;
        let size = match entry.stored {
            Stored::Whole(kind) => return Ok((kind, entry.size)),
            Stored::OfsDelta(_) | Stored::RefDelta => {
                let mut start = [0; pack::MAX_DELTA_HEADER_LEN];
                let prefix = self.inflater.at_most(&data[payload..], &mut start)?.len;
                pack::parse_delta_header(&start[..prefix]).map_err(Fault::Delta)?.result_size
            }
        };
        Ok((self.kind_at(pack, data, offset)?, size))
    }

    /// The type at the end of a chain.
    fn kind_at(&mut self, pack: &Pack, data: &[u8], offset: u64) -> Result<Kind, Fault> {
        let (mut at, mut mark, mut steps, mut next_mark) = (offset, offset, 0u64, 2);
        loop {
            let entry = pack.entry(data, at)?;
            match entry.stored {
                Stored::Whole(kind) => return Ok(kind),
                stored => at = base_of(pack, data, at, at as usize + entry.len, stored)?,
            }
            if at == mark {
                return Err(Fault::Loop);
            }
            steps += 1;
            if steps == next_mark {
                (mark, next_mark) = (at, next_mark * 2);
            }
        }
    }
}

enum Step {
    Base(Base),
    /// A delta, and the offset of its base.
    Delta(Link, u64),
}

fn stopped(stop: Stop, oid: ObjectId, fault: impl FnOnce(Fault) -> Error) -> Error {
    match stop {
        Stop::Fault(source) => fault(source),
        Stop::Sink(source) => Error::Sink { oid, source },
    }
}

/// Offset of the base of a delta whose header ends at `payload`.
fn base_of(pack: &Pack, data: &[u8], at: u64, payload: usize, stored: Stored) -> Result<u64, Fault> {
    match stored {
        Stored::OfsDelta(distance) => at.checked_sub(distance).ok_or(Fault::Entry(pack::Error::BaseDistance)),
        _ => {
            let hash = pack.hash();
            let name = ObjectId::from_bytes(hash, &data[payload - hash.len()..payload])
                .expect("the entry's header ends in a name");
            let idx = pack.idx().map_err(|error| Fault::Pack(error.clone()))?;
            let n = idx.find(&name).ok_or(Fault::BaseMissing(name))?;
            Ok(idx.offset(n).unwrap_or(u64::MAX))
        }
    }
}
