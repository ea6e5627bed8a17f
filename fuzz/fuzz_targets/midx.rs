//! Bytes that may be a multi-pack-index, or the list that chains several.

#![no_main]

use format::{
    HashKind,
    midx::{self, Midx},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let _ = midx::parse_chain(data, hash).count();
        let Ok(midx) = Midx::parse(data, hash) else { continue };
        let packs = midx.pack_names().inspect(|name| assert!(!name.contains(&0))).count();
        for n in 0..midx.count() {
            let name = midx.name(n);
            if let Some(found) = midx.find(&name) {
                assert_eq!(midx.name(found), name);
            }
            if let Some((pack, _)) = midx.locate(n) {
                assert!((pack as usize) < packs);
            }
        }
    }
});
