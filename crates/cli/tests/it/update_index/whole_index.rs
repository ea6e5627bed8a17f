//! Options and settings for the whole index: its version, its form and its caches.

use std::fs;

use bstr::ByteSlice as _;
use testkit::Sandbox;

use super::{GIT, IndexPair, OURS, age, write};
use crate::SAPWOOD;

#[test]
fn options_for_the_whole_index() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    for args in [
        &["--show-index-version"][..],
        &["--verbose", "--index-version", "4"],
        &["--index-version", "4"],
        &["--show-index-version"],
        &["--index-version", "2"],
        &["--untracked-cache", "--verbose"],
        &["--force-untracked-cache"],
        &["-c", "status.showUntrackedFiles=all", "!", "--untracked-cache"],
        &["-c", "core.untrackedCache=keep", "!", "--refresh"],
        &["-c", "core.untrackedCache=false", "!"],
        &["-c", "core.untrackedCache=false", "!", "--untracked-cache"],
        &["-c", "core.untrackedCache=true", "!", "--no-untracked-cache", "--verbose"],
        &["-c", "status.showUntrackedFiles=all", "-c", "core.untrackedCache=true", "!", "--refresh"],
        &["--add", "a"],
        &["--force-remove", "dir/x"],
        &["-c", "feature.manyFiles=true", "!", "--force-write-index"],
        &["--no-force-untracked-cache"],
        &["--no-fsmonitor", "--verbose"],
        &["--split-index"],
        &["--force-remove", "b"],
        &["--add", "b"],
        &["--skip-worktree", "a"],
        &["--split-index"],
        &["-c", "core.splitIndex=false", "!", "--split-index"],
        &["--force-remove", "exec"],
        &["--add", "exec"],
        &["-c", "core.splitIndex=true", "!", "--no-split-index"],
        &["-c", "core.splitIndex=true", "!", "--refresh"],
        &["--index-version", "4"],
        &["--no-split-index"],
        &["--nonsense"],
        &["-h"],
    ] {
        if args == ["-h"] || args == ["--nonsense"] {
            let ours = pair.run(Some(SAPWOOD), OURS, None, &["update-index", args[0]]);
            assert_eq!(ours.code, 129, "{args:?}");
            continue;
        }
        pair.same(args);
    }
    // Without an index.
    for index in [GIT, OURS] {
        pair.repo.remove(index);
    }
    pair.same(&["--show-index-version"]);
    pair.same(&["-c", "index.version=4", "-c", "core.untrackedCache=true", "!", "--add", "a", "dir/y"]);
    pair.same(&["--show-index-version"]);
}

/// Numbers have 32 bits.
#[test]
fn settings_beyond_the_range_of_numbers() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    for version in ["2147483647", "2147483648", "4294967298", "-2147483648", "-4294967294", "2g", "-2g"] {
        for index in [GIT, OURS] {
            let _ = fs::remove_file(pair.repo.join(index));
        }
        let setting = format!("index.version={version}");
        pair.same(&["-c", &setting, "!", "--add", "a"]);
        pair.same(&["-c", &setting, "!", "--show-index-version"]);
    }
    let size = "core.bigFileThreshold=4g";
    pair.same(&["-c", size, "!", "--add", "b"]);
}

#[test]
fn output_of_fsmonitor_and_untracked_cache_tests() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let of = |program: Option<&str>, index, arg| {
        let run = pair.run(program, index, None, &["update-index", "--verbose", arg]);
        (run.code, run.stdout, run.stderr)
    };
    for arg in ["--fsmonitor", "--test-untracked-cache"] {
        assert_eq!(of(None, GIT, arg), of(Some(SAPWOOD), OURS, arg));
    }
    let left = fs::read_dir(&pair.repo.path).expect("readable");
    assert!(left.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("mtime-test")));
    let has = |index: &str| fs::read(pair.repo.join(index)).expect("there").contains_str("FSMN");
    assert_eq!((has(GIT), has(OURS)), (true, true));
    // Without a configured monitor, its data are dropped.
    pair.same(&["--refresh"]);
}

#[test]
fn a_sparse_index_stays_one_where_it_can() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for path in ["top", "in/x", "out/x", "out/deep/y", "other/x"] {
        write(&repo, path, &format!("{path}\n"));
    }
    repo.commit("first");
    repo.git(&["sparse-checkout", "set", "--sparse-index", "in"]);
    ["top", "in/x"].iter().for_each(|path| age(&repo.join(path)));
    repo.git(&["update-index", "--refresh"]);
    repo.git(&["config", "advice.sparseIndexExpanded", "false"]);
    let pair = IndexPair::of(repo);
    write(&pair.repo, "in/new", "new\n");
    for args in [
        &["--refresh"][..],
        &["--add", "in/new"],
        &["--chmod=+x", "top"],
        &["-g"],
        &["--force-remove", "out/x"],
        &["--skip-worktree", "in/x"],
        &["--split-index"],
    ] {
        pair.same(args);
    }
}
