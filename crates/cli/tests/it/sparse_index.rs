//! Sparse indexes: what Git wrote is read, what is written Git reads, and both write the same.

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo, Run};

use crate::SAPWOOD;

/// Directories in and out of the cone, and branches that differ within, without, and in what is there.
fn history(repo: &Repo<'_>) {
    for path in [
        "top",
        "in/x",
        "in/deep/x",
        "out/x",
        "out/a/x",
        "out/a-b/x",
        "out/b/c/x",
        "way/in/x",
        "way/x",
        "way/out/x",
    ] {
        repo.write(path, "one\n");
    }
    repo.commit("first");
    for (branch, write, remove) in [
        ("within", &["top", "in/x", "in/new/x"][..], &["in/deep"][..]),
        ("without", &["out/a/x", "way/out/y"], &["out/b"]),
        ("new", &["brandnew/x", "brandnew/y/x", "way/other/x"], &["out/a-b"]),
        ("file", &["in/x"], &["out"]),
        ("all", &["top", "in/x", "out/x", "out/b/c/x", "way/x", "way/out/x"], &[]),
    ] {
        repo.git(&["switch", "-q", "-c", branch, "main"]);
        remove.iter().for_each(|path| repo.remove(path));
        write.iter().for_each(|path| repo.write(path, format!("{branch}\n")));
        if branch == "file" {
            repo.write("out", "a file\n");
        }
        repo.commit(branch);
    }
    repo.git(&["switch", "-q", "main"]);
}

/// The same, sparse by Git.
fn sparse(repo: &Repo<'_>) {
    history(repo);
    repo.git(&["sparse-checkout", "set", "--sparse-index", "in", "way/in"]);
}

fn index(repo: &Repo<'_>) -> String {
    let of = |args: &[&str]| repo.git(&[&["--no-optional-locks"], args].concat()).stdout;
    let listed = of(&["ls-files", "--sparse", "--stage", "-t"]);
    format!("{listed}\n{}", of(&["status", "--porcelain=v2"]))
}

/// The index, as it is and as Git understands it.
#[track_caller]
fn same(oracle: &Oracle, args: &[&str]) -> Run {
    let run = oracle.same(args);
    assert_eq!(index(&oracle.git()), index(&oracle.ours()), "{args:?}");
    run
}

#[test]
fn branches_with_a_sparse_index() {
    let oracle = Oracle::new(SAPWOOD, sparse);
    for args in [
        &["switch", "within"][..],
        &["switch", "without"],
        &["checkout", "new"],
        &["switch", "file"],
        &["switch", "all"],
        &["reset", "--hard", "without"],
        &["reset", "--keep", "main"],
        &["reset", "new"],
        &["reset", "--hard"],
        &["checkout", "main", "--", "in", "top"],
        &["restore", "--source=within", "--staged", "--worktree", "."],
        &["reset", "--hard", "main"],
        &["read-tree", "-m", "-u", "main", "all"],
        &["reset", "--merge", "main"],
        &["reset", "--hard", "all"],
        &["read-tree", "-m", "-u", "main", "all", "within"],
        &["checkout-index", "-f", "-a"],
        &["clean", "-n", "-d"],
    ] {
        same(&oracle, args);
    }
}

#[test]
fn the_patterns_and_the_kind_of_index_change() {
    let oracle = Oracle::new(SAPWOOD, history);
    for args in [
        &["sparse-checkout", "set", "--sparse-index", "in"][..],
        &["sparse-checkout", "add", "way"],
        &["sparse-checkout", "set", "--skip-checks", "out/a"],
        &["sparse-checkout", "set", "in", "out/b"],
        &["switch", "without"],
        &["sparse-checkout", "reapply", "--no-sparse-index"],
        &["sparse-checkout", "reapply", "--sparse-index"],
        &["-c", "index.sparse=false", "switch", "new"],
        &["switch", "main"],
        &["sparse-checkout", "set", "--no-cone", "/in/"],
        &["sparse-checkout", "init", "--cone"],
        &["sparse-checkout", "set", "in"],
        &["sparse-checkout", "disable"],
        &["switch", "all"],
    ] {
        same(&oracle, args);
    }
}

/// Trees that a commit would make are made when entries go into them.
#[test]
fn what_is_staged_outside_becomes_a_tree() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.git(&["sparse-checkout", "set", "in"]);
        repo.write("staged", "staged\n");
        let blob = repo.git(&["hash-object", "-w", "staged"]).stdout.to_string();
        repo.remove("staged");
        repo.git(&["update-index", "--add", "--cacheinfo", "100644", blob.trim(), "out/a/staged"]);
        repo.git(&["update-index", "--skip-worktree", "out/a/staged"]);
    });
    let run = same(&oracle, &["sparse-checkout", "reapply", "--sparse-index"]);
    assert_eq!(run.code, 0);
    oracle.both(|repo| {
        let listed = repo.git(&["ls-files", "--sparse"]).stdout.to_string();
        assert!(listed.contains("out/\n"), "{listed}");
        repo.git(&["fsck", "--strict"]);
    });
    for args in [&["restore", "--staged", "out"][..], &["switch", "all"]] {
        same(&oracle, args);
    }
}

#[test]
fn what_is_there_outside_makes_it_full() {
    let oracle = Oracle::new(SAPWOOD, sparse);
    oracle.both(|repo| repo.write("out/a/x", "mine\n"));
    for args in [
        &["switch", "within"][..],
        &["switch", "without"],
        &["sparse-checkout", "reapply"],
        &["sparse-checkout", "clean", "--force"],
        &["reset", "--hard"],
        &["sparse-checkout", "reapply"],
        &["sparse-checkout", "clean", "--dry-run"],
    ] {
        same(&oracle, args);
    }
}

#[test]
fn worktrees_have_sparse_indexes_of_their_own() {
    let oracle = Oracle::new(SAPWOOD, sparse);
    let (git, ours) = (oracle.git(), oracle.ours());
    git.git(&["worktree", "add", "-q", "--detach", "../tree", "all"]);
    let run = ours.run(SAPWOOD.as_ref(), &["worktree", "add", "-q", "--detach", "../tree", "all"]);
    assert_eq!((run.code, run.stderr.to_string()), (0, String::new()));
    let listed = |repo: &Repo<'_>| {
        let listed = ["ls-files", "--sparse", "--stage", "-t"];
        repo.git(&[&["-C", "../tree"], &listed[..]].concat()).stdout
    };
    assert!(listed(&git).contains_str("out/\n"));
    assert_eq!(listed(&git), listed(&ours));
    same(&oracle, &["worktree", "remove", "../tree"]);
}

/// In a clone without blobs nothing is fetched for what is outside.
#[test]
fn no_blob_is_fetched() {
    let oracle = Oracle::new(SAPWOOD, sparse);
    oracle.both(|repo| {
        repo.git(&["config", "uploadpack.allowFilter", "true"]);
        let url = format!("file://{}", repo.path.display());
        repo.git(&["clone", "-q", "--filter=blob:none", "--sparse", "--branch=main", &url, "partial"]);
    });
    oracle.same_in("partial", &["sparse-checkout", "set", "--sparse-index", "in"]);
    oracle.same_in("partial", &["switch", "-q", "--detach", "origin/without"]);
    let missing = |repo: &Repo<'_>| {
        let partial = ["-C", "partial", "rev-list", "--objects", "--all", "--missing=print"];
        let stdout = repo.git(&partial).stdout.to_string();
        let mut missing: Vec<String> =
            stdout.lines().filter(|line| line.starts_with('?')).map(str::to_owned).collect();
        missing.sort();
        missing
    };
    assert!(!missing(&oracle.ours()).is_empty());
    assert_eq!(missing(&oracle.git()), missing(&oracle.ours()));
}
