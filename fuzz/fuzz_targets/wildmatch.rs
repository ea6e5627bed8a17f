//! A pattern and a text, apart at the first NUL. The matcher agrees with its definition.

#![no_main]

use format::{
    pattern::Pattern,
    wildmatch::{Mode, wildmatch},
};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/format/tests/it/reference.rs"]
mod reference;

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|&byte| byte == 0) else { return };
    let (pattern, text) = (&data[..end], &data[end + 1..]);
    for mode in [(false, false), (false, true), (true, false), (true, true)] {
        let (pathname, icase) = mode;
        let ours = wildmatch(pattern, text, Mode { pathname, icase });
        // The reference is slow.
        if data.len() < 200 {
            assert_eq!(ours, reference::matches(pattern, text, pathname, icase));
        }
    }
    let name = text.rsplit(|&byte| byte == b'/').next().unwrap_or(text);
    let _ = Pattern::new(pattern).matches(text, name, data.len() % 2 == 0);
});
