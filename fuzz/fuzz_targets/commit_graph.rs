//! Commit-graph files. A walk through history that meets an invalid file falls back to the commits.

#![no_main]

use std::{fs, sync::LazyLock};

use libfuzzer_sys::fuzz_target;

mod repository;

use repository::Fixture;

fuzz_target!(|data: &[u8]| {
    static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);
    fs::write(FIXTURE.path().join(".git/objects/info/commit-graph"), data).expect("a writable file");
    let repo = FIXTURE.open();
    let commit = |name: &str| repo.rev_parse(name.into()).expect("a commit of the fixture");
    let _ = repo.ahead_behind(commit("HEAD"), commit("HEAD~1"));
    let _ = repo.merge_bases(commit("HEAD"), commit("HEAD~1"));
});
