//! Converts between types of gix and of this crate.

use format::{HashKind, ObjectId};

/// Converts an object name to the type of gix.
pub(crate) fn object_id(id: &ObjectId) -> gix_hash::ObjectId {
    gix_hash::ObjectId::from_bytes_or_panic(id.as_bytes())
}

/// Converts a hash to the type of gix.
pub(crate) fn hash_kind(kind: HashKind) -> gix_hash::Kind {
    match kind {
        HashKind::Sha1 => gix_hash::Kind::Sha1,
        HashKind::Sha256 => gix_hash::Kind::Sha256,
    }
}
