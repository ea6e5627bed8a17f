//! `create --with`: ignored files as a frozen layer.

use std::fs;

use super::create::Place;

const BACKENDS: [&str; 2] = ["overlay", "image"];

#[test]
fn ignored_files_are_shared_and_never_changed() {
    for backend in BACKENDS {
        let place = Place::new();
        let repo = place.repo();
        repo.write(".gitignore", "*.o\n/target/\nnode_modules\n");
        repo.commit("rules");
        repo.write("target/deep/built", "built\n");
        repo.write("target/other", "other\n");
        repo.write_executable("dir/node_modules/run", "#!/bin/sh\n");
        let with = ["--with", "target", "--with", "dir/node_modules/"];
        place.done(&[&["create", "-q", "one", "--detach", "--backend", backend], &with[..]].concat());
        let one = place.workspace("one");
        assert_eq!(one.read("target/deep/built"), "built\n");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        let ignored = "!! dir/node_modules/\n!! target/\n";
        assert_eq!(place.git("one", &["status", "--porcelain", "--ignored"]), ignored, "{backend}");
        one.write("target/deep/built", "anew\n");
        one.remove("target/other");
        place.done(&[
            "create",
            "-q",
            "two",
            "--detach",
            "--backend",
            backend,
            "--from",
            "one",
            "--with",
            "target",
        ]);
        let two = place.workspace("two");
        assert_eq!(two.read("target/deep/built"), "anew\n", "{backend}");
        assert!(!two.exists("target/other") && !two.exists("dir/node_modules"));
        assert_eq!(repo.read("target/deep/built"), "built\n");
        place.done(&["rebase", "-q", "-d", "one", "HEAD~1"]);
        assert_eq!(one.read("target/deep/built"), "anew\n", "{backend}");
        assert!(!one.exists("target/other"), "a deleted file of a layer came back");
        place.done(&["gc"]);
        assert_eq!(fs::read_dir(repo.join(".git/sapwood/layers")).expect("layers").count(), 2);
        place.done(&["remove", "--force", "one", "two"]);
        place.done(&["gc"]);
        assert_eq!(fs::read_dir(repo.join(".git/sapwood/layers")).into_iter().flatten().count(), 0);
    }
}

#[test]
fn other_files_are_refused() {
    let place = Place::new();
    place.repo().write("own", "mine\n");
    place.repo().write("x.o", "built\n");
    let cases = [
        ("own", "is not ignored"),
        ("dir", "holds tracked files"),
        ("none", "does not exist in"),
        ("../repo", "is not a path below the top"),
        (".git", "is not a path below the top"),
    ];
    for (path, words) in cases {
        let run = place.run(&["create", "one", "--backend", "overlay", "--with", path]);
        assert_eq!(run.code, 128, "{path}: {run:?}");
        assert!(run.stderr.to_string().contains(words), "{path}: {}", run.stderr);
        assert!(!place.repo().exists(".git/worktrees/one"), "{path}");
    }
    // A path that another commit tracks: the layer would hide its file while status is clean.
    place.repo().git(&["rm", "-q", "--cached", "run"]);
    place.repo().write(".gitignore", "*.o\nrun\n");
    place.repo().git(&["commit", "-qam", "run is built now"]);
    for path in ["run", "run/"] {
        let run = place.run(&["create", "one", "HEAD~1", "--backend", "overlay", "--with", path]);
        assert!(run.stderr.to_string().contains("would hide it"), "{path}: {}", run.stderr);
    }
    let run = place.run(&["create", "one", "--from", "none"]);
    assert!(run.stderr.to_string().contains("--from needs --with"), "{}", run.stderr);
    place.done(&["create", "-q", "one", "--backend", "overlay", "--with", "x.o"]);
    assert_eq!(place.workspace("one").read("x.o"), "built\n");
}
