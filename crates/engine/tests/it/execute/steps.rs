//! Single steps, and the premises that guard them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
};

use engine::checkout::{Outcome, Premise, record};
use format::index::Flags;

use super::fixture::{Fixture, Item, kinds, tree};

const WORKERS: [usize; 2] = [1, 8];

#[test]
fn writes_every_kind_of_entry() {
    for workers in WORKERS {
        let fixture = Fixture::new(workers);
        let plan = fixture.writes(&[
            ("a", Item::File("content\n"), Premise::Absent),
            ("b/c/d/e", Item::Executable("#!/bin/sh\n"), Premise::Absent),
            ("b/c.x", Item::File(""), Premise::Absent),
            ("b/c/link", Item::Link("../../a"), Premise::Absent),
            ("sub/module", Item::Submodule, Premise::Absent),
            ("ünïcode \t\"name\"", Item::File("x"), Premise::Anything),
        ]);
        let written = fixture.complete(&plan);
        assert_eq!(
            written,
            tree(&[
                ("a", "content\n"),
                ("b/c/d/e", "x #!/bin/sh\n"),
                ("b/c.x", ""),
                ("b/c/link", "-> ../../a"),
                ("sub/module", "/"),
                ("ünïcode \t\"name\"", "x"),
            ])
        );
    }
}

#[test]
fn records_the_stat_of_written_files() {
    let fixture = Fixture::new(2);
    let plan = fixture.writes(&[
        ("dir/file", Item::File("four"), Premise::Absent),
        ("link", Item::Link("target"), Premise::Absent),
        ("lost", Item::MissingBlob, Premise::Absent),
    ]);
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.writes), ["written", "written", "failed"]);
    let index = record(plan, &report);
    for entry in index.entries() {
        let path = index.path(entry).to_string();
        if path == "lost" {
            assert_eq!(entry.stat, format::index::Stat::default());
            assert!(!entry.flags.contains(Flags::UPTODATE));
            continue;
        }
        let stat = fs::symlink_metadata(fixture.path(&path)).expect("written");
        assert_eq!(entry.stat.mtime, (stat.mtime() as u32, stat.mtime_nsec() as u32), "{path}");
        assert_eq!(entry.stat.ctime, (stat.ctime() as u32, stat.ctime_nsec() as u32), "{path}");
        assert_eq!((entry.stat.ino, entry.stat.dev), (stat.ino() as u32, stat.dev() as u32), "{path}");
        assert_eq!(entry.stat.size, stat.size() as u32, "{path}");
        assert!(entry.flags.contains(Flags::UPTODATE));
    }
}

#[test]
fn writes_many_files_in_one_and_in_many_directories() {
    let mut trees = Vec::new();
    for workers in WORKERS {
        let fixture = Fixture::new(workers);
        let names: Vec<String> = (0..1200)
            .map(|n| if n % 3 == 0 { format!("huge/{n}") } else { format!("{}/{}/{n}", n % 7, n % 31) })
            .collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), Item::File(name), Premise::Absent)).collect();
        let written = fixture.complete(&fixture.writes(&entries));
        assert_eq!(written.len(), 1200);
        assert!(written.iter().all(|(path, content)| path == content));
        trees.push(written);
    }
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn replaces_only_files_whose_premise_holds() {
    for workers in WORKERS {
        let fixture = Fixture::new(workers);
        for path in ["absent", "changed", "same", "any", "dir/inner", "any-dir/deep/inner"] {
            fixture.put(path, "old");
        }
        let (same, changed) = (fixture.unchanged("same"), fixture.unchanged("changed"));
        fixture.put("changed", "by the user");
        let new = |path, premise| (path, Item::File("new"), premise);
        let plan = fixture.writes(&[
            new("absent", Premise::Absent),
            new("any", Premise::Anything),
            new("any-dir", Premise::Anything),
            new("changed", changed),
            new("dir", Premise::Absent),
            new("gone", same.clone()),
            new("same", same),
        ]);
        let report = fixture.execute(&plan);
        // "gone" and "same" have the same premise, like hard links. Both are handled correctly.
        assert_eq!(
            kinds(&report.writes),
            ["stale", "written", "written", "stale", "stale", "written", "written"]
        );
        assert_eq!(
            fixture.tree(),
            tree(&[
                ("absent", "old"),
                ("any", "new"),
                ("any-dir", "new"),
                ("changed", "by the user"),
                ("dir/inner", "old"),
                ("gone", "new"),
                ("same", "new"),
            ])
        );
    }
}

#[test]
fn replaces_each_hard_link_to_one_file() {
    let fixture = Fixture::new(4);
    fixture.put("a", "old");
    fs::hard_link(fixture.path("a"), fixture.path("b")).expect("a link");
    let plan = fixture.writes(&[
        ("a", Item::File("new a"), fixture.unchanged("a")),
        ("b", Item::File("new b"), fixture.unchanged("b")),
    ]);
    assert_eq!(fixture.complete(&plan), tree(&[("a", "new a"), ("b", "new b")]));
}

#[test]
fn makes_a_file_executable_by_writing_it_again() {
    let fixture = Fixture::new(1);
    fixture.put("run", "content");
    let before = fs::metadata(fixture.path("run")).expect("is there").ino();
    let keep = fs::File::open(fixture.path("run")).expect("opens");
    let plan = fixture.writes(&[("run", Item::Executable("content"), fixture.unchanged("run"))]);
    assert_eq!(fixture.complete(&plan), tree(&[("run", "x content")]));
    assert_ne!(fs::metadata(fixture.path("run")).expect("is there").ino(), before);
    drop(keep);
}

#[test]
fn never_follows_a_leading_link() {
    for workers in WORKERS {
        let fixture = Fixture::new(workers);
        let outside = fixture.worktree.with_file_name("outside");
        fs::create_dir(&outside).expect("a directory");
        for name in ["a", "b"] {
            symlink(&outside, fixture.path(name)).expect("a link");
        }
        let plan = fixture.writes(&[
            ("a/x/f", Item::File("1"), Premise::Absent),
            ("a/y", Item::Link("2"), Premise::Absent),
            ("b/x/f", Item::File("3"), Premise::Anything),
            ("b/y", Item::Link("4"), Premise::Anything),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["stale", "stale", "written", "written"]);
        assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 0);
        assert!(fs::symlink_metadata(fixture.path("a")).expect("is there").is_symlink());
        assert_eq!(fs::read(fixture.path("b/x/f")).expect("written"), b"3");
    }
}

#[test]
fn never_follows_a_link_that_replaced_a_directory() {
    let fixture = Fixture::new(1);
    let outside = fixture.worktree.with_file_name("outside");
    fs::create_dir(&outside).expect("a directory");
    fixture.put("dir/old", "old");
    let plan = fixture.writes(&[
        ("dir/new", Item::File("new"), Premise::Absent),
        ("dir/old", Item::File("new"), fixture.unchanged("dir/old")),
    ]);
    fs::rename(fixture.path("dir"), outside.join("dir")).expect("renames");
    symlink(outside.join("dir"), fixture.path("dir")).expect("a link");
    assert_eq!(kinds(&fixture.execute(&plan).writes), ["stale", "stale"]);
    assert_eq!(fs::read(outside.join("dir/old")).expect("still there"), b"old");
    assert!(!outside.join("dir/new").exists());
}

#[test]
fn writes_link_targets_as_files_without_symlinks() {
    let mut fixture = Fixture::new(1);
    fixture.symlinks = false;
    let plan = fixture.writes(&[("link", Item::Link("a/target"), Premise::Absent)]);
    assert_eq!(fixture.complete(&plan), tree(&[("link", "a/target")]));
}

#[test]
fn streams_big_files() {
    let mut fixture = Fixture::new(2);
    fixture.big_file_threshold = 1000;
    let big: String = (0..200_000u32).map(|n| char::from(b'a' + (n % 1009 * n % 23) as u8)).collect();
    let plan = fixture.writes(&[
        ("big", Item::Executable(&big), Premise::Absent),
        ("small", Item::File("small"), Premise::Absent),
    ]);
    assert_eq!(fixture.complete(&plan), tree(&[("big", &format!("x {big}")), ("small", "small")]));
}

#[test]
fn keeps_an_existing_submodule() {
    let fixture = Fixture::new(1);
    fixture.put("sub/file", "its own");
    fixture.put("file", "no directory");
    let plan = fixture.writes(&[
        ("file", Item::Submodule, fixture.unchanged("file")),
        ("sub", Item::Submodule, Premise::Directory),
    ]);
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.writes), ["written", "kept"]);
    assert_eq!(fixture.tree(), tree(&[("file", "/"), ("sub/file", "its own")]));
}

#[test]
fn a_file_replaces_only_an_empty_submodule() {
    let fixture = Fixture::new(1);
    fs::create_dir(fixture.path("empty")).expect("a directory");
    fixture.put("full/file", "its own");
    let plan = fixture.writes(&[
        ("empty", Item::File("new"), Premise::Directory),
        ("full", Item::File("new"), Premise::Directory),
    ]);
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.writes), ["written", "failed"]);
    let Outcome::Failed(error) = &report.writes[1] else { unreachable!("just compared") };
    assert_eq!(error.message("full".into()), "unable to rmdir 'full': Directory not empty");
    assert_eq!(fixture.tree(), tree(&[("empty", "new"), ("full/file", "its own")]));
}
