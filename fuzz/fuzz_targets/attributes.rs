//! Attribute files. Every line is either a pattern, a macro, empty, or reported as invalid.

#![no_main]

use format::pattern::Pattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for macros in [false, true] {
        let (patterns, invalid) = repo::fuzz::attributes(data, macros);
        let lines = data.split(|&byte| byte == b'\n').count();
        assert!(patterns.len() + invalid.len() <= lines);
        assert!(invalid.is_sorted() && invalid.iter().all(|line| (1..=lines).contains(line)));
        for pattern in patterns {
            let _ = Pattern::new(&pattern).matches(b"dir/file.c", b"file.c", macros);
        }
    }
});
