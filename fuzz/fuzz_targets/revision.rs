//! Revision expressions, in a repository that has two commits, a tag, a branch and reflogs. Each
//! names an object that exists, nothing, or is an error.

#![no_main]

use std::sync::LazyLock;

use bstr::ByteSlice as _;
use libfuzzer_sys::fuzz_target;

mod repository;

use repository::Fixture;

fuzz_target!(|data: &[u8]| {
    static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);
    let repo = FIXTURE.open();
    let spec = data.as_bstr();
    if let Ok(Some(id)) = repo.resolve(spec) {
        // An object's full name is accepted without a look at the disk.
        let is_name = spec.len() >= 40;
        assert!(is_name || repo.objects().reader().read(&id).is_ok(), "{spec} is {id}");
    }
    let _ = repo.rev_parse_or_base(spec);
    let _ = repo.ambiguous_names(spec);
});
