//! A path and pathspecs, separated by NULs. Parsing returns pathspecs or an error, and matching
//! agrees with the shortcuts that skip directories.

#![no_main]

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Defaults, Pathspecs, Seen};
use format::{
    Mode,
    path::{Protect, verify},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.split(|&byte| byte == 0);
    let path = parts.next().unwrap_or_default().as_bstr();
    let specs: Vec<BString> = parts.map(BString::from).collect();
    let is_path = verify(path, Mode::FILE, Protect { hfs: false, ntfs: false }).is_ok();
    for bits in 0..8 {
        let defaults =
            Defaults { literal: bits & 1 > 0, glob: bits & 2 > 0, icase: bits & 4 > 0, attributes: None };
        for prefix in ["", "dir/"] {
            let (prefix, root) = (BStr::new(prefix), BStr::new("/root"));
            let Ok(pathspecs) = Pathspecs::parse(&specs, prefix, root, defaults.clone()) else { continue };
            if is_path && pathspecs.matches(path, &mut Seen::default()) {
                for slash in path.find_iter("/") {
                    assert!(pathspecs.may_match_below(path[..slash].as_bstr()));
                }
                assert!(!pathspecs.rules_out(path));
            }
        }
    }
});
