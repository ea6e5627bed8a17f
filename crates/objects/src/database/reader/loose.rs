//! Reads loose objects, or their headers.

use std::io;

use format::{Kind, loose};
use sys::File;

use super::{Decoded, Held, Reader};
use crate::database::Fault;
use crate::database::inflate::check_size;
use crate::database::loose::{read_prefix, read_whole};

/// The largest room for a loose object before its size is known, in bytes.
const LOOSE_ROOM: usize = 64 << 10;
/// The least room. Room is cleared, and each page of it costs a fault.
const LEAST_ROOM: usize = 1 << 10;
/// Few objects are larger than this multiple of their files. Those are inflated twice.
const USUAL_RATIO: usize = 8;

/// A number of bytes that always includes the header of a loose object.
const LOOSE_PREFIX: u64 = 4096;

impl Reader<'_> {
    /// Decodes a loose object. If it is larger than `limit` bytes, returns its type and size only.
    pub(super) fn decode_loose(&mut self, file: &File, limit: u64) -> Result<Decoded, Fault> {
        // If the content is stored without compression, it is no larger than the file.
        let stored = sys::stat_of(file).map_err(Fault::Io)?.size;
        if stored > limit {
            let (kind, size) = self.loose_header(file)?;
            if size > limit {
                return Ok(Decoded::Large(kind, size));
            }
            io::Seek::rewind(&mut &*file).map_err(Fault::Io)?;
        }
        self.begin_work();
        self.spend(stored)?;
        self.take_permit(usize::try_from(stored).unwrap_or(usize::MAX));
        read_whole(file, stored, self.limits.largest, &mut self.file).map_err(Fault::Io)?;
        self.out_key = None;
        let pool = &self.objects.pool;
        // The size is known only after inflating. Most objects fit into the buffer.
        self.out.shrink_to(self.retained);
        let likely = self.file.len().saturating_mul(USUAL_RATIO).clamp(LEAST_ROOM, LOOSE_ROOM);
        let room = self.out.capacity().max(likely);
        let inflated = self.inflater.at_most(&self.file, self.out.resize(room, pool)?)?;
        let header = loose::parse_header(&self.out.bytes()[..inflated.len]).ok_or(Fault::LooseHeader)?;
        let size = check_size(header.size, self.file.len())?;
        if header.size > limit {
            return Ok(Decoded::Large(header.kind, header.size));
        }
        self.spend(header.size)?;
        let len = header.len + size;
        self.take_permit(len);
        let consumed = match inflated.end {
            Some(consumed) if inflated.len == len => consumed,
            Some(_) => return Err(Fault::Size { expected: header.size, more: inflated.len > len }),
            None => self.inflater.whole(&self.file, self.out.resize(len, pool)?)?,
        };
        if consumed != self.file.len() {
            return Err(Fault::Garbage);
        }
        self.out.resize(len, pool)?;
        Ok(Decoded::Whole(header.kind, Held::Out(header.len)))
    }

    pub(super) fn parse_loose_header(&mut self) -> Result<loose::Header, Fault> {
        let mut start = [0; loose::MAX_HEADER_LEN];
        let prefix = self.inflater.at_most(&self.file, &mut start)?.len;
        loose::parse_header(&start[..prefix]).ok_or(Fault::LooseHeader)
    }

    pub(super) fn loose_header(&mut self, file: &File) -> Result<(Kind, u64), Fault> {
        read_prefix(file, LOOSE_PREFIX, &mut self.file).map_err(Fault::Io)?;
        let header = self.parse_loose_header()?;
        Ok((header.kind, header.size))
    }
}
