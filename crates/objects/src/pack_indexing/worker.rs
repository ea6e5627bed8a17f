//! One thread of the second pass.

use std::sync::Arc;

use format::{Kind, ObjectId, pack};

use super::{
    Error,
    error::Flaw,
    existing::Namer,
    resolve::{Frame, Resolver},
    table::{Form, NONE},
};
use crate::database::{buffer::Buffer, inflate::Inflater};

/// The number of names that are stored in the shared table at once.
const GROUP: usize = 256;

/// Limits for reusable buffers: their number, and the bytes of each.
const SPARE: usize = 16;
const SPARE_BYTES: usize = 1 << 20;

/// From this result size on, in bytes, a delta is checked before memory is allocated.
const CHECKED: u64 = 1 << 20;

/// Git refuses a delta with fewer bytes.
pub(super) const SHORTEST: usize = 4;

/// An error, and the offset of the entry that caused it.
type Failed = (u64, Error);

pub(super) struct Worker<'r, 'a> {
    resolver: &'r Resolver<'a>,
    namer: Namer<'a>,
    inflater: Inflater,
    /// The compressed bytes of an entry.
    compressed: Vec<u8>,
    stack: Vec<Frame>,
    /// The bytes of memory of the contents on the stack.
    held: usize,
    /// The frames below this index have no content.
    lowest: usize,
    delta: Buffer,
    result: Buffer,
    spare: Vec<Buffer>,
    found: Vec<(u32, ObjectId)>,
}

impl<'r, 'a> Worker<'r, 'a> {
    pub(super) fn new(resolver: &'r Resolver<'a>) -> Worker<'r, 'a> {
        Worker {
            resolver,
            namer: Namer::new(resolver.options),
            inflater: Inflater::new(),
            compressed: Vec::new(),
            stack: Vec::new(),
            held: 0,
            lowest: 0,
            delta: Buffer::default(),
            result: Buffer::default(),
            spare: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Pushes an object.
    pub(super) fn push(&mut self, frame: Frame) {
        self.held += frame.content.as_ref().map_or(0, |content| content.capacity());
        self.stack.push(frame);
        self.drop_contents();
    }

    /// Resolves the objects on the stack. `share` may take a part of them. If it returns false, the
    /// rest is dropped.
    pub(super) fn family(&mut self, share: &mut dyn FnMut(&mut [Frame]) -> bool) -> Result<(), Failed> {
        while let Some(top) = self.stack.last_mut() {
            let (index, kind) = (top.index, top.kind);
            let Some(child) = self.resolver.families.take(&mut top.children, index) else {
                self.pop();
                continue;
            };
            if self.is_done(child) {
                continue;
            }
            let base = self.content_of_top()?;
            if self.stack.last().is_some_and(|top| top.children.is_empty()) {
                self.pop();
            }
            self.child(child, kind, &base)?;
            self.recycle(base);
            if !share(&mut self.stack[self.lowest..]) {
                self.stack.clear();
                (self.held, self.lowest) = (0, 0);
            }
        }
        Ok(())
    }

    /// Returns true if the first pass hashed this delta and it has no children.
    fn is_done(&mut self, child: u32) -> bool {
        let Some(oid) = self.resolver.table.early(child) else { return false };
        if !self.resolver.families.children(child, || oid).is_empty() {
            return false;
        }
        self.add_found(child, oid);
        true
    }

    fn add_found(&mut self, child: u32, oid: ObjectId) {
        self.found.push((child, oid));
        if self.found.len() >= GROUP {
            self.flush();
        }
    }

    fn pop(&mut self) {
        if let Some(content) = self.stack.pop().and_then(|frame| frame.content) {
            self.held -= content.capacity();
            self.recycle(content);
        }
        self.lowest = self.lowest.min(self.stack.len());
    }

    /// Resolves one delta, and pushes the object if it has children.
    fn child(&mut self, child: u32, kind: Kind, base: &Buffer) -> Result<(), Failed> {
        let offset = self.resolver.table.entry(child).offset;
        self.apply(child, base)?;
        let oid = match self.resolver.table.early(child) {
            Some(oid) => oid,
            None => {
                let named = self.namer.accept(kind, self.result.bytes(), offset);
                named.map_err(|error| (offset, error))?
            }
        };
        self.add_found(child, oid);
        let children = self.resolver.families.children(child, || oid);
        if !children.is_empty() {
            let content = Some(self.take_result(offset)?);
            self.push(Frame { index: child, kind, content, children });
        }
        Ok(())
    }

    /// Stores the names found so far.
    pub(super) fn flush(&mut self) {
        self.resolver.store(&self.found);
        self.found.clear();
    }

    /// Applies the delta `child` to `base`. The object is then in `result`.
    fn apply(&mut self, child: u32, base: &Buffer) -> Result<(), Failed> {
        let entry = self.resolver.table.entry(child);
        let (offset, size) = (entry.offset, entry.size);
        let memory = &self.resolver.memory;
        let deflated = deflated(self.resolver, child, &mut self.compressed)?;
        // The first pass checked this size.
        let delta = reserve(&mut self.delta, size, memory, offset)?;
        self.inflater.whole(deflated, delta).map_err(|_| (offset, Error::Inconsistent))?;
        let delta = self.delta.bytes();
        let bad = |_| {
            let complaint = complaint(delta, base.bytes().len() as u64);
            (offset, Error::BadObject { offset, flaw: Flaw::Delta { complaint } })
        };
        if delta.len() < SHORTEST {
            return Err(bad(pack::BadDelta));
        }
        let header = pack::parse_delta_header(delta).map_err(bad)?;
        let instructions = &delta[header.len..];
        if header.base_size != base.bytes().len() as u64 {
            return Err(bad(pack::BadDelta));
        }
        let size = header.result_size;
        if size >= CHECKED && pack::delta_output_size(instructions).map_err(bad)? != size {
            return Err(bad(pack::BadDelta));
        }
        let out = reserve(&mut self.result, size, memory, offset)?;
        pack::apply_delta(base.bytes(), instructions, out).map_err(bad)
    }

    /// Inflates an object that is not a delta.
    fn whole(&mut self, index: u32) -> Result<Buffer, Failed> {
        let entry = self.resolver.table.entry(index);
        let mut content = self.fitting(entry.size as usize);
        let deflated = deflated(self.resolver, index, &mut self.compressed)?;
        let out = reserve(&mut content, entry.size, &self.resolver.memory, entry.offset)?;
        self.inflater.whole(deflated, out).map_err(|_| (entry.offset, Error::Inconsistent))?;
        Ok(content)
    }

    /// Returns the content of the top object. A dropped content is computed again.
    fn content_of_top(&mut self) -> Result<Arc<Buffer>, Failed> {
        let top = self.stack.last().expect("the caller has just seen it");
        if let Some(content) = &top.content {
            return Ok(Arc::clone(content));
        }
        // The chain of bases down to an object whose content is in memory, or that is not a delta.
        // The frames of its objects are on the stack in the same order; an object without
        // unresolved children has none.
        let mut chain = Vec::new();
        let (mut index, mut at) = (top.index, self.stack.len() - 1);
        let mut content = loop {
            let frame = (self.stack[at].index == index).then_some(at);
            let held = frame.and_then(|at| self.stack[at].content.as_ref());
            let outside = self.resolver.outside.as_ref().filter(|(outside, ..)| *outside == index);
            if let Some(content) = held.or(outside.map(|(_, _, content)| content)) {
                break Arc::clone(content);
            }
            if let Form::Whole(_) = self.resolver.table.entry(index).form {
                let content = Arc::new(self.whole(index)?);
                self.keep(frame, &content);
                break content;
            }
            chain.push((index, frame));
            at = if frame.is_some() { at.saturating_sub(1) } else { at };
            index = self.resolver.families.base(index);
            debug_assert_ne!(index, NONE, "the base of each object on the stack was taken");
        };
        while let Some((index, frame)) = chain.pop() {
            self.apply(index, &content)?;
            let offset = self.resolver.table.entry(index).offset;
            let made = self.take_result(offset)?;
            self.recycle(std::mem::replace(&mut content, made));
            // Contents near the top are needed next, so they are kept.
            self.keep(frame, &content);
        }
        Ok(content)
    }

    /// Keeps a content in its frame, if it has a frame.
    fn keep(&mut self, frame: Option<usize>, content: &Arc<Buffer>) {
        if let Some(at) = frame {
            self.stack[at].content = Some(Arc::clone(content));
            self.held += content.capacity();
            self.lowest = self.lowest.min(at);
            self.drop_contents();
        }
    }

    /// Drops the contents that are needed last, until the rest is within the limit.
    fn drop_contents(&mut self) {
        let last = self.stack.len().saturating_sub(1);
        while self.held > self.resolver.options.base_cache && self.lowest < last {
            if let Some(content) = self.stack[self.lowest].content.take() {
                self.held -= content.capacity();
                self.recycle(content);
            }
            self.lowest += 1;
        }
    }

    /// Returns the last result in a buffer that is not much larger.
    fn take_result(&mut self, offset: u64) -> Result<Arc<Buffer>, Failed> {
        let len = self.result.bytes().len();
        let mut other = self.fitting(len);
        if self.result.capacity() / 4 > len.max(1 << 10) {
            let copy = reserve(&mut other, len as u64, &self.resolver.memory, offset)?;
            copy.copy_from_slice(self.result.bytes());
            return Ok(Arc::new(other));
        }
        Ok(Arc::new(std::mem::replace(&mut self.result, other)))
    }

    /// Returns a buffer for about `len` bytes, which may be empty.
    fn fitting(&mut self, len: usize) -> Buffer {
        let fits = |buffer: &Buffer| (len..=len.max(1 << 10) * 4).contains(&buffer.capacity());
        let found = self.spare.iter().rposition(fits);
        found.map_or_else(Buffer::default, |at| self.spare.swap_remove(at))
    }

    /// Keeps the buffer of a content for reuse, unless another thread uses the content.
    fn recycle(&mut self, content: Arc<Buffer>) {
        if self.spare.len() < SPARE
            && let Ok(buffer) = Arc::try_unwrap(content)
            && buffer.capacity() <= SPARE_BYTES
        {
            self.spare.push(buffer);
        }
    }
}

/// Returns the compressed bytes of an entry. If they have to be read from a file, they are in
/// `room`.
fn deflated<'d>(resolver: &'d Resolver<'_>, index: u32, room: &'d mut Vec<u8>) -> Result<&'d [u8], Failed> {
    let range = resolver.table.compressed(index);
    let failed = |error| (resolver.table.entry(index).offset, error);
    let Some(file) = resolver.file else {
        return resolver.data.get(range).ok_or_else(|| failed(Error::Inconsistent));
    };
    if room.capacity() > SPARE_BYTES {
        *room = Vec::new();
    }
    room.resize(range.len(), 0);
    match file.read_exact_at(room, range.start as u64) {
        Ok(()) => Ok(room),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(failed(Error::Inconsistent)),
        Err(error) => Err(failed(Error::Read(error))),
    }
}

fn reserve<'b>(
    buffer: &'b mut Buffer,
    size: u64,
    memory: &Arc<crate::database::pool::Pool>,
    offset: u64,
) -> Result<&'b mut [u8], Failed> {
    let len = usize::try_from(size).map_err(|_| (offset, Error::Memory(size)))?;
    buffer.resize(len, memory).map_err(|_| (offset, Error::Memory(size)))
}

/// Returns Git's message about a bad delta.
#[cold]
fn complaint(delta: &[u8], base: u64) -> Option<&'static str> {
    let header = pack::parse_delta_header(delta).ok()?;
    if header.base_size != base || delta.len() < SHORTEST {
        return None;
    }
    let (mut rest, mut left) = (delta[header.len..].iter(), header.result_size);
    while let Some(&command) = rest.next() {
        let len = match command {
            0 => return Some("unexpected delta opcode 0"),
            1..0x80 => u64::from(command),
            _ => {
                let mut values = [0u64; 7];
                for (bit, value) in values.iter_mut().enumerate().filter(|(bit, _)| command & 1 << bit != 0) {
                    let Some(&byte) = rest.next() else { return Some("delta replay has gone wild") };
                    *value = u64::from(byte) << (8 * (bit % 4));
                }
                let (offset, len) = (values[..4].iter().sum::<u64>(), values[4..].iter().sum());
                let len = if len == 0 { 0x10000 } else { len };
                if offset + len > base {
                    break;
                }
                len
            }
        };
        let skipped = if command < 0x80 { usize::from(command) } else { 0 };
        if len > left || skipped > rest.len() {
            break;
        }
        left -= len;
        rest = rest.as_slice()[skipped..].iter();
    }
    Some("delta replay has gone wild")
}
