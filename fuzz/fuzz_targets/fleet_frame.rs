//! Bytes that may be a frame of a segment. The first four are the length in its table.

#![no_main]

use format::base_files::frame::{Inflater, MAX_RAW};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((expected, frame)) = data.split_first_chunk() else { return };
    let expected = u32::from_le_bytes(*expected) % (MAX_RAW + 2);
    if let Ok(raw) = Inflater::new().expect("made").inflate(frame, expected) {
        assert_eq!(raw.len(), expected as usize);
    }
});
