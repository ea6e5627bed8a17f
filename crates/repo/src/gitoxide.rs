//! Converts between types of gix and of this crate.

use format::{HashKind, ObjectId};

/// Returns true if the cause is `EINTR`, from a signal or from a network mount that a signal
/// interrupts.
pub(crate) fn was_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let system = causes.find_map(|error| error.downcast_ref::<std::io::Error>());
    system.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
}

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
