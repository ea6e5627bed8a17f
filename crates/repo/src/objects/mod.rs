//! Reading objects: loose, packed, multi-pack-index, alternates; our own hot path.

use format::{HashKind, ObjectId};
use std::path::Path;

/// Object types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// Errors name the object (and the pack, where there is one).
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("object {0} not found")]
    Missing(ObjectId),
    #[error("object {oid} is corrupt: {reason}")]
    Corrupt { oid: ObjectId, reason: String },
}

/// An object directory and its alternates, opened once, shared by all threads.
pub struct Objects {}

#[allow(unused_variables, missing_docs)]
impl Objects {
    pub fn open(objects_dir: &Path, hash: HashKind) -> std::io::Result<Objects> {
        todo!()
    }
    /// Is it there (any type)?
    pub fn contains(&self, oid: &ObjectId) -> bool {
        todo!()
    }
    /// Type and size without decoding the whole.
    pub fn header(&self, oid: &ObjectId) -> Result<(Kind, u64), Error> {
        todo!()
    }
    /// A reader of one thread, with its own inflater, buffers and bounded delta-base cache.
    pub fn reader(&self) -> Reader<'_> {
        todo!()
    }
}

/// One thread's reader.
pub struct Reader<'a> {
    _objects: &'a Objects,
}

#[allow(unused_variables, missing_docs)]
impl Reader<'_> {
    /// Decodes a whole object into the reader's buffer.
    pub fn read(&mut self, oid: &ObjectId) -> Result<(Kind, &[u8]), Error> {
        todo!()
    }
    /// Streams a (large) blob in chunks without holding it whole; deltas are resolved as Git does.
    pub fn stream(
        &mut self,
        oid: &ObjectId,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        todo!()
    }
}
