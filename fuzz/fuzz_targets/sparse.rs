//! Sparse-checkout files, in cone mode and without. A file that was written is read back as the
//! same patterns.

#![no_main]

use engine::sparse::Patterns;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for (cone, icase) in [(false, false), (true, false), (true, true)] {
        let patterns = Patterns::parse(data, cone, icase).patterns;
        let path = "dir/sub/file".into();
        let _ = (patterns.includes(path), patterns.keeps(path));
        if patterns.cone().is_some() {
            let again = Patterns::parse(&patterns.to_file(), cone, icase).patterns;
            assert_eq!(again.to_file(), patterns.to_file());
            assert_eq!(again.includes(path), patterns.includes(path));
        }
    }
});
