//! Writes objects, loose or in packs. See [`ObjectTransaction`].

use std::{
    io::{self, Read},
    path::Path,
};

use format::{HashKind, ObjectId, hash::Hasher, loose::Kind};
use sys::by_path;

use crate::{Error, Fsync, SharedRepository, aside};

mod deflate;
mod loose;
mod packing;
mod quarantine;
mod transaction;

pub use deflate::Deflaters;
pub use quarantine::Quarantine;
pub use transaction::ObjectTransaction;

/// The default of Git's `core.looseCompression`.
pub const DEFAULT_LEVEL: i32 = 1;

/// The default of Git's `pack.compression`, used only for streams.
const STREAM_LEVEL: i32 = 6;

/// Objects larger than this, in bytes, are deflated in pieces into a file of their own.
const LARGE: usize = 8 << 20;

/// Data are read and deflated in pieces of this many bytes.
const PIECE: usize = 64 << 10;

/// `sapwood.packOnAdd`: the number of new objects from which a command writes a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackOnAdd {
    /// 32 objects, or 8 with `core.fsyncMethod=batch`.
    #[default]
    Auto,
    /// Always loose objects.
    Never,
    /// This number.
    From(usize),
}

/// A command with this number of objects needs about 70 flushes for loose objects (each object, its
/// directory, the index), and 6 for a pack. With fewer objects, the saved flushes do not pay for
/// the packs, which accumulate and slow down every later lookup.
const PACK_FROM: usize = 32;

/// A user who chose `core.fsyncMethod=batch` wants few flushes for any number of objects. A batch
/// flushes once for the objects, but once for each of their directories too, of which there are
/// nearly as many as objects.
const PACK_FROM_IN_BATCH: usize = 8;

impl PackOnAdd {
    fn threshold(self, is_batch: bool) -> Option<usize> {
        match self {
            PackOnAdd::Auto if is_batch => Some(PACK_FROM_IN_BATCH),
            PackOnAdd::Auto => Some(PACK_FROM),
            PackOnAdd::Never => None,
            PackOnAdd::From(number) => Some(number),
        }
    }
}

/// The location and the options for writing objects.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The object directory of a repository.
    pub objects: &'a Path,
    /// The common Git directory as messages print it, if the object directory is its `objects`.
    pub shown_common_dir: Option<&'a Path>,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// `core.looseCompression`
    pub level: i32,
    /// `pack.compression`, `core.compression`. Without them, objects in packs are deflated like the
    /// loose ones that they replace, and streams with Git's default for packs.
    pub pack_level: Option<i32>,
    /// `sapwood.packOnAdd`
    pub pack_on_add: PackOnAdd,
    /// `pack.packSizeLimit`, in bytes.
    pub pack_size_limit: Option<u64>,
    /// `pack.writeReverseIndex`
    pub reverse_index: bool,
    /// `sapwood.foldPacks`: a transaction that published a pack folds small packs if there are more
    /// than this number ([`crate::fold`]).
    pub fold_above: Option<usize>,
    /// The objects are those of a promisor remote: packs get a file `.promisor`.
    pub promised: bool,
    /// The sync policy.
    pub fsync: &'a Fsync,
    /// Prints a warning.
    pub warn: fn(&str),
}

impl<'a> Options<'a> {
    /// Returns options with Git's defaults.
    pub fn new(objects: &'a Path, fsync: &'a Fsync) -> Options<'a> {
        Options {
            objects,
            shown_common_dir: None,
            shared: SharedRepository::Umask,
            level: DEFAULT_LEVEL,
            pack_level: None,
            pack_on_add: PackOnAdd::Auto,
            pack_size_limit: None,
            reverse_index: true,
            fold_above: None,
            promised: false,
            fsync,
            warn: |_| {},
        }
    }
}

/// The reason why the content of a file was not stored.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StreamError {
    #[error("cannot read it: {0}")]
    Read(io::Error),
    /// The content is shorter than the stated size.
    #[error("it was changed while it was read")]
    Length,
    #[error("its content is a collision of SHA-1")]
    Collision,
    #[error(transparent)]
    Store(#[from] Error),
}

/// Writes one loose object, and publishes it immediately.
pub fn write(oid: &ObjectId, kind: Kind, content: &[u8], options: &Options<'_>) -> Result<(), Error> {
    let transaction = ObjectTransaction::new(Options { pack_on_add: PackOnAdd::Never, ..*options });
    transaction.write(oid, kind, content)?;
    transaction.publish()
}

/// Computes the name of a blob of `size` bytes in pieces, and writes nothing.
pub fn hash_stream(hash: HashKind, size: u64, content: &mut dyn Read) -> Result<ObjectId, StreamError> {
    let mut hasher = Hasher::object(hash, "blob", size);
    in_pieces(size, content, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    hasher.finish().map_err(|_| StreamError::Collision)
}

/// Reads `size` bytes and passes them to `take` in pieces. Reads may be short or interrupted. A
/// signal stops it after the next piece.
fn in_pieces(
    size: u64,
    content: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut piece = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        sys::interrupt::check().map_err(StreamError::Read)?;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        match content.read(&mut piece[..most]) {
            Ok(0) => return Err(StreamError::Length),
            Ok(read) => {
                take(&piece[..read])?;
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StreamError::Read(error)),
        }
    }
    Ok(())
}

/// Creates a directory unless it exists. Returns true if it was created.
pub(crate) fn make_directory(dir: &Path, shared: SharedRepository) -> Result<bool, Error> {
    let io = |what, source| Error::Io { what, path: dir.to_owned(), source };
    match aside(|| by_path::create_dir(dir)) {
        Ok(()) => {
            let adjusted = aside(|| shared.adjust_dir(dir));
            adjusted.map_err(|source| io("fix permission bits on", source))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(io("create", source)),
    }
}

#[cfg(test)]
mod tests;
