//! Answers of a server to a fetch: sections, acknowledgments and side bands end in a pack or an
//! error.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for is_stateless in [false, true] {
        if let Ok(pack) = wire::scripted::fetch(data, is_stateless) {
            assert!(pack.len() <= data.len());
        }
    }
});
