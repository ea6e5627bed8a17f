//! What gix's types and errors are in ours.

use format::{HashKind, ObjectId};

/// What the system said, if that is at the bottom of an error.
pub(crate) fn io_of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e std::io::Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Repeats what the system interrupted: gix leaves that to the system, which leaves it to whoever calls.
pub(crate) fn uninterrupted<T, E>(
    mut call: impl FnMut() -> Result<T, E>,
    was_interrupted: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match call() {
            Err(error) if was_interrupted(&error) => {}
            answer => return answer,
        }
    }
}

/// Whether a signal, or a network mount that heeds them, is at the bottom of an error.
pub(crate) fn was_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    io_of(error).is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
}

/// What an error of gix's says, and what the system said, which gix leaves to its cause.
pub(crate) fn with_reason(error: &(dyn std::error::Error + 'static)) -> String {
    match io_of(error) {
        Some(io) => format!("{error}: {}", sys::reason(io)),
        None => error.to_string(),
    }
}

/// The same name in gix's type.
pub(crate) fn gix_id(id: &ObjectId) -> gix::ObjectId {
    gix::ObjectId::from_bytes_or_panic(id.as_bytes())
}

/// The same hash in gix's type.
pub(crate) fn gix_hash(kind: HashKind) -> gix::hash::Kind {
    match kind {
        HashKind::Sha1 => gix::hash::Kind::Sha1,
        HashKind::Sha256 => gix::hash::Kind::Sha256,
    }
}
