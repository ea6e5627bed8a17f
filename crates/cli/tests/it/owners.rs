//! The code that removes, renames or overwrites files, and whose files they are.
//!
//! Only `engine/src/files/` changes the entries of a user's worktree; its calls take a premise.
//! Clippy forbids `DirMut::of` and `DirMut::lend`, the way around it. Calls by path
//! (`sys::by_path`, in commands `term::files`) are for files that sapwood or Git has made. A file
//! with such calls is listed here. A new one belongs to one of the lists, or should call
//! `engine::files`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The files that change entries in a user's directory, and the entries.
const USERS: &[(&str, &str)] = &[
    ("engine/src/files/directory.rs", "files of a worktree, each with a premise"),
    ("engine/src/files/whole.rs", "whole worktrees that contain no repository; `.git` of worktrees"),
    ("sapwood/src/update_index/probe.rs", "the directory that it has made to test the times of files"),
    ("help/manual.rs", "pages of the manual in the directory that the user names"),
    ("profile/mod.rs", "a profile, which ends with a mark of sapwood"),
    ("sapwood/src/ci/directory.rs", "the directory of a job, on a runner or with `--clean`"),
    ("sapwood/src/ci/removal.rs", "the directory of a job, on a runner or with `--clean`"),
    ("shim/install.rs", "the link `git` that leads to sapwood"),
    ("submodules/connect.rs", "`.git` of a submodule"),
];

/// The files that change directories of sapwood or of Git, and the directories. The upper layer of
/// a workspace holds changes of a user; it is changed while the workspace is not mounted.
const OWN: &[(&str, &[&str])] = &[
    (
        "the Git directory",
        &[
            "store/src/",
            "engine/src/bundles/download.rs",
            "engine/src/bundles/mod.rs",
            "engine/src/clone/ahead.rs",
            "engine/src/clone/local.rs",
            "engine/src/clone/objects.rs",
            "engine/src/clone/pipeline/mod.rs",
            "engine/src/clone/pipeline/write.rs",
            "engine/src/clone/refs.rs",
            "engine/src/clone/salvage/mod.rs",
            "engine/src/clone/salvage/promised.rs",
            "engine/src/clone/server.rs",
            "engine/src/clone/skeleton.rs",
            "engine/src/fetch/fetch_head.rs",
            "engine/src/fetch/shallow.rs",
            "engine/src/fetch/transfer.rs",
            "engine/src/pack_indexing/salvage.rs",
            "engine/src/midx/expire.rs",
            "engine/src/switch/state.rs",
            "engine/src/trash.rs",
            "engine/src/worktree/admin.rs",
            "sapwood/src/ci/settings.rs",
            "sapwood/src/commit/mod.rs",
            "sapwood/src/object_files/prune_packed.rs",
            "sapwood/src/submodule/update/repository.rs",
            "sapwood/src/workspace/durable.rs",
            "sapwood/src/workspace/submodules.rs",
            "sapwood/src/worktree/add/make.rs",
            "sapwood/src/worktree/records.rs",
            "sapwood/src/worktree/unlock.rs",
            "http/session.rs",
        ],
    ),
    (
        "a clone that this command has begun, or a killed one that has a marker",
        &[
            "engine/src/clone/junk.rs",
            "engine/src/clone/marker.rs",
            "engine/src/clone/resume.rs",
            "engine/src/worktree/removal.rs",
        ],
    ),
    (
        "bases and their transfer",
        &[
            "sapwood/src/base/bundle.rs",
            "sapwood/src/base/verify.rs",
            "engine/src/base_transfer/push/journal.rs",
            "engine/src/base_transfer/scratch.rs",
            "engine/src/base_transfer/stock.rs",
            "engine/src/workspace/base/add.rs",
            "engine/src/workspace/base/alternates.rs",
            "engine/src/workspace/base/append.rs",
            "engine/src/workspace/base/blobs.rs",
            "engine/src/workspace/base/difference.rs",
            "engine/src/workspace/base/directory.rs",
            "engine/src/workspace/base/index.rs",
            "engine/src/workspace/base/layer.rs",
            "engine/src/workspace/base/pending.rs",
            "engine/src/workspace/base/prune.rs",
            "engine/src/workspace/base/shared_blocks.rs",
            "engine/src/workspace/base/stored.rs",
            "engine/src/workspace/base/users.rs",
            "engine/src/workspace/base/view.rs",
            "base_store/src/directory.rs",
        ],
    ),
    (
        "the state and the layers of a workspace",
        &[
            "sapwood/src/workspace/maker.rs",
            "sapwood/src/workspace/relocate.rs",
            "sapwood/src/workspace/seal.rs",
            "sapwood/src/workspace/view.rs",
            "engine/src/workspace/backend/changed.rs",
            "engine/src/workspace/backend/fill.rs",
            "engine/src/workspace/backend/fuse.rs",
            "engine/src/workspace/backend/holder.rs",
            "engine/src/workspace/backend/marker.rs",
            "engine/src/workspace/backend/overlay.rs",
            "engine/src/workspace/crash/examine.rs",
            "engine/src/workspace/crash/mark.rs",
            "engine/src/workspace/crash/mod.rs",
            "engine/src/workspace/crash/newer.rs",
            "engine/src/workspace/crash/notice.rs",
            "engine/src/workspace/frozen.rs",
            "engine/src/workspace/inner.rs",
            "engine/src/workspace/newer.rs",
            "engine/src/workspace/orphans.rs",
            "engine/src/workspace/rebase/journal.rs",
            "engine/src/workspace/record/directories.rs",
            "engine/src/workspace/record/mod.rs",
            "engine/src/workspace/remove.rs",
            "engine/src/workspace/sealed.rs",
            "engine/src/workspace/sealed/objects.rs",
            "engine/src/workspace/union.rs",
            "engine/src/workspace/upper/snapshot.rs",
            "engine/src/landing/foreign.rs",
            "engine/src/landing/import.rs",
        ],
    ),
    (
        "the state of the service for volumes, its sockets, and empty directories of volumes",
        &[
            "csi/src/budget.rs",
            "csi/src/publish.rs",
            "csi/src/repository.rs",
            "csi/src/secrets.rs",
            "csi/src/serve.rs",
            "csi/src/state.rs",
            "csi/src/volumes.rs",
        ],
    ),
    ("a temporary directory of this command", &["sign/mod.rs", "sapwood/src/compare/mod.rs"]),
    (
        "credentials of a job, which begin with a mark of sapwood, and the files of their name",
        &["sapwood/src/ci/cleanup.rs", "sapwood/src/ci/credentials.rs", "sapwood/src/ci/ssh.rs"],
    ),
    ("any of these", &["engine/src/files/own.rs"]),
];

/// The calls that remove, replace or overwrite.
const CALLS: &[&str] = &[
    "by_path::remove_file",
    "files::remove_file",
    "by_path::remove_dir",
    "by_path::rename",
    "by_path::open_to_rewrite",
    "DirMut::lend(",
    "DirMut::of",
    "Doomed::own(",
    "own::open(",
];

/// The crates with other tasks: system calls, and tests.
const OTHERS: &[&str] = &["sys", "testkit", "lab"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Adds the source files below `dir` that are no tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().expect("UTF-8");
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// Returns the code of a file, without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("UTF-8");
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the paths, from `crates`, of the source files with one of the calls.
fn files_with(calls: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(crates()).expect("a directory").flatten() {
        let source = entry.path().join("src");
        if source.is_dir() && !OTHERS.iter().any(|other| entry.file_name() == *other) {
            sources(&source, &mut all);
        }
    }
    all.retain(|path| {
        let code = code(path);
        calls.iter().any(|call| code.contains(call))
    });
    let shown = |path: PathBuf| {
        path.strip_prefix(crates()).expect("below").to_str().expect("UTF-8").replace('\\', "/")
    };
    let mut all: Vec<String> = all.into_iter().map(shown).collect();
    all.sort();
    all
}

/// Returns true if a line of the lists means this file: its path ends so, or it is in that folder.
fn means(line: &str, path: &str) -> bool {
    let at_end = path.strip_suffix(line).is_some_and(|before| before.is_empty() || before.ends_with('/'));
    at_end || line.ends_with('/') && path.starts_with(line)
}

#[test]
fn each_file_that_removes_or_renames_is_listed_with_its_owner() {
    let found = files_with(CALLS);
    let lines: Vec<&str> = USERS
        .iter()
        .map(|(line, _)| *line)
        .chain(OWN.iter().flat_map(|(_, lines)| lines.iter().copied()))
        .collect();
    let unlisted: Vec<&String> =
        found.iter().filter(|path| !lines.iter().any(|line| means(line, path))).collect();
    assert!(
        unlisted.is_empty(),
        "these files remove or rename by path: list them, or call engine::files: {unlisted:#?}"
    );
    let stale: Vec<&&str> = lines.iter().filter(|line| !found.iter().any(|path| means(line, path))).collect();
    assert!(stale.is_empty(), "these lines mean no file: {stale:#?}");
}

#[test]
fn directories_become_changeable_in_one_module() {
    let found = files_with(&["DirMut::of", "DirMut::lend("]);
    assert_eq!(
        found,
        ["engine/src/files/directory.rs", "engine/src/files/own.rs", "engine/src/files/whole.rs"]
    );
}

#[test]
fn only_the_engine_has_changeable_directories() {
    let found = files_with(&["DirMut"]);
    let others: Vec<&String> = found.iter().filter(|path| !path.starts_with("engine/")).collect();
    assert!(others.is_empty(), "these files name DirMut: {others:#?}");
}

#[test]
fn a_new_file_is_found() {
    assert!(means("files/whole.rs", "engine/src/files/whole.rs"));
    assert!(!means("whole.rs", "engine/src/files/unwhole.rs"));
    assert!(means("store/src/", "store/src/refs/log.rs"));
    assert!(!means("store/src/", "engine/src/store/src/log.rs"));
}
