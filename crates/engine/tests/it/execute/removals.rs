//! Removals: paths that are removed, and paths that stay.

use std::fs;

use engine::checkout::{Outcome, Premise};

use super::fixture::{Fixture, Item, kinds, tree};

#[test]
fn removes_emptied_directories_and_keeps_others() {
    for workers in [1, 8] {
        let fixture = Fixture::new(workers);
        for path in ["a/b/c/1", "a/b/c/2", "a/b/3", "a/4", "k/untracked", "k/5", "k/d/6", "7"] {
            fixture.put(path, path);
        }
        let plan = fixture.removals(
            &["a/b/c/1", "a/b/c/2", "a/b/3", "a/4", "k/5", "k/d/6", "7"]
                .map(|path| (path, fixture.unchanged(path))),
        );
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.removals), ["removed"; 7]);
        assert_eq!(fixture.tree(), tree(&[("k/untracked", "k/untracked")]));
    }
}

#[test]
fn removes_the_last_file_and_keeps_the_root() {
    let fixture = Fixture::new(1);
    fixture.put("only", "");
    let report = fixture.execute(&fixture.removals(&[("only", Premise::Anything)]));
    assert_eq!(kinds(&report.removals), ["removed"]);
    assert!(fixture.worktree.is_dir());
}

#[test]
fn keeps_the_directory_of_the_command() {
    let mut fixture = Fixture::new(8);
    fixture.put("a/b/c/file", "");
    fixture.cwd = "a/b";
    let report = fixture.execute(&fixture.removals(&[("a/b/c/file", Premise::Anything)]));
    assert_eq!(kinds(&report.removals), ["removed"]);
    assert_eq!(fixture.tree(), tree(&[("a/b", "/")]));
}

#[test]
fn keeps_changed_files_and_accepts_missing_ones() {
    let fixture = Fixture::new(1);
    for path in ["changed", "dir/gone", "gone", "same"] {
        fixture.put(path, "old");
    }
    fs::create_dir(fixture.path("is-dir")).expect("a directory");
    let plan = fixture.removals(&[
        ("changed", fixture.unchanged("changed")),
        ("dir/gone", fixture.unchanged("dir/gone")),
        ("gone", fixture.unchanged("gone")),
        ("is-dir", Premise::Anything),
        ("same", fixture.unchanged("same")),
    ]);
    fixture.put("changed", "by the user");
    fs::remove_file(fixture.path("gone")).expect("removes");
    fs::remove_dir_all(fixture.path("dir")).expect("removes");
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.removals), ["stale", "kept", "kept", "left", "removed"]);
    let Outcome::Undeleted(error) = &report.removals[3] else { unreachable!("just compared") };
    assert_eq!(error.message("is-dir".into()), "unable to unlink 'is-dir': Is a directory");
    assert_eq!(fixture.tree(), tree(&[("changed", "by the user"), ("is-dir", "/")]));
}

#[test]
fn removes_nothing_through_a_link() {
    let fixture = Fixture::new(1);
    let outside = fixture.worktree.with_file_name("outside");
    fixture.put("dir/file", "precious");
    let plan = fixture.removals(&[("dir/file", Premise::Anything)]);
    fs::rename(fixture.path("dir"), &outside).expect("renames");
    std::os::unix::fs::symlink(&outside, fixture.path("dir")).expect("a link");
    assert_eq!(kinds(&fixture.execute(&plan).removals), ["kept"]);
    assert_eq!(fs::read(outside.join("file")).expect("still there"), b"precious");
}

#[test]
fn removes_only_empty_submodules() {
    let fixture = Fixture::new(1);
    fixture.put("full/file", "its own");
    fs::create_dir_all(fixture.path("subs/empty")).expect("directories");
    let plan = fixture.removals(&[("full", Premise::Directory), ("subs/empty", Premise::Directory)]);
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.removals), ["left", "removed"]);
    assert_eq!(fixture.tree(), tree(&[("full/file", "its own")]));
}

#[test]
fn swaps_directories_and_files() {
    for workers in [1, 8] {
        let fixture = Fixture::new(workers);
        for path in ["dir/a", "dir/b/c", "file"] {
            fixture.put(path, "old");
        }
        let removals =
            fixture.removals(&["dir/a", "dir/b/c", "file"].map(|path| (path, fixture.unchanged(path))));
        let mut plan = fixture.writes(&[
            ("dir", Item::Link("file/x"), Premise::Absent),
            ("file/x", Item::File("new"), Premise::Absent),
        ]);
        plan.removals = removals.removals;
        assert_eq!(fixture.complete(&plan), tree(&[("dir", "-> file/x"), ("file/x", "new")]));
    }
}
