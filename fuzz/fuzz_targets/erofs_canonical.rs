//! Bytes that may be an image. The writer makes the same bytes of an image that passes the check of
//! the mount service.

#![no_main]

use format::erofs::{canonical, crc32c};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    check(data);
    let mut sealed = data.to_vec();
    if sealed.len() >= 1536 {
        sealed[1028..1032].fill(0);
        let checksum = crc32c(!0, &sealed[1024..1536]);
        sealed[1028..1032].copy_from_slice(&checksum.to_le_bytes());
        check(&sealed);
    }
});

fn check(data: &[u8]) {
    let Ok(checked) = canonical::check(data) else { return };
    let mut made = Vec::new();
    let emitted: Result<(), std::convert::Infallible> = checked.emit(&mut |piece| {
        made.extend_from_slice(piece);
        Ok(())
    });
    emitted.expect("a vector takes everything");
    assert!(made == data, "the kernel would read other bytes than were checked");
    assert_eq!(checked.len(), data.len() as u64);
}
