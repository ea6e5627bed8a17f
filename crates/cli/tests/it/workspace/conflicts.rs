//! `workspace conflicts`: what Git's own merges of the same states would say.

use std::{collections::BTreeSet, fs, path::Path};

use bstr::ByteSlice as _;
use serde_json::Value;

use super::create::{BACKENDS, Place};
use crate::SAPWOOD;

/// Runs the command. Returns its exit code and the document.
fn conflicts(place: &Place, names: &[&str]) -> (i32, Value) {
    let run = place.run(&[&["conflicts", "--json"], names].concat());
    (run.code, serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr)))
}

/// Returns every file below the repository's Git directory, with its content.
fn snapshot(place: &Place) -> BTreeSet<(String, Vec<u8>)> {
    fn below(dir: &Path, found: &mut BTreeSet<(String, Vec<u8>)>) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            match entry.file_type().expect("a type") {
                kind if kind.is_dir() => below(&path, found),
                kind if kind.is_file() => {
                    let name = path.to_string_lossy().into_owned();
                    found.insert((name, fs::read(&path).unwrap_or_default()));
                }
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    below(&place.repo().join(".git"), &mut found);
    found
}

fn write(place: &Place, name: &str, path: &str, content: &str) {
    place.done(&[
        "exec",
        name,
        "--",
        "sh",
        "-ec",
        &format!("mkdir -p \"$(dirname {path})\"; printf '{content}' >{path}"),
    ]);
}

#[test]
fn shows_what_git_could_not_merge_and_leaves_nothing() {
    for backend in BACKENDS {
        let place = Place::new();
        for name in ["a", "b", "c", "d"] {
            place.done(&["create", name, "-q", "-b", name, "--backend", backend]);
        }
        assert_eq!(conflicts(&place, &[]).0, 0, "{backend}");
        // Committed in one, uncommitted in the other; the third touches another file of both.
        write(&place, "a", "file", "from a\\n");
        place.git("a", &["commit", "-qam", "a"]);
        write(&place, "b", "file", "from b\\n");
        write(&place, "b", "dir/new", "same\\n");
        write(&place, "c", "dir/new", "same\\n");
        write(&place, "c", "x.o", "ignored\\n");
        write(&place, "d", "x.o", "ignored as well\\n");
        let before = snapshot(&place);
        let (code, found) = conflicts(&place, &[]);
        let expected = serde_json::json!({
            "version": 1,
            "pairs": [
                {"workspaces": ["a", "b"], "paths": ["file"], "conflicts": ["file"]},
                {"workspaces": ["b", "c"], "paths": ["dir/new"], "conflicts": []},
            ],
            "notExamined": [],
        });
        assert_eq!((code, found), (1, expected), "{backend}");
        assert_eq!(snapshot(&place), before, "{backend}");
        let shown = place.run(&["conflicts", "a", "b"]);
        assert_eq!(
            (shown.code, shown.stdout.to_str_lossy().as_ref()),
            (1, "a b\n  conflict  file\n"),
            "{backend}"
        );
        assert_eq!(conflicts(&place, &["b", "c"]).0, 0, "{backend}");
        assert_eq!(place.git("b", &["status", "--porcelain"]), " M file\n?? dir/new\n", "{backend}");
    }
}

/// A state that the upper layer shows without a mount: deletions, a file in place of a directory,
/// an executable, a link, a commit that moved HEAD away from the base.
#[test]
fn an_unmounted_workspace_is_compared_too() {
    let place = Place::new();
    for name in ["a", "b"] {
        place.done(&["create", name, "-q", "-b", name, "--backend", "overlay"]);
    }
    place.done(&[
        "exec",
        "a",
        "--",
        "sh",
        "-ec",
        "rm -r dir/deep; echo file >dir/deep; chmod -x run; rm link",
    ]);
    write(&place, "b", "dir/deep/file", "changed\\n");
    place.git("b", &["commit", "-qam", "b"]);
    place.done(&["exec", "b", "--", "sh", "-ec", "echo more >>run"]);
    place.done(&["unmount", "a", "b"]);
    let (code, found) = conflicts(&place, &[]);
    assert_eq!(code, 1, "{found}");
    assert_eq!(found["pairs"][0]["paths"], serde_json::json!(["dir/deep/file", "run"]));
    assert_eq!(found["pairs"].as_array().map(Vec::len), Some(1));
    let failed = place.run(&["conflicts", "a", "none"]);
    assert_eq!(failed.code, 128, "{}", failed.stderr);
}

/// Git takes the removal of all files of a directory, and new names for them, as a rename, and
/// moves files of the other side: a conflict without a common path.
#[test]
fn a_renamed_directory_is_merged_with_what_others_add_there() {
    let place = Place::new();
    for name in ["a", "b"] {
        place.done(&["create", name, "-q", "-b", name]);
    }
    place.git("a", &["mv", "dir/deep", "moved"]);
    place.git("a", &["commit", "-qm", "moved"]);
    write(&place, "b", "dir/deep/new", "new\\n");
    place.git("b", &["add", "."]);
    place.git("b", &["commit", "-qm", "new"]);
    let (code, found) = conflicts(&place, &[]);
    let git = place.repo().try_git(&["merge-tree", "--write-tree", "--name-only", "--no-messages", "a", "b"]);
    let expected: Vec<&str> = git.stdout.to_str().expect("text").lines().skip(1).collect();
    assert_eq!((code, git.code), (1, 1), "{found}");
    assert_eq!(found["pairs"][0]["conflicts"], serde_json::json!(expected));
}

#[test]
fn a_damaged_workspace_does_not_hide_the_others() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.done(&["create", name, "-q", "-b", name]);
    }
    write(&place, "a", "file", "from a\\n");
    place.repo().write(".git/sapwood/workspaces/c/record", "[workspace]\n\tdir = relative\n");
    let (code, found) = conflicts(&place, &[]);
    assert_eq!(code, 2, "{found}");
    assert_eq!(found["notExamined"][0]["name"], "c");
    write(&place, "b", "file", "from b\\n");
    assert_eq!(conflicts(&place, &[]).0, 1);
}

/// Fifty workspaces with ten common paths are one process of Git, which merges only the pairs that
/// overlap.
#[test]
fn fifty_workspaces_start_one_process() {
    let place = Place::new();
    for number in 0..50 {
        place.done(&["create", &format!("w{number}"), "-q", "--backend", "overlay"]);
        let path = if number < 10 { format!("both{}", number / 2) } else { format!("own{number}") };
        write(&place, &format!("w{number}"), &path, &format!("{number}\\n"));
    }
    let trace = place.sandbox.path().join("trace");
    let mut command = place.repo().command(SAPWOOD.as_ref());
    command.env("GIT_TRACE2_EVENT", &trace).args(["workspace", "conflicts", "--json"]);
    let output = command.output().expect("it runs");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["pairs"].as_array().map(Vec::len), Some(5), "{found}");
    assert_eq!(output.status.code(), Some(1));
    let events = fs::read_to_string(&trace).expect("a trace");
    let started = events.lines().filter(|line| line.contains("\"child_start\"")).count();
    assert_eq!(started, 1, "{events}");
}
