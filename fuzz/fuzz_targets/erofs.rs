//! Bytes that may be an image, with a checksum that matches.

#![no_main]

use format::erofs::{
    crc32c,
    read::{Error, Image},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = check(data);
    let mut sealed = data.to_vec();
    if sealed.len() >= 1536 {
        sealed[1028..1032].fill(0);
        let checksum = crc32c(!0, &sealed[1024..1536]);
        sealed[1028..1032].copy_from_slice(&checksum.to_le_bytes());
        let _ = check(&sealed);
    }
});

fn check(data: &[u8]) -> Result<(), Error> {
    let image = Image::open(data)?;
    let mut found = 0;
    image.walk::<Error>(&mut |path, inode| {
        found += 1;
        assert!(inode.nid as usize * 32 < data.len());
        assert!(!path.starts_with(b"/") && !path.contains(&0));
        Ok(())
    })?;
    assert_eq!(found, image.inodes);
    Ok(())
}
