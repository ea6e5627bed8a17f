//! Streams objects that are too large to hold in memory.

use std::io;

use format::pack::Stored;
use format::{Kind, ObjectId, loose};
use sys::{
    File,
    profile::{self, Phase},
};

use super::{LOOSE_WHOLE, Reader};
use crate::database::inflate::Stop;
use crate::database::pack::Pack;
use crate::database::{ContentError, Error, Fault, error::maps_are_readable};

impl Reader<'_> {
    /// Passes the content of an object to a receiver in pieces of at most 256 KiB, without keeping
    /// all of it in memory. An object that is stored as a delta is decoded whole and passed on in
    /// one piece.
    ///
    /// After an error, the receiver must discard all pieces. Calling again then tries another copy
    /// of the object, if there is one.
    pub fn stream(
        &mut self,
        oid: &ObjectId,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let _phase = profile::span(Phase::Decode);
        let streamed = self.stream_copy(oid, sink);
        maps_are_readable().and(streamed)
    }

    fn stream_copy(
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
            for dir in self.objects.loose() {
                if let Ok(Some(file)) = dir.open(&oid) {
                    return self.stream_loose(&file, sink).map_err(|stop| {
                        stopped(stop, oid, |source| Error::Loose { oid, path: dir.file(&oid), source })
                    });
                }
            }
            if self.size_of_content(&oid).is_some_and(|size| size > LOOSE_WHOLE)
                && let Some(read) = self.objects.contents().and_then(|contents| contents.read(&oid, sink))
            {
                return read.map_err(|error| match error {
                    ContentError::Sink(source) => Error::Sink { oid, source },
                    ContentError::Damaged(path, source) => Error::Unreadable { oid, path, source },
                });
            }
        }
        let (_, held) = self.fetch_real(&oid)?;
        sink(self.held(held)).map_err(|source| Error::Sink { oid, source })
    }

    /// Returns type and size of an entry that is over the limit and can be streamed.
    pub(super) fn large_packed(
        &self,
        pack: &Pack,
        offset: u64,
        limit: u64,
    ) -> Result<Option<(Kind, u64)>, Fault> {
        let data = pack.data().map_err(|error| Fault::Pack(error.clone()))?;
        let entry = pack.entry(data, offset)?;
        Ok(match entry.stored {
            Stored::Whole(kind) if entry.size > limit => Some((kind, entry.size)),
            _ => None,
        })
    }

    /// Streams an entry; returns `None` if it is a delta or malformed.
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
}

fn stopped(stop: Stop, oid: ObjectId, fault: impl FnOnce(Fault) -> Error) -> Error {
    match stop {
        Stop::Fault(source) => fault(source),
        Stop::Sink(source) => Error::Sink { oid, source },
    }
}
