//! What gix's types and errors are in ours.

use format::{HashKind, ObjectId};

/// Whether a signal, or a network mount that heeds them, is at the bottom of an error.
pub(crate) fn was_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let system = causes.find_map(|error| error.downcast_ref::<std::io::Error>());
    system.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
}

/// The same name in gix's type.
pub(crate) fn object_id(id: &ObjectId) -> gix_hash::ObjectId {
    gix_hash::ObjectId::from_bytes_or_panic(id.as_bytes())
}

/// The same hash in gix's type.
pub(crate) fn hash_kind(kind: HashKind) -> gix_hash::Kind {
    match kind {
        HashKind::Sha1 => gix_hash::Kind::Sha1,
        HashKind::Sha256 => gix_hash::Kind::Sha256,
    }
}
