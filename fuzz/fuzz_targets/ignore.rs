//! A path and an ignore file, separated by the first NUL. A rule that decides about the path
//! decides the same way when it is the only rule of its file.

#![no_main]

use bstr::ByteSlice as _;
use engine::ignore::Rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (path, file) = data.split_once_str("\0").unwrap_or((b"dir/file.c", data));
    for (icase, is_dir) in [(false, false), (false, true), (true, false), (true, true)] {
        let decide = |file: &[u8]| Rules::parse(file, icase).decide(path.as_bstr(), is_dir);
        let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
        // A byte order mark is skipped at the start of a file only.
        if file.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"\xef\xbb\xbf")) {
            decide(file);
            continue;
        }
        // The last rule that matches decides.
        let last = file.split(|&byte| byte == b'\n').rev().find_map(decide);
        assert_eq!(decide(file), last);
    }
});
