//! Decodes packed objects: down a chain of deltas to a base, and back up.
//!
//! The decoder goes down to the nearest base that is cached or not a delta. Then it goes back up;
//! each base enters the cache after the next object of the chain was computed from it. The chain is
//! a list, not a recursion, and takes 24 bytes a link.
//!
//! If a base is damaged, the decoder looks for it in another pack or as a loose object, as Git
//! does. The object counts as damaged only if no other copy of the base can be read.

use std::sync::Arc;

use format::pack::{self, Stored};
use format::{Kind, ObjectId};

use super::{Held, Link, Reader};
use crate::database::Fault;
use crate::database::buffer::Buffer;
use crate::database::inflate::check_size;
use crate::database::pack::Pack;

/// For results of more bytes than this, the instructions of the delta are summed up before memory
/// is allocated.
const LARGE_DELTA_RESULT: u64 = 64 << 20;

/// The limit for nested rescues of damaged bases.
const MAX_RESCUES: u8 = 16;

/// A base on the way back up a chain.
enum Base {
    Cached(usize),
    Owned(Kind, Buffer),
    /// From another copy. It must not be cached under the offset of the damaged copy.
    Rescued(Kind, Buffer),
}

enum Step {
    Base(Base),
    /// A delta, and the offset of its base.
    Delta(Link, u64),
}

impl Reader<'_> {
    /// Decodes the entry at an offset of a pack.
    pub(super) fn decode(&mut self, pack: &Arc<Pack>, offset: u64) -> Result<(Kind, Held), Fault> {
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
            // Another copy of the base may be readable.
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

    /// Returns a buffer to decode into: `out` for the requested object, and for a base one that
    /// fits the cache.
    pub(super) fn target(&mut self, size: usize) -> Buffer {
        self.take_permit(size);
        let retained = self.retained;
        // A large object replaces cached ones.
        if size > retained {
            self.cache.make_room(size);
        }
        if !self.chain.is_empty() {
            return self.cache.buffer(size);
        }
        self.out_key = None;
        let out = std::mem::take(&mut self.out);
        if out.capacity() >= size && (size > retained || out.capacity() <= retained) {
            return out;
        }
        self.cache.recycle(out);
        self.cache.buffer(size)
    }

    /// Takes the current object out of `out`, because it is a base. It keeps its buffer unless the
    /// buffer is at least twice as large as the object.
    fn take_out(&mut self) -> Result<Buffer, Fault> {
        self.out_key = None;
        let len = self.out.bytes().len();
        if self.out.capacity() / 2 <= len {
            return Ok(std::mem::take(&mut self.out));
        }
        let mut copy = self.cache.buffer(len);
        copy.resize(len, &self.objects.pool)?.copy_from_slice(self.out.bytes());
        Ok(copy)
    }

    /// Makes a decoded object the current one.
    fn keep(&mut self, pack: &Pack, offset: u64, kind: Kind, out: Buffer) -> Held {
        self.out = out;
        self.out_key = Some(((pack.id, offset), kind));
        Held::Out(0)
    }

    /// Fills the chain from the entry at `offset` to the nearest base that is cached or not a
    /// delta. Returns that base and its offset.
    fn descend(&mut self, pack: &Pack, data: &[u8], offset: u64) -> (u64, Result<Base, Fault>) {
        self.chain.clear();
        self.begin_work();
        let mut at = offset;
        // Brent's algorithm finds loops: a mark moves up at each power of two.
        let (mut mark, mut next_mark) = (offset, 2);
        loop {
            let key = (pack.id, at);
            if let Some((_, kind)) = self.out_key.filter(|(out_key, _)| *out_key == key) {
                self.counts.hits += 1;
                return (at, self.take_out().map(|out| Base::Owned(kind, out)));
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
                    if self.chain.len() > self.limits.deepest {
                        return (at, Err(Fault::TooLong));
                    }
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
                let size = check_size(entry.size, data.len() - payload)?;
                self.spend(entry.size)?;
                let mut out = self.target(size);
                self.counts.inflated += 1;
                self.counts.inflated_bytes += entry.size;
                let len = self.inflater.whole(&data[payload..], out.resize(size, &self.objects.pool)?)?;
                pack.count_read(at as usize..payload + len, &mut self.window);
                return Ok(Step::Base(Base::Owned(kind, out)));
            }
            stored => base_of(pack, data, at, payload, stored)?,
        };
        Ok(Step::Delta(Link { offset: at, payload, size: entry.size }, base))
    }

    /// Applies a delta. Its base, found at `at`, goes into the cache.
    fn ascend(&mut self, pack: &Pack, data: &[u8], at: u64, base: Base, link: Link) -> Result<Base, Fault> {
        let made = self.apply(pack, data, &base, link);
        if let Base::Owned(kind, buffer) = base {
            self.cache.insert((pack.id, at), kind, buffer);
        }
        made
    }

    fn apply(&mut self, pack: &Pack, data: &[u8], base: &Base, link: Link) -> Result<Base, Fault> {
        let size = check_size(link.size, data.len() - link.payload)?;
        self.spend(link.size)?;
        self.counts.inflated += 1;
        self.counts.inflated_bytes += link.size;
        self.counts.deltas += 1;
        self.take_permit(size);
        if size <= self.retained {
            self.delta.shrink_to(self.retained);
        }
        let len = self.inflater.whole(&data[link.payload..], self.delta.resize(size, &self.objects.pool)?)?;
        pack.count_read(link.payload..link.payload + len, &mut self.window);
        let header = pack::parse_delta_header(self.delta.bytes()).map_err(Fault::Delta)?;
        self.spend(header.result_size)?;
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
        pack::apply_delta(bytes, instructions, out.resize(result_size, &self.objects.pool)?)
            .map_err(Fault::Delta)?;
        Ok(Base::Owned(kind, out))
    }

    /// Reads another copy of the damaged object at an offset.
    #[cold]
    fn rescue(&mut self, pack: &Pack, offset: u64) -> Option<Base> {
        if self.rescues == MAX_RESCUES || self.objects.options.limits.is_some() {
            return None;
        }
        let oid = pack.idx().ok()?.name_at(offset)?;
        pack.mark_bad(offset);
        let mut other = Reader::new(self.objects, self.objects.options.base_cache);
        other.rescues = self.rescues + 1;
        let (kind, bytes) = other.read(&oid).ok()?;
        let mut copy = Buffer::default();
        copy.resize(bytes.len(), &self.objects.pool).ok()?.copy_from_slice(bytes);
        Some(Base::Rescued(kind, copy))
    }

    pub(super) fn packed_header(&mut self, pack: &Arc<Pack>, offset: u64) -> Result<(Kind, u64), Fault> {
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

    /// Returns the type at the end of a chain.
    fn kind_at(&mut self, pack: &Pack, data: &[u8], offset: u64) -> Result<Kind, Fault> {
        let (mut at, mut mark, mut steps, mut next_mark) = (offset, offset, 0, 2);
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
            if steps > self.limits.deepest {
                return Err(Fault::TooLong);
            }
            if steps == next_mark {
                (mark, next_mark) = (at, next_mark * 2);
            }
        }
    }
}

/// Returns the offset of the base of a delta whose header ends at `payload`.
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
