//! Sparse indexes: each program reads the other's index, and both write equal ones.

use std::{io::Write as _, path::Path, process::Stdio};

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Repo, Run, Sandbox};

use crate::{SAPWOOD, full, random::Random};

/// Creates directories inside and outside the cone, and branches that differ inside, outside, and
/// in the set of directories.
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

/// Creates the same history and makes the index sparse with Git.
fn sparse(repo: &Repo<'_>) {
    history(repo);
    repo.git(&["sparse-checkout", "set", "--sparse-index", "in", "way/in"]);
}

fn index(repo: &Repo<'_>) -> String {
    let of = |args: &[&str]| repo.git(&[&["--no-optional-locks"], args].concat()).stdout;
    let listed = of(&["ls-files", "--sparse", "--stage", "-t"]);
    format!("{listed}\n{}", of(&["status", "--porcelain=v2"]))
}

/// Runs a command on both sides, and compares the index bytes and Git's reading of them.
#[track_caller]
fn same(oracle: &Oracle, args: &[&str]) -> Run {
    let run = oracle.same(args);
    assert_eq!(index(&oracle.git()), index(&oracle.ours()), "{args:?}");
    run
}

/// Directories outside the cone are not read; their objects may even be missing.
#[test]
fn queries_within_the_cone_read_no_trees_outside() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        sparse(repo);
        repo.write("in/x", "two\n");
        repo.write("in/.gitattributes", "* text\n");
        repo.git(&["add", "in/.gitattributes"]);
    });
    // A tree that only this directory has. It is removed on sapwood's side only, because Git's
    // status reads it.
    let repo = oracle.ours();
    let tree = repo.git(&["rev-parse", "HEAD:out"]).stdout;
    let tree = tree.trim_ascii_end().to_str().expect("a name");
    repo.remove(format!(".git/objects/{}/{}", &tree[..2], &tree[2..]));
    for args in [
        &["status"][..],
        &["status", "--porcelain=v2", "-uno"],
        &["diff-files"],
        &["diff-index", "HEAD"],
        &["diff-index", "-r", "-t", "HEAD", "--", "in", "out"],
        &["diff-index", "--cached", "HEAD"],
        &["diff-index", "--cached", "-M", "within"],
        &["ls-files", "--sparse", "-s"],
        &["ls-files", "-o", "--", "in"],
        &["check-attr", "-a", "in/x"],
        &["check-attr", "--cached", "builtin_objectmode", "in/x", "out/"],
        &["update-index", "-q", "--refresh"],
        &["update-index", "in/x"],
    ] {
        let run = repo.run(SAPWOOD.as_ref(), args);
        assert_eq!(oracle.git().try_git(args), run, "{args:?}");
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
    }
    // Commands whose output includes that directory must read it.
    let run = repo.run(SAPWOOD.as_ref(), &["ls-files"]);
    assert_ne!(run.code, 0, "{run:?}");
}

/// Attributes outside the cone are found in the trees of collapsed directories.
#[test]
fn attributes_outside_the_cone() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["in/a.c", "out/a.c", "out/deep/a.c"] {
            repo.write(path, "1\n");
        }
        for (dir, name) in [("", "top"), ("in/", "in"), ("out/", "out"), ("out/deep/", "deep")] {
            repo.write(format!("{dir}.gitattributes"), format!("*.c {name}\n"));
        }
        repo.commit("first");
        repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    });
    let paths = ["in/a.c", "out/a.c", "out/deep/a.c", "out", "out/", "out/deep/nothing"];
    for (key, value) in [
        ("index.sparse", "true"),
        ("advice.sparseIndexExpanded", "false"),
        ("core.sparseCheckoutCone", "false"),
        ("core.sparseCheckout", "false"),
        ("index.sparse", "false"),
    ] {
        oracle.both(|repo| drop(repo.git(&["config", key, value])));
        for args in [&["-a"][..], &["--cached", "-a"], &["top", "out"], &["--source=HEAD", "-a"]] {
            oracle.same(&[&["check-attr"], args, &["--"], &paths].concat());
        }
        for path in paths {
            for args in [&["builtin_objectmode"][..], &["--cached", "builtin_objectmode", "deep"]] {
                oracle.same(&[&["check-attr"], args, &["--", path, path]].concat());
            }
        }
    }
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

/// Trees that a commit would write are written when entries are collapsed into them.
#[test]
fn collapses_staged_entries_outside_the_cone() {
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
fn files_outside_the_cone_expand_the_index() {
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

/// Commands that list files report that the index is expanded.
#[test]
fn a_file_replacing_a_collapsed_directory_keeps_the_index_sparse() {
    let sandbox = Sandbox::new();
    let made = sandbox.init("made");
    sparse(&made);
    let places: [&dyn Fn(&Repo<'_>); 4] = [
        &|repo| repo.write("out", "mine\n"),
        &|repo| repo.symlink("top", "out"),
        &|repo| repo.symlink("in", "out"),
        &|repo| repo.symlink("nowhere", "out"),
    ];
    for place in places {
        for args in [
            &["status"][..],
            &["status", "--porcelain=v2", "-uall"],
            &["ls-files", "--sparse", "-t", "-s"],
            &["ls-files", "-o"],
            &["diff-files"],
            &["diff-index", "HEAD"],
            &["switch", "without"],
            &["switch", "new"],
            &["reset", "--hard"],
            &["reset", "--hard", "without"],
            &["reset", "without"],
            &["checkout", "-f", "without"],
            &["restore", "."],
            &["read-tree", "-m", "-u", "without"],
            &["sparse-checkout", "add", "out"],
            &["sparse-checkout", "reapply"],
            &["sparse-checkout", "disable"],
        ] {
            let oracle = Oracle::copies_of(SAPWOOD, &made);
            oracle.both(place);
            same(&oracle, args);
        }
    }
}

#[test]
fn list_commands_hint_at_the_expansion() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        sparse(repo);
        repo.write("out/a/x", "mine\n");
    });
    for args in [
        &["diff-index", "HEAD"][..],
        &["diff-index", "--cached", "-M", "all"],
        &["diff-index", "all", "--", "in/x", "out/x"],
        &["diff-files"],
        &["diff-files", "--", "in"],
        &["ls-files", "in/x"],
        &["ls-files", "out/a/x"],
        &["ls-files", "--sparse", "-dm"],
        &["ls-files", "-o"],
        &["status", "-s"],
    ] {
        oracle.same(args);
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

/// In a clone without blobs, no blob outside the cone is fetched.
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

/// Trees of collapsed directories are not read, and may be missing.
#[test]
fn reads_no_trees_outside_the_cone() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    sparse(&repo);
    // Trees that only these directories have.
    let dirs = ["main:out", "without:out", "all:out"];
    let trees = repo.git(&[&["rev-parse"], &dirs[..]].concat()).stdout;
    let mut trees: Vec<&str> = trees.lines().map(|tree| tree.to_str().expect("a name")).collect();
    trees.sort_unstable();
    trees.dedup();
    for tree in trees {
        repo.remove(format!(".git/objects/{}/{}", &tree[..2], &tree[2..]));
    }
    for args in [
        &["switch", "-q", "within"][..],
        &["switch", "all"],
        &["checkout", "-q", "--detach", "main"],
        &["checkout", "-q", "-f", "without"],
        &["reset", "-q", "--hard", "within"],
        &["reset", "-q", "within"],
        &["reset", "-q", "--hard"],
        &["reset", "-q", "--keep", "main"],
        &["reset", "-q", "within", "--", "in"],
        &["restore", "--staged", "in"],
        &["restore", "--source=within", "--staged", "--worktree", "in", "top"],
        &["restore", "--source=main", "--staged", "--worktree", "."],
        &["checkout", "--", "in/x"],
        &["checkout", "within", "--", "in"],
        &["read-tree", "--reset", "-u", "main"],
        &["read-tree", "-m", "-u", "main", "all"],
        &["checkout-index", "-a"],
        &["clean", "-n", "-d"],
    ] {
        let run = repo.run(Path::new(SAPWOOD), args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    }
    let listed = repo.git(&["ls-files", "--sparse", "-t"]).stdout;
    assert!(listed.contains_str("S out/\n") && listed.contains_str("S way/out/\n"), "{listed}");
}

/// Returns the tree of the index's entries, without its cache-tree.
pub(crate) fn tree_of_entries(repo: &Repo<'_>) -> BString {
    let listed = repo.git(&["-c", "core.fsmonitor=false", "ls-files", "-s"]).stdout;
    let index = repo.join(".git/fresh-index");
    let fresh = |args: &[&str], input: &[u8]| {
        let mut command = repo.git_command();
        command.env("GIT_INDEX_FILE", &index).args(["-c", "core.splitIndex=false"]).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git starts");
        child.stdin.take().expect("a pipe").write_all(input).expect("git reads");
        let output = child.wait_with_output().expect("git ends");
        assert!(output.status.success(), "{args:?}");
        BString::from(output.stdout)
    };
    fresh(&["update-index", "--index-info"], &listed);
    let tree = fresh(&["write-tree"], b"");
    repo.remove(".git/fresh-index");
    tree
}

#[test]
fn random_walks_with_a_sparse_index() {
    const DIRECTORIES: [&str; 8] = ["in", "in/deep", "out", "out/a", "out/a/b", "else", "way", "way/out"];
    let history = |repo: &Repo<'_>| {
        let mut random = Random::new(11);
        DIRECTORIES.iter().for_each(|dir| repo.write(format!("{dir}/f"), "0\n"));
        repo.write("f", "0\n");
        repo.commit("b0");
        repo.git(&["branch", "b0"]);
        for number in 1..6 {
            let from = format!("b{}", random.below(number));
            repo.git(&["switch", "-q", "-c", &format!("b{number}"), &from]);
            for _ in 0..4 {
                let dir = DIRECTORIES[random.below(DIRECTORIES.len())];
                match random.below(4) {
                    0 if repo.exists(dir) => repo.remove(dir),
                    content => {
                        repo.write(format!("{dir}/{}", ["f", "g"][random.below(2)]), format!("{content}\n"))
                    }
                }
            }
            repo.git(&["add", "-A"]);
            repo.git(&["commit", "-q", "--allow-empty", "-m", "another"]);
        }
        repo.git(&["sparse-checkout", "set", "--sparse-index", "in", "way"]);
    };
    let oracle = Oracle::new(SAPWOOD, history);
    let mut random = Random::new(12);
    for _ in 0..if full() { 600 } else { 60 } {
        let branch = format!("b{}", random.below(6));
        // Removes staged and untracked files again, because this test does not cover a switch that
        // is blocked by them.
        let (args, stages): (&[&str], bool) = match random.below(12) {
            0..4 => (&["switch", &branch], false),
            4 => (&["checkout", "-q", "-f", &branch], false),
            5 => (&["checkout", "--detach", &branch], false),
            6 => (&["reset", "--hard", &branch], false),
            7 => (&["reset", "--keep", &branch], false),
            8 => (&["reset", "-q", &branch], true),
            9 => (&["restore", "--source", &branch, "-SW", "."], true),
            10 => (&["read-tree", "--reset", "-u", &branch], true),
            _ => (&["restore", "."], false),
        };
        same(&oracle, args);
        if stages {
            same(&oracle, &["reset", "-q", "--hard"]);
            same(&oracle, &["clean", "-q", "-f", "-d"]);
        }
        let ours = oracle.ours();
        assert_eq!(
            ours.git(&["write-tree"]).stdout,
            tree_of_entries(&ours),
            "{args:?}: an untrue cache-tree"
        );
    }
}

/// Collapsed directories in the output of the plumbing.
#[test]
fn differences_in_directories_that_are_one_entry() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["f", "in/f", "out/f", "out/a/f", "out/a/b/f", "out/gone/f", "way/f"] {
            repo.write(path, "1\n");
        }
        repo.commit("first");
        repo.write("out/f", "2\n");
        repo.write("out/a/b/f", "2\n");
        repo.write("out/new/deep/f", "2\n");
        repo.write("new/f", "1\n");
        repo.remove("out/gone");
        repo.remove("way");
        repo.write("in/f", "2\n");
        repo.commit("second");
        repo.git(&["sparse-checkout", "set", "--sparse-index", "in"]);
        // Paths that the index lacks, and a file in place of a directory.
        for path in ["none", "none/deep", "in/none", "way"] {
            repo.write(format!("{path}/a/b/f"), "1\n");
            repo.write(format!("{path}/f"), "1\n");
        }
        repo.git(&["add", "--sparse", "."]);
        repo.git(&["commit", "-q", "-m", "third"]);
        repo.git(&["sparse-checkout", "reapply"]);
        repo.git(&["rm", "-r", "-q", "--cached", "--sparse", "none", "in/none", "way", "out/a"]);
        repo.write("way", "1\n");
        repo.git(&["add", "--sparse", "way"]);
    });
    let outside = [
        &["none"][..],
        &["none/f"],
        &["none/"],
        &["none/*"],
        &["*f"],
        &["n*", ":!none/f"],
        &["way"],
        &["way/a"],
        &["way/a/b"],
        &["way/f", "out/f"],
        &["in/none/f"],
        &["out/a/b"],
        &["out"],
    ];
    for paths in outside {
        oracle.same(&[&["status", "--porcelain=v2", "--"], paths].concat());
        oracle.same(&[&["diff-index", "--cached", "HEAD", "--"], paths].concat());
        oracle.same(&[&["diff-index", "-t", "HEAD", "--"], paths].concat());
    }
    for tree in ["HEAD~2", "HEAD~1", "HEAD"] {
        for args in [
            &["--cached"][..],
            &[],
            &["--cached", "-r"],
            &["--cached", "-t"],
            &["-t", "-r"],
            &["-t", "-R", "--name-status"],
            &["-t", "--relative=none/a"],
            &["-t", "-M", "-m"],
            &["-M", "--cached", "-r"],
            &["-M", "--name-status"],
            &["-R", "-z"],
            &["-m", "--relative=out"],
        ] {
            oracle.same(&[&["diff-index"], args, &[tree]].concat());
        }
        for paths in [&["out"][..], &["out/a"], &["out/"], &["o*"], &["in", ":!out"], &["new", "f"]] {
            oracle.same(&[&["diff-index", "--cached", tree, "--"], paths].concat());
        }
    }
}
