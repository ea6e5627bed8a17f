//! Bytes that may be an entry of a pack or a delta: reading ends in a value or an error, and a
//! delta writes as many bytes as it declares, or fails.

#![no_main]

use format::{HashKind, pack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = pack::parse_header(data);
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        if let Ok(entry) = pack::parse_entry(data, hash) {
            assert!(entry.len <= data.len());
        }
    }
    let Ok(header) = pack::parse_delta_header(data) else { return };
    let instructions = &data[header.len..];
    let size = pack::delta_output_size(instructions);
    // The delta serves as its own base.
    let mut out = vec![0; header.result_size.min(1 << 20) as usize];
    if pack::apply_delta(data, instructions, &mut out).is_ok() {
        assert_eq!(size, Ok(out.len() as u64));
    }
});
