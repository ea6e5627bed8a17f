//! Errors of reading objects. Each holds the object, and the file if there is one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use format::{ObjectId, idx, pack};

/// An object could not be read. The first line of the message is Git's wording where Git has one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No copy of the object exists.
    #[error("object {0} not found")]
    Missing(ObjectId),
    /// There is no local copy, and the promisor remote did not send it.
    #[error("could not fetch {0} from promisor remote")]
    Promised(ObjectId),
    /// No copy was found, and a pack that may hold one cannot be used.
    #[error("object {oid} not found, and packfile {pack} is not usable{}", reason_suffix(.source.io_error()))]
    Unusable {
        /// The object.
        oid: ObjectId,
        /// The `.pack` file.
        pack: PathBuf,
        /// The problem of the pack or its index.
        source: PackError,
    },
    /// No copy was found, and a directory of packs cannot be listed.
    #[error("object {oid} not found: unable to open object pack directory: {dir}{}", reason_suffix(Some(.source)))]
    Unlisted {
        /// The object.
        oid: ObjectId,
        /// The directory.
        dir: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// No copy was found, and a list of alternates cannot be read, so a copy may be in one of them.
    #[error("object {oid} not found: unable to read '{path}'{}", reason_suffix(Some(.source)))]
    Alternates {
        /// The object.
        oid: ObjectId,
        /// The file that lists the alternates.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// All copies are damaged. This is the first one found, in a pack.
    #[error("packed object {oid} (stored in {pack}) is corrupt{}", reason_suffix(.source.io()))]
    Packed {
        /// The object.
        oid: ObjectId,
        /// The `.pack` file.
        pack: PathBuf,
        /// The offset of the entry in the pack.
        offset: u64,
        /// The damage.
        source: Fault,
    },
    /// All copies are damaged. This is the first one found, a loose object.
    #[error("loose object {oid} (stored in {path}) is corrupt{}", reason_suffix(.source.io()))]
    Loose {
        /// The object.
        oid: ObjectId,
        /// Its file.
        path: PathBuf,
        /// The damage.
        source: Fault,
    },
    /// The file of a loose object exists but cannot be read.
    #[error("unable to open loose object {oid} ({path}){}", reason_suffix(Some(.source)))]
    Unreadable {
        /// The object.
        oid: ObjectId,
        /// Its file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A mapped file could not be read. All data that was read since then may be wrong, whatever
    /// object it belongs to.
    #[error("unable to read '{path}'{}", reason_suffix(Some(.source)))]
    Map {
        /// The file: a pack, its index, or another mapped file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The replacements of objects (`refs/replace/`) cannot be read.
    #[error(transparent)]
    Replacements(Box<dyn std::error::Error + Send + Sync>),
    /// A chain of replacements is too long.
    #[error("replace depth too high for object {0}")]
    ReplaceDepth(ObjectId),
    /// The receiver of a stream failed.
    #[error("unable to write the content of object {oid}")]
    Sink {
        /// The object.
        oid: ObjectId,
        /// The receiver's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns the system error, if reading failed.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Unusable { source, .. } => source.io_error(),
            Error::Packed { source, .. } | Error::Loose { source, .. } => source.io(),
            Error::Unreadable { source, .. } | Error::Map { source, .. } => Some(source),
            Error::Unlisted { source, .. } | Error::Alternates { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns true if the object may exist, but an I/O error or damaged data prevents finding it.
    pub fn is_unreadable(&self) -> bool {
        self.io().is_some() || matches!(self, Error::Replacements(_))
    }
}

/// Returns an error if a mapped file could not be read. The caller must call this after reading and
/// before it uses the data.
pub(super) fn maps_are_readable() -> Result<(), Error> {
    match sys::unreadable_map() {
        None => Ok(()),
        Some((path, source)) => Err(Error::Map { path, source }),
    }
}

/// Formats a system error as the end of a sentence.
fn reason_suffix(error: Option<&io::Error>) -> String {
    error.map(|error| format!(": {}", sys::reason(error))).unwrap_or_default()
}

/// The damage of one copy of an object.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Bad compressed data or checksum.
    #[error("{0}")]
    Inflate(sirocco::inflate::Error),
    /// The content is longer or shorter than its header says.
    #[error("{expected} bytes were promised, but there are {}", if *.more { "more" } else { "fewer" })]
    Size {
        /// The size in the header.
        expected: u64,
        /// True if the content is longer.
        more: bool,
    },
    /// The header of the entry in the pack is malformed.
    #[error("{0}")]
    Entry(pack::Error),
    /// The delta does not fit its base.
    #[error("{0}")]
    Delta(pack::BadDelta),
    /// The named base is not in the pack.
    #[error("delta base object {0} is not in the pack")]
    BaseMissing(ObjectId),
    /// A chain of deltas contains a loop.
    #[error("delta chain loops")]
    Loop,
    /// The offset of the entry is outside of the pack.
    #[error("offset {0} is outside of the pack (truncated pack?)")]
    Outside(u64),
    /// The pack or its index cannot be used.
    #[error("{0}")]
    Pack(PackError),
    /// The file of a loose object cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// The header of a loose object is malformed.
    #[error("unable to parse object header")]
    LooseHeader,
    /// Data follows the end of a loose object.
    #[error("garbage at end of loose object")]
    Garbage,
    /// An object, or a delta on the way to it, has more bytes than the reader may decode.
    #[error("{0} bytes are too many to be decoded")]
    TooLarge(u64),
    /// The chain of deltas is longer, or takes more work, than the reader may spend on it.
    #[error("delta chain is too long")]
    TooLong,
    /// There is not enough memory.
    #[error("out of memory, {0} bytes wanted")]
    Memory(u64),
}

impl Fault {
    fn io(&self) -> Option<&io::Error> {
        match self {
            Fault::Io(error) => Some(error),
            Fault::Pack(error) => error.io_error(),
            _ => None,
        }
    }
}

/// The reason why a pack or its index cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PackError {
    /// Reading failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The index is damaged.
    #[error("{0}")]
    Index(idx::Error),
    /// The pack's header is damaged.
    #[error("{0}")]
    Header(pack::Error),
    /// The file is too short for header and trailer.
    #[error("file is far too short to be a packfile")]
    TooShort,
    /// The numbers of objects in pack and index differ.
    #[error("packfile claims to have {pack} objects while index indicates {index} objects")]
    Count {
        /// The number in the pack.
        pack: u32,
        /// The number in the index.
        index: u32,
    },
    /// The index belongs to another pack.
    #[error("packfile does not match index")]
    Mismatch,
}

impl PackError {
    pub(super) fn io(error: io::Error) -> PackError {
        PackError::Io(Arc::new(error))
    }

    /// Returns the reason; for an error of the system, its text.
    pub fn reason(&self) -> String {
        self.io_error().map_or_else(|| self.to_string(), sys::reason)
    }

    fn io_error(&self) -> Option<&io::Error> {
        match self {
            PackError::Io(error) => Some(error),
            _ => None,
        }
    }

    /// Returns true if the files no longer exist, as after a repack.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, PackError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}
