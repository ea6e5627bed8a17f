//! The input stream of a pack: its unread bytes, its position, and the copy of the consumed bytes.

use std::{
    io::{self, Read},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{End, Error};

/// The size of the buffer. An object whose compressed bytes are all in the buffer is inflated in
/// one call.
const ROOM: usize = 1 << 20;

/// Receives the bytes of the pack in order, without its trailer.
pub type Copy<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

/// The stream.
pub(super) struct Input<'a> {
    source: &'a mut dyn Read,
    copy: &'a mut Copy<'a>,
    interrupt: &'a AtomicBool,
    /// The number of bytes read, for progress reports.
    meter: &'a AtomicU64,
    /// The maximum length of the pack, in bytes.
    limit: Option<u64>,
    /// The source is a file: a read never waits for a writer.
    is_file: bool,
    has_ended: bool,
    room: Vec<u8>,
    /// The bytes before this position of `room` were copied.
    copied: usize,
    start: usize,
    end: usize,
    used: u64,
    crc: u32,
}

/// The source of the bytes, and the flag that interrupts reading.
pub(super) struct Origin<'a> {
    pub(super) source: &'a mut dyn Read,
    pub(super) is_file: bool,
    pub(super) limit: Option<u64>,
    pub(super) interrupt: &'a AtomicBool,
    pub(super) meter: &'a AtomicU64,
}

impl<'a> Input<'a> {
    /// Creates the input. `before` are bytes that the caller has already read from the source.
    pub(super) fn new(origin: Origin<'a>, before: &[u8], copy: &'a mut Copy<'a>) -> Input<'a> {
        let mut room = vec![0; ROOM];
        room[..before.len()].copy_from_slice(before);
        let Origin { source, is_file, limit, interrupt, meter } = origin;
        Input {
            source,
            copy,
            interrupt,
            meter,
            limit,
            is_file,
            has_ended: false,
            room,
            copied: 0,
            start: 0,
            end: before.len(),
            used: 0,
            crc: 0,
        }
    }

    /// Returns the number of bytes consumed so far.
    pub(super) fn position(&self) -> u64 {
        self.used
    }

    /// Returns the bytes that were read and not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.room[self.start..self.end]
    }

    /// Returns the unread bytes, at least `least` of them. Waits for the source if there are fewer.
    pub(super) fn fill(&mut self, least: usize) -> Result<&[u8], Error> {
        while self.end - self.start < least {
            if !self.read_more()? {
                return Err(Error::Eof);
            }
        }
        Ok(self.unread())
    }

    /// Reads more of a file if few bytes are left. A file never makes the caller wait for a writer.
    pub(super) fn read_ahead(&mut self) -> Result<(), Error> {
        const FEW: usize = 32 << 10;
        while self.is_file && !self.has_ended && self.end - self.start < FEW {
            self.read_more()?;
        }
        Ok(())
    }

    /// Reads once. Returns false at the end of the source.
    fn read_more(&mut self) -> Result<bool, Error> {
        if self.has_ended {
            return Ok(false);
        }
        self.copy_used()?;
        self.room.copy_within(self.start..self.end, 0);
        (self.end, self.start, self.copied) = (self.end - self.start, 0, 0);
        let count = loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            match self.source.read(&mut self.room[self.end..]) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Error::Eof),
                Err(error) => return Err(Error::Read(error)),
            }
        };
        self.end += count;
        self.has_ended = count == 0;
        self.meter.store(self.used + (self.end - self.start) as u64, Ordering::Relaxed);
        Ok(count > 0)
    }

    /// Passes on the bytes that were consumed since the last call.
    fn copy_used(&mut self) -> Result<(), Error> {
        (self.copy)(&self.room[self.copied..self.start]).map_err(Error::Write)?;
        self.copied = self.start;
        Ok(())
    }

    /// Consumes `count` of the unread bytes.
    pub(super) fn advance(&mut self, count: usize) -> Result<(), Error> {
        self.crc = zlib_rs::crc32::crc32(self.crc, &self.room[self.start..self.start + count]);
        self.start += count;
        self.used += count as u64;
        match self.limit {
            _ if self.used > i64::MAX as u64 => Err(Error::Offset),
            Some(limit) if self.used > limit => Err(Error::Limit(limit)),
            _ => Ok(()),
        }
    }

    /// Starts the checksum of an entry.
    pub(super) fn start_entry(&mut self) {
        self.crc = 0;
    }

    /// Returns the checksum of the bytes consumed since [`Input::start_entry`].
    pub(super) fn crc(&self) -> u32 {
        self.crc
    }

    /// Reads the trailer, the last `len` bytes, which are not copied.
    pub(super) fn finish(mut self, len: usize) -> Result<End, Error> {
        self.copy_used()?;
        let trailer = self.fill(len)?[..len].to_vec();
        self.advance(len)?;
        self.copied = self.start;
        let has_junk = self.is_file && (!self.unread().is_empty() || self.read_more()?);
        Ok(End { trailer, rest: self.unread().to_vec(), has_junk })
    }
}
