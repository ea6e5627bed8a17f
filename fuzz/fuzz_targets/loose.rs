//! Bytes that may be the header of a loose object: what is read is what Git would have written.

#![no_main]

use format::loose;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Some(header) = loose::parse_header(data) {
        let written = format!("{} {}\0", header.kind, header.size);
        assert_eq!(&data[..header.len], written.as_bytes());
    }
});
