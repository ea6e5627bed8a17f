//! Bytes that may be an index: reading them ends in a value or an error, on one thread as on
//! several, and kept as they are stored; what was read can be written, and read again as the same.

#![no_main]

use bytes::Bytes;
use format::{
    HashKind,
    index::{
        Index, Version,
        read::{Options, decode, decode_stored},
        write::{self, Part, to_vec},
    },
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let read = |data: &[u8], threads| {
            decode(data, hash, Options::new(threads, false)).and_then(|decoded| decoded.finish())
        };
        let stored = decode_stored(Bytes::copy_from_slice(data), None, hash, Options::new(1, false))
            .and_then(|decoded| decoded.finish());
        let index = match read(data, 1) {
            Ok(index) => index,
            Err(error) => {
                assert_eq!(stored.map(|index| index.len()), Err(error));
                continue;
            }
        };
        let stored = stored.expect("it was read");
        assert_eq!(content(&index), content(&stored));
        let parallel = read(data, 4).expect("it was read by one thread");
        assert_eq!(content(&index), content(&parallel));
        let options = write::Options { version: Version::V2, end_of_entries: true, blocks: 2 };
        // Only an entry without an object is not written.
        let Ok(file) = to_vec(&index, Part::Whole, &options) else { continue };
        let again = read(&file, 1).expect("just written");
        assert_eq!(content(&index), content(&again));
    }
});

fn content(index: &Index) -> impl PartialEq + std::fmt::Debug + use<'_> {
    let entries: Vec<_> =
        index.entries().iter().map(|entry| (index.path(entry), entry.content())).collect();
    (entries, &index.cache_tree, &index.resolve_undo, &index.untracked, &index.fsmonitor, index.sparse)
}
