//! Modification times in workspaces: no base is newer than a build, and what changed after a build
//! is newer than it.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use testkit::Repo;

use super::create::Place;

/// The backends with layers.
const LAYERED: [&str; 3] = ["image", "overlay", "fuse"];

type Time = (i64, i64);

fn time(repo: &Repo<'_>, path: &str) -> Time {
    let found = fs::symlink_metadata(repo.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    (found.mtime(), found.mtime_nsec())
}

/// Writes a file that stands for something that was built, and returns its time.
fn build(repo: &Repo<'_>, path: &str) -> Time {
    std::thread::sleep(Duration::from_millis(20));
    repo.write(path, "built\n");
    std::thread::sleep(Duration::from_millis(20));
    time(repo, path)
}

fn is_clean(place: &Place, name: &str) -> bool {
    let inside = place.workspace(name);
    let own = inside.run(crate::SAPWOOD.as_ref(), &["status", "--porcelain"]);
    place.git(name, &["status", "--porcelain"]).is_empty() && own.stdout.is_empty() && own.code == 0
}

#[test]
fn bases_are_older_than_builds_and_differ_only_where_contents_do() {
    for backend in ["image", "overlay", "fuse", "overlay-user"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--backend", backend]);
        place.done(&["create", "-q", "two", "HEAD~1", "--detach", "--backend", backend]);
        let times = |name: &str| {
            let script = "stat -c '%Y %y %n' file dir/deep/file dir/deep dir link";
            let lines = place.done(&["exec", name, "--", "sh", "-c", script]);
            lines
                .lines()
                .map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        let (one, two) = (times("one"), times("two"));
        let seconds = |line: &str| line.split(' ').next().expect("seconds").parse::<i64>().expect("a number");
        assert!((1_300_000_000..1_500_000_000).contains(&seconds(&one[0])), "{backend}: {one:?}");
        assert!(one.iter().all(|line| *line == one[0]), "{backend}: {one:?}");
        // Other contents have another time, for tools that compare times for equality.
        assert_ne!(seconds(&one[0]), seconds(&two[0]), "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        place.done(&["create", "-q", "again", "--detach", "--backend", backend]);
        assert_eq!(times("again"), one, "{backend}");
    }
}

#[test]
fn a_rebase_makes_what_it_changes_newer_than_every_build() {
    for backend in LAYERED {
        let place = Place::new();
        let repo = place.repo();
        repo.write("other", "other\n");
        repo.remove("dir/empty");
        repo.git(&["add", "-A"]);
        repo.commit("three");
        place.done(&["create", "-q", "one", "-d", "HEAD~2", "--backend", backend]);
        let one = place.workspace("one");
        one.write("dir/mine", "mine\n");
        place.git("one", &["add", "dir/mine"]);
        let mine = time(&one, "dir/mine");
        let built = build(&one, "a.o");
        place.done(&["rebase", "-q", "-d", "one", "main"]);
        assert_eq!(one.read("file"), "changed\n");
        for path in ["file", "other", "dir"] {
            assert!(time(&one, path) > built, "{backend}: '{path}' is as old as before the rebase");
        }
        for path in ["dir/deep/file", "run", "link", "dir/deep"] {
            assert!(time(&one, path) < built, "{backend}: '{path}' became newer");
        }
        // FUSE shows a time of the kernel's cache at first.
        let mine = if backend == "fuse" { time(&one, "dir/mine") } else { mine };
        assert_eq!(time(&one, "dir/mine"), mine, "{backend}");
        place.git("one", &["commit", "-qm", "mine"]);
        assert!(is_clean(&place, "one"), "{backend}");
        // The next rebase keeps these times: nothing was built in between.
        let file = time(&one, "file");
        place.git("one", &["branch", "-f", "here"]);
        place.done(&["rebase", "-q", "one", "here"]);
        assert_eq!(time(&one, "file"), file, "{backend}");
        assert_eq!(
            time(&one, "dir/mine"),
            mine,
            "{backend}: a file that the base now provides lost its time"
        );
        assert!(is_clean(&place, "one"), "{backend}");
        let later = build(&one, "b.o");
        place.done(&["rebase", "-q", "-d", "one", "main~2"]);
        assert!(time(&one, "file") > later && one.read("file") == "content\n", "{backend}");
        assert!(time(&one, "dir") > later && !one.exists("dir/mine"), "{backend}");
        assert!(time(&one, "dir/empty") > later, "{backend}");
        assert!(is_clean(&place, "one"), "{backend}");
        place.done(&["unmount", "one"]);
        place.done(&["mount", "one"]);
        assert!(is_clean(&place, "one"), "{backend}");
        one.remove("file");
        place.git("one", &["checkout", "-q", "--detach", "main"]);
        assert!(is_clean(&place, "one") && one.exists("file"), "{backend}");
    }
}

#[test]
fn files_taken_along_keep_their_order_with_the_sources() {
    for backend in ["image", "overlay", "fuse", "overlay-user"] {
        let place = Place::new();
        let repo = place.repo();
        repo.write("late", "late\n");
        repo.commit("three");
        let built = build(&repo, "out.o/built");
        // Equal in both, and written after the build: the build is stale here, and so it is there.
        repo.write("late", "late\n");
        repo.git(&["update-index", "--refresh"]);
        // Unlike the commit of the workspace, so the build has foreign bytes.
        repo.write("run", "#!/bin/sh\nexit\n");
        let times = |name: &str, paths: &[&str]| -> Vec<i64> {
            let script = format!("stat -c %.9Y {}", paths.join(" "));
            let lines = place.done(&["exec", name, "--", "sh", "-c", &script]);
            lines.lines().map(|line| line.replace('.', "").parse().expect("a number")).collect()
        };
        let built_at = built.0 * 1_000_000_000 + built.1;
        place.done(&["create", "-q", "one", "--backend", backend, "--with", "out.o"]);
        let found = times("one", &["out.o/built", "file", "dir/deep/file", "late", "run"]);
        assert_eq!(found[0], built_at, "{backend}");
        assert!(found[1] < built_at && found[2] < built_at, "{backend}: {found:?}");
        assert!(found[3] > built_at && found[4] > built_at, "{backend}: {found:?}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        // Another commit: only what differs from the worktree is new.
        place.done(&["create", "-q", "two", "-d", "HEAD~2", "--backend", backend, "--with", "out.o"]);
        let found = times("two", &["out.o/built", "file", "dir/deep/file"]);
        assert!(found[1] > built_at && found[2] < built_at, "{backend}: {found:?}");
        assert_eq!(place.git("two", &["status", "--porcelain"]), "", "{backend}");
        // A rebase keeps the order, and deletes nothing of the layer.
        place.done(&["rebase", "-q", "-d", "two", "main~1"]);
        let found = times("two", &["out.o/built", "file", "dir/deep/file"]);
        assert!(found[1] > built_at && found[2] < built_at, "{backend}: {found:?}");
        assert_eq!(place.git("two", &["status", "--porcelain"]), "", "{backend}");
    }
}

#[test]
fn worktreeinclude_names_what_is_taken() {
    let place = Place::new();
    let repo = place.repo();
    repo.write(".gitignore", "*.o\n/out/\nnode_modules/\n.env*\n/config/*.local\n/cache/\nrun\n");
    repo.write(
        ".worktreeinclude",
        "# comment\n\nnode_modules\n.env*\n!.env.secret\n/cache/keep/\nconfig/*\nfile\nuntracked\nrun\n",
    );
    repo.write("config/a", "tracked\n");
    repo.commit("rules");
    for path in [
        "node_modules/x/index.js",
        "packages/a/node_modules/y",
        ".env",
        "packages/a/.env.test",
        ".env.secret",
        "cache/keep/x",
        "cache/other",
        "config/b.local",
        "out/built",
        "x.o",
        "untracked",
        "node_modules/.env",
        "out/.env",
    ] {
        repo.write(path, "ignored\n");
    }
    place.done(&["create", "-q", "one", "-d", "--backend", "overlay"]);
    let taken = |name: &str| {
        let status = place.git(name, &["status", "--porcelain", "--ignored=matching", "-uall"]);
        status.lines().map(|line| line.replace("!! ", "")).collect::<Vec<_>>()
    };
    let expected = [
        ".env",
        "cache/",
        "config/b.local",
        "node_modules/",
        "packages/a/.env.test",
        "packages/a/node_modules/",
    ];
    assert_eq!(taken("one"), expected);
    let one = place.workspace("one");
    assert!(one.exists("cache/keep/x") && !one.exists("cache/other"));
    // A path that the commit has stays the commit's.
    place.done(&["create", "-q", "old", "-d", "HEAD~1", "--backend", "overlay"]);
    assert_eq!(place.workspace("old").read("run"), "#!/bin/sh\n");
    place.done(&["create", "-q", "none", "-d", "--no-include", "--backend", "overlay"]);
    assert_eq!(taken("none"), [""; 0]);
    place.done(&["create", "-q", "some", "-d", "--with", "x.o", "--backend", "overlay"]);
    assert_eq!(taken("some"), ["x.o"]);
    place.done(&["create", "-q", "copy", "-d", "--backend", "copy"]);
    assert_eq!(taken("copy"), expected);
    assert!(Path::new(&place.workspace("copy").join("node_modules/x/index.js")).is_file());
}
