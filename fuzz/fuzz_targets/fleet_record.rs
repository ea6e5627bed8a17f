//! Bytes that may be a manifest, or the record of a branch or of a lease.

#![no_main]

use format::base_files::{Branch, Lease, Manifest, manifest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (signed, signature) = manifest::split_signature(data);
    assert_eq!(signed.len() + signature.map_or(0, <[u8]>::len), data.len());
    if let Ok(manifest) = Manifest::parse(signed) {
        assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest));
    }
    if let Ok(branch) = Branch::parse(data) {
        assert!(branch.commits.len() <= format::base_files::branch::MAX);
        assert_eq!(Branch::parse(&branch.to_bytes()), Ok(branch));
    }
    if let Ok(lease) = Lease::parse(data) {
        assert_eq!(Lease::parse(&lease.to_bytes()), Ok(lease));
    }
});
