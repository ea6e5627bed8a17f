//! Bytes that may be a pack: reading ends in the objects or an error, whatever the size of the
//! cache and the number of threads. All objects are checked on the way.

#![no_main]

use std::sync::atomic::AtomicBool;

use format::HashKind;
use libfuzzer_sys::fuzz_target;
use repo::{
    fsck::{Checker, Rules},
    pack_indexing::{Meter, Options, Source, scan},
};

fuzz_target!(|data: &[u8]| {
    let (interrupt, meter) = (AtomicBool::new(false), Meter::default());
    let checker = Checker::new(Rules::strict(HashKind::Sha1), 1 << 10).collecting();
    let options = Options {
        hash: HashKind::Sha1,
        threads: 1 + data.len() % 2,
        big_file_threshold: 1 << 10,
        base_cache: data.len() % 3 * 100,
        limit: None,
        existing: None,
        interrupt: &interrupt,
        meter: &meter,
        observer: Some(&checker),
    };
    let mut copy = Vec::new();
    let source = Source { stream: &mut &*data, is_file: data.len() % 5 == 0, before: &[] };
    let scanned = scan(source, &options, &mut |bytes| {
        copy.extend_from_slice(bytes);
        Ok(())
    });
    let Ok((mut pack, end)) = scanned else { return };
    assert!(data.starts_with(&[&copy[..], &end.trailer].concat()));
    if pack.resolve(&copy, None).is_ok() {
        let _ = pack.finish().map(|objects| objects.duplicate());
        let _ = checker.verdict(&mut |_| {});
    }
});
