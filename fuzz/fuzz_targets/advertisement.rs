//! Refs that a server lists, in every version of the protocol: reading ends in refs whose names and
//! objects stand in the bytes, or in an error.

#![no_main]

use bstr::ByteSlice as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for is_stateless in [false, true] {
        let Ok(found) = wire::scripted::list(data, is_stateless) else { continue };
        for found in found.refs {
            assert!(data.contains_str(&found.name));
            assert!(data.to_ascii_lowercase().contains_str(found.oid.to_string()) || found.oid.is_null());
        }
    }
});
