//! Compares new objects with existing objects of the same names.

use std::io::{self, Read as _};

use format::{HashKind, Kind, ObjectId, hash::Hasher};

use super::{Error, Observer, Options};
use crate::database::{Objects, Reader};

/// Returns the name of an object, whose entry is at `offset` in the pack.
pub(super) fn name(hash: HashKind, kind: Kind, content: &[u8], offset: u64) -> Result<ObjectId, Error> {
    let mut hasher = Hasher::object(hash, kind.name(), content.len() as u64);
    hasher.update(content);
    hasher.finish().map_err(|_| Error::Attack(offset))
}

/// Hashes and compares objects, for one thread.
pub(super) struct Namer<'a> {
    hash: HashKind,
    existing: Option<&'a Objects>,
    observer: Option<&'a dyn Observer>,
    /// Created when the first existing object is read.
    reader: Option<Reader<'a>>,
}

impl<'a> Namer<'a> {
    pub(super) fn new(options: &Options<'a>) -> Namer<'a> {
        Namer { hash: options.hash, existing: options.existing, observer: options.observer, reader: None }
    }

    /// Hashes an object, whose entry is at `offset` in the pack, compares it with an existing one,
    /// and passes it to the observer.
    pub(super) fn accept(&mut self, kind: Kind, content: &[u8], offset: u64) -> Result<ObjectId, Error> {
        let oid = name(self.hash, kind, content, offset)?;
        self.compare(&oid, kind, content)?;
        if let Some(observer) = self.observer {
            observer.object(&oid, kind, content, offset);
        }
        Ok(oid)
    }

    /// Returns an error if an object of the same name exists and differs.
    fn compare(&mut self, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
        let Some(reader) = self.reader_of(oid) else { return Ok(()) };
        let (there, size) = reader.header(oid).map_err(|_| Error::ExistingInfo(*oid))?;
        if there != kind || size != content.len() as u64 {
            return Err(Error::Collision(*oid));
        }
        let (_, other) = reader.read(oid).map_err(|_| Error::Existing(*oid))?;
        if other == content { Ok(()) } else { Err(Error::Collision(*oid)) }
    }

    /// Like [`Namer::compare`], for a blob that is too large to keep in memory; `deflated` is its
    /// compressed content.
    pub(super) fn compare_stream(
        &mut self,
        oid: &ObjectId,
        kind: Kind,
        size: u64,
        deflated: &[u8],
    ) -> Result<(), Error> {
        let Some(reader) = self.reader_of(oid) else { return Ok(()) };
        let header = reader.header(oid).map_err(|_| Error::ExistingInfo(*oid))?;
        if header != (kind, size) {
            return Err(Error::Collision(*oid));
        }
        let mut ours = sirocco::inflate::Reader::new(sirocco::Format::Zlib, deflated);
        let (mut room, mut differs) = (vec![0; 64 << 10], false);
        let mut compare = |theirs: &[u8]| -> io::Result<()> {
            for piece in theirs.chunks(room.len()) {
                let part = &mut room[..piece.len()];
                differs |= ours.read_exact(part).is_err() || part != piece;
            }
            Ok(())
        };
        reader.stream(oid, &mut compare).map_err(|_| Error::Existing(*oid))?;
        if differs { Err(Error::Collision(*oid)) } else { Ok(()) }
    }

    /// Returns the reader if the object exists.
    fn reader_of(&mut self, oid: &ObjectId) -> Option<&mut Reader<'a>> {
        let objects = self.existing.filter(|objects| objects.contains_listed(oid))?;
        Some(self.reader.get_or_insert_with(|| objects.reader()))
    }
}
