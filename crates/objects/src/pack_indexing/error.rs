//! The reasons for refusing a pack, in Git's wording.

use std::io;

use format::ObjectId;

/// The reason for refusing a pack.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    #[error("early EOF")]
    Eof,
    #[error("read error on input: {}", sys::reason(.0))]
    Read(io::Error),
    #[error("pack signature mismatch")]
    Signature,
    #[error("pack version {0} unsupported")]
    Version(u32),
    #[error("object size too large for this platform")]
    TooLarge,
    #[error("pack too large for current definition of off_t")]
    Offset,
    /// The input is longer than the caller allows.
    #[error("pack exceeds maximum allowed size ({0} bytes)")]
    Limit(u64),
    #[error("pack has bad object at offset {offset}: {flaw}")]
    BadObject { offset: u64, flaw: Flaw },
    #[error("pack is corrupted (SHA1 mismatch)")]
    Checksum,
    #[error("pack has junk at the end")]
    Junk,
    /// Data that was valid when it was received is no longer valid.
    #[error("serious inflate inconsistency")]
    Inconsistent,
    #[error("pack has {} unresolved delta{}", .0, if *.0 == 1 { "" } else { "s" })]
    Unresolved(usize),
    /// An object with this name exists and has different content.
    #[error("SHA1 COLLISION FOUND WITH {0} !")]
    Collision(ObjectId),
    #[error("cannot read existing object info {0}")]
    ExistingInfo(ObjectId),
    #[error("cannot read existing object {0}")]
    Existing(ObjectId),
    #[error("local object {0} is corrupt")]
    LocalCorrupt(ObjectId),
    /// The object at this offset is part of a collision attack on SHA-1.
    #[error("SHA-1 appears to be part of a collision attack: object at offset {0}")]
    Attack(u64),
    #[error("Out of memory, malloc failed (tried to allocate {0} bytes)")]
    Memory(u64),
    /// The copy of the pack could not be written.
    #[error("write error: {}", sys::reason(.0))]
    Write(io::Error),
    /// A mapped file, most likely the pack, could not be read.
    #[error("unable to read '{}': {}", .path.display(), sys::reason(.source))]
    Map { path: std::path::PathBuf, source: io::Error },
}

/// The flaw of one object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Flaw {
    /// The status of zlib, and its message.
    #[error("inflate returned {status}")]
    Inflate { status: i32, complaint: Option<&'static str> },
    #[error("unknown object type {0}")]
    Type(u8),
    #[error("offset value overflow for delta base object")]
    BaseOverflow,
    #[error("delta base offset is out of bound")]
    BaseOutside,
    /// The delta does not fit its base. Holds Git's message.
    #[error("failed to apply delta")]
    Delta { complaint: Option<&'static str> },
}

impl Error {
    /// Returns the line that Git prints before the error, if it prints one.
    pub fn complaint(&self) -> Option<String> {
        let Error::BadObject { flaw, .. } = self else { return None };
        let (status, complaint) = match flaw {
            Flaw::Inflate { status, complaint } => (status, complaint),
            Flaw::Delta { complaint } => return complaint.map(str::to_owned),
            _ => return None,
        };
        let kind = match status {
            2 => "needs dictionary",
            -3 => "data stream error",
            _ => return None,
        };
        Some(format!("inflate: {kind} ({})", complaint.unwrap_or("no message")))
    }
}
