//! Bytes that may be packed refs, or a loose one.

#![no_main]

use format::{HashKind, packed_refs::PackedRefs, ref_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let _ = ref_file::parse(hash, data);
        let Ok(packed) = PackedRefs::parse(data, hash) else { continue };
        let _ = packed.find("refs/heads/main".into());
        for record in packed.below("".into()).flatten() {
            // In an unsorted file the name may not be found; the search ends all the same.
            let _ = packed.find(record.name);
            let _ = packed.below(record.name).count();
        }
    }
});
