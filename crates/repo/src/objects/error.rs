//! What can go wrong when an object is read. Each error names the object, and the file if there is one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use format::{ObjectId, idx, pack};

/// Why an object could not be read. The first line of a message is Git's wording where it has one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No copy anywhere.
    #[error("object {0} not found")]
    Missing(ObjectId),
    /// No copy here, and the remote that promised to have it did not send it.
    #[error("could not fetch {0} from promisor remote")]
    Promised(ObjectId),
    /// No copy was found, and a pack that may hold one cannot be used.
    #[error("object {oid} not found, and packfile {pack} is not usable{}", said(.source.io_error()))]
    Unusable {
        /// The object.
        oid: ObjectId,
        /// The `.pack` file.
        pack: PathBuf,
        /// What is wrong with it or its index.
        source: PackError,
    },
    /// No copy was found, and a directory of packs cannot be listed.
    #[error("object {oid} not found: unable to open object pack directory: {dir}{}", said(Some(.source)))]
    Unlisted {
        /// The object.
        oid: ObjectId,
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// No copy was found, and there may be alternates that nobody knows of.
    #[error("object {oid} not found: unable to read '{path}'{}", said(Some(.source)))]
    Alternates {
        /// The object.
        oid: ObjectId,
        /// The file that names them.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// All copies are damaged; this is the first one found, in a pack.
    #[error("packed object {oid} (stored in {pack}) is corrupt{}", said(.source.io()))]
    Packed {
        /// The object.
        oid: ObjectId,
        /// The `.pack` file.
        pack: PathBuf,
        /// Where in it the entry starts.
        offset: u64,
        /// What is wrong.
        source: Fault,
    },
    /// All copies are damaged; this is the first one found, a loose object.
    #[error("loose object {oid} (stored in {path}) is corrupt{}", said(.source.io()))]
    Loose {
        /// The object.
        oid: ObjectId,
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        source: Fault,
    },
    /// A loose object's file is there but cannot be read.
    #[error("unable to open loose object {oid} ({path}){}", said(Some(.source)))]
    Unreadable {
        /// The object.
        oid: ObjectId,
        /// Its file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A mapped file could not be read, whichever object was looked for: what was read since may be anything.
    #[error("unable to read '{path}'{}", said(Some(.source)))]
    Map {
        /// The file: a pack, an index of one, or something else that is mapped.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What stands for other objects cannot be told.
    #[error(transparent)]
    Replacements(crate::Error),
    /// A replacement names an object that is replaced, and so on.
    #[error("replace depth too high for object {0}")]
    ReplaceDepth(ObjectId),
    /// The receiver of a stream failed.
    #[error("unable to write the content of object {oid}")]
    Sink {
        /// The object.
        oid: ObjectId,
        /// What the receiver said.
        source: io::Error,
    },
}

impl Error {
    /// What the system said, if it was the disk that failed.
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Error::Unusable { source, .. } => source.io_error(),
            Error::Packed { source, .. } | Error::Loose { source, .. } => source.io(),
            Error::Unreadable { source, .. } | Error::Map { source, .. } => Some(source),
            Error::Unlisted { source, .. } | Error::Alternates { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether the object may be there: the disk, or what is on it, keeps it from being found.
    pub fn is_unreadable(&self) -> bool {
        self.io().is_some() || matches!(self, Error::Replacements(_))
    }
}

/// An error if some mapped file could not be read. To be asked after reading, before anybody is told what was read.
pub(super) fn maps_are_readable() -> Result<(), Error> {
    match sys::unreadable_map() {
        None => Ok(()),
        Some((path, source)) => Err(Error::Map { path, source }),
    }
}

/// What the system said, as the end of a sentence.
fn said(error: Option<&io::Error>) -> String {
    error.map(|error| format!(": {}", sys::reason(error))).unwrap_or_default()
}

/// What is wrong with one copy of an object.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Bad compressed data or checksum.
    #[error("{0}")]
    Inflate(sirocco::inflate::Error),
    /// More or less data than promised.
    #[error("{expected} bytes were promised, but there are {}", if *.more { "more" } else { "fewer" })]
    Size {
        /// Bytes promised.
        expected: u64,
        /// Whether there are more than that.
        more: bool,
    },
    /// The header of the entry in the pack.
    #[error("{0}")]
    Entry(pack::Error),
    /// The delta does not fit its base.
    #[error("{0}")]
    Delta(pack::BadDelta),
    /// The base named is not in the pack.
    #[error("delta base object {0} is not in the pack")]
    BaseMissing(ObjectId),
    /// A chain of deltas comes back to itself.
    #[error("delta chain loops")]
    Loop,
    /// The entry would start outside of the pack.
    #[error("offset {0} is outside of the pack (truncated pack?)")]
    Outside(u64),
    /// The pack or its index cannot be used.
    #[error("{0}")]
    Pack(PackError),
    /// A loose object's file cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// The header of a loose object.
    #[error("unable to parse object header")]
    LooseHeader,
    /// Data after the end of a loose object.
    #[error("garbage at end of loose object")]
    Garbage,
    /// There is not that much memory.
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

/// Why a pack or its index cannot be used.
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
    /// Too short to hold header and trailer.
    #[error("file is far too short to be a packfile")]
    TooShort,
    /// The numbers of objects differ.
    #[error("packfile claims to have {pack} objects while index indicates {index} objects")]
    Count {
        /// As the pack says.
        pack: u32,
        /// As the index says.
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

    /// What is wrong, in the system's words if they are its.
    pub fn reason(&self) -> String {
        self.io_error().map_or_else(|| self.to_string(), sys::reason)
    }

    fn io_error(&self) -> Option<&io::Error> {
        match self {
            PackError::Io(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the files are simply gone, which happens whenever somebody repacks.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, PackError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}
