//! Bytes that may be the index of a pack: every object it claims can be asked for.

#![no_main]

use format::{HashKind, idx::Idx};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let Ok(idx) = Idx::parse(data, hash) else { continue };
        assert_eq!(idx.pack_checksum().len(), hash.len());
        for n in 0..idx.count() {
            let name = idx.name(n);
            // Names out of order may not be found, but what is found has the name.
            if let Some(found) = idx.find(&name) {
                assert_eq!(idx.name(found), name);
            }
            let _ = idx.offset(n);
        }
    }
});
