//! A pack to which a transaction appends objects.

use std::io::Read;

use format::{HashKind, ObjectId, hash::Hasher, pack};
use zlib_rs::DeflateFlush;

use super::{Options, StreamError, deflate::Deflater, in_pieces};
use crate::{
    Checkpoint, Components, Error, Hashing,
    pack::{Complete, Entries, Entry, FinishOptions, Staged, Target, Writing},
};

/// The source of the objects of a pack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Many objects from memory. Their number is known only at the end, so the pack is hashed then.
    Many,
    /// Streams, usually one. The pack is hashed while it is written.
    Streams,
}

/// A pack that is open for more objects.
pub(super) struct OpenPack {
    staged: Staged,
    entries: Vec<Entry>,
    content: Content,
}

impl OpenPack {
    pub(super) fn create(options: &Options<'_>, hash: HashKind, content: Content) -> Result<OpenPack, Error> {
        let target = Target { objects: options.objects, hash, shared: options.shared, fsync: options.fsync };
        let writing = if options.fsync.hardens(Components::PACK) {
            Writing::BackgroundSynced
        } else {
            Writing::Background
        };
        let hashing = match content {
            Content::Many => Hashing::Skip,
            Content::Streams => Hashing::Inline,
        };
        let mut staged = Staged::create(target, hashing, writing).map_err(|error| options.refusal(error))?;
        let header = pack::encode_header(1);
        staged.writer().write(&header).map_err(|source| staged.error("write", source))?;
        Ok(OpenPack { staged, entries: Vec::new(), content })
    }

    /// Returns true if `len` more bytes would exceed `pack.packSizeLimit`. A pack without objects
    /// is never full.
    pub(super) fn is_full(&mut self, len: u64, options: &Options<'_>) -> bool {
        let after = self.staged.writer().position().saturating_add(len);
        !self.entries.is_empty() && options.pack_size_limit.is_some_and(|limit| after > limit)
    }

    /// Appends an entry that [`super::deflate::Deflaters`] made.
    pub(super) fn append(&mut self, oid: &ObjectId, entry: &[u8], crc32: u32) -> Result<(), Error> {
        let offset = self.staged.writer().position();
        self.staged.writer().write(entry).map_err(|source| self.staged.error("write", source))?;
        self.entries.push(Entry { oid: *oid, offset, crc32 });
        Ok(())
    }

    /// Appends a blob of `size` bytes. `is_wanted` is called once its name is known. If it returns
    /// false, or if reading the content fails, the pack is left unchanged.
    pub(super) fn stream(
        &mut self,
        hash: HashKind,
        size: u64,
        content: &mut dyn Read,
        level: i32,
        is_wanted: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<ObjectId, StreamError> {
        let checkpoint = self.staged.writer().checkpoint();
        let checkpoint = checkpoint.map_err(|source| self.staged.error("write", source))?;
        let named = self.deflate(hash, size, content, level);
        let crc32 = self.staged.writer().end_crc32();
        match named {
            Ok(oid) if is_wanted(&oid) => {
                self.entries.push(Entry { oid, offset: checkpoint.position(), crc32 });
                Ok(oid)
            }
            Err(StreamError::Store(error)) => Err(error.into()),
            rejected => {
                self.rewind(&checkpoint)?;
                rejected
            }
        }
    }

    fn deflate(
        &mut self,
        hash: HashKind,
        size: u64,
        content: &mut dyn Read,
        level: i32,
    ) -> Result<ObjectId, StreamError> {
        let mut header = Vec::new();
        pack::encode_entry(format::Kind::Blob, size, &mut header);
        let staged = &mut self.staged;
        staged.writer().begin_crc32();
        staged.writer().write(&header).map_err(|source| staged.error("write", source))?;
        let mut hasher = Hasher::object(hash, "blob", size);
        let mut deflater = Deflater::new(level);
        let mut push = |piece: &[u8], flush| {
            let path = staged.path().to_owned();
            let failed = |what, source| Error::Io { what, path: path.clone(), source };
            let writer = staged.writer();
            let mut write = |made: &[u8]| writer.write(made).map_err(|source| failed("write", source));
            deflater.push(piece, flush, &mut write, |reason| {
                failed("deflate into", std::io::Error::other(reason))
            })
        };
        in_pieces(size, content, |piece| {
            hasher.update(piece);
            Ok(push(piece, DeflateFlush::NoFlush)?)
        })?;
        push(&[], DeflateFlush::Finish)?;
        hasher.finish().map_err(|_| StreamError::Collision)
    }

    fn rewind(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.staged.writer().rewind(checkpoint).map_err(|source| self.staged.error("truncate", source))
    }

    /// Writes the rest of the pack and its companion files. Returns `None` if the pack contains no
    /// object.
    pub(super) fn complete(self, options: &Options<'_>) -> Result<Option<Complete>, Error> {
        let count = u32::try_from(self.entries.len()).expect("far fewer objects fit into memory");
        let staged = match (self.content, count) {
            (_, 0) => return Ok(None),
            (Content::Streams, 1) => self.staged,
            _ => self.staged.set_count(count)?,
        };
        let beside = FinishOptions { reverse_index: options.reverse_index, ..FinishOptions::default() };
        let mut complete = staged.finish(&Entries::from(self.entries), &beside)?;
        if options.promised {
            complete.mark("promisor", Vec::new());
        }
        Ok(Some(complete))
    }
}
