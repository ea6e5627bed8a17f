//! Tests of `rm` against Git: the index, the worktree, the output and the exit code.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use testkit::{Oracle, Repo, Sandbox};

use crate::shim::Shim;

/// Creates files that are committed, changed, staged, both, intent-to-add, deleted, and unmerged.
fn mixture(repo: &Repo<'_>) {
    for path in ["a", "b", "changed", "staged", "both", "gone", "dir/x", "dir/y", "dir/deep/z", "alone/only"]
    {
        repo.write(path, format!("{path}\n"));
    }
    symlink("a", repo.join("link")).expect("a link");
    repo.commit("first");
    for path in ["changed", "dir/y"] {
        repo.write(path, "changed\n");
    }
    for path in ["staged", "both", "new"] {
        repo.write(path, "staged\n");
        repo.git(&["add", path]);
    }
    repo.write("both", "changed again\n");
    repo.write("intended", "1\n");
    repo.git(&["add", "-N", "intended"]);
    fs::remove_file(repo.join("gone")).expect("it is there");
    repo.write("untracked", "1\n");
    repo.write("dir/untracked", "1\n");
}

/// Runs each line natively in a separate repository, and compares it with Git's run.
#[track_caller]
fn each(setup: impl Fn(&Repo<'_>) + Copy, dir: &str, cases: &[&[&str]]) {
    for case in cases {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), setup);
        let args = [&["rm"], *case].concat();
        oracle.same_in(dir, &args);
        shim.was_native(&args);
        oracle.ours().git(&["fsck", "--no-dangling"]);
    }
}

#[test]
fn removes_the_same_files() {
    each(
        mixture,
        "",
        &[
            &["a"],
            &["a", "b"],
            &["-q", "a"],
            &["-n", "a"],
            &["--cached", "a"],
            &["-r", "alone"],
            &["-r", "dir/deep"],
            &["alone/only"],
            &["gone"],
            &["link"],
            &["-rf", "dir"],
            &["-rf", "."],
            &["-r", "--cached", "."],
            &["-rfn", "."],
            &["-f", "changed", "staged", "both", "new", "intended"],
            &["-f", "dir/*"],
            &["--ignore-unmatch", "nowhere"],
            &["--ignore-unmatch", "nowhere", "a"],
            &["-r", ":(glob)**/z"],
            &["-rf", ".", ":!dir"],
            &["a", "a"],
        ],
    );
}

#[test]
fn keeps_what_would_be_lost() {
    each(
        mixture,
        "",
        &[
            &["changed"],
            &["staged"],
            &["both"],
            &["new"],
            &["intended"],
            &["changed", "staged", "both", "new", "dir/y"],
            &["a", "changed"],
            &["--cached", "changed"],
            &["--cached", "staged"],
            &["--cached", "both"],
            &["--cached", "new"],
            &["--cached", "intended"],
            &["-r", "dir"],
            &["-n", "changed"],
            &["-r", "."],
        ],
    );
    let unadvised = |repo: &Repo<'_>| {
        mixture(repo);
        repo.git(&["config", "advice.rmHints", "false"]);
    };
    each(unadvised, "", &[&["changed"], &["both", "staged"]]);
}

#[test]
fn refuses_what_makes_no_sense() {
    each(
        mixture,
        "",
        &[
            &[],
            &["nowhere"],
            &["a", "nowhere"],
            &["untracked"],
            &["dir"],
            &["."],
            &["dir/"],
            &["--pathspec-file-nul", "a"],
            &["--pathspec-from-file=missing"],
            &["../outside"],
            &[""],
        ],
    );
    each(mixture, "dir", &[&[], &["x"], &["-r", "."], &["-f", "y", "../a"], &["-rf", "."]]);
}

#[test]
fn reads_pathspecs_from_a_file() {
    let setup = |repo: &Repo<'_>| {
        mixture(repo);
        repo.write("list", "a\n\"dir/x\"\n");
        repo.write("nul", "a\0b\0");
    };
    each(
        setup,
        "",
        &[
            &["--pathspec-from-file=list"],
            &["--pathspec-from-file=nul", "--pathspec-file-nul"],
            &["--pathspec-from-file=list", "b"],
        ],
    );
}

#[test]
fn removes_unmerged_paths() {
    let setup = |repo: &Repo<'_>| {
        repo.write("dir/f", "base\n");
        repo.write("g", "base\n");
        repo.commit("base");
        repo.git(&["checkout", "-q", "-b", "side"]);
        repo.write("dir/f", "side\n");
        repo.commit("side");
        repo.git(&["checkout", "-q", "main"]);
        repo.write("dir/f", "main\n");
        repo.commit("main");
        repo.try_git(&["merge", "-q", "side"]);
    };
    each(setup, "", &[&["dir/f"], &["-r", "dir"], &["--cached", "dir/f"], &["-n", "dir/f"], &["-r", "."]]);
}

#[test]
fn works_before_the_first_commit() {
    let setup = |repo: &Repo<'_>| {
        repo.write("a", "1\n");
        repo.git(&["add", "a"]);
    };
    each(setup, "", &[&["a"], &["--cached", "a"], &["-f", "a"]]);
}

#[test]
fn does_not_follow_links() {
    let setup = |repo: &Repo<'_>| {
        repo.write("d/f", "1\n");
        repo.commit("first");
        fs::rename(repo.join("d"), repo.join("e")).expect("it is there");
        symlink("e", repo.join("d")).expect("a link");
    };
    for args in [&["rm", "d/f"][..], &["rm", "-f", "d/f"], &["rm", "-r", "d"]] {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), setup);
        // Git removes the file through the link; sapwood keeps it.
        oracle.same_answer_in("", "", args);
        shim.was_native(args);
        assert!(oracle.ours().join("e/f").exists(), "{args:?}");
    }
    // A directory in place of the file.
    let setup = |repo: &Repo<'_>| {
        repo.write("d", "1\n");
        repo.write("x", "1\n");
        repo.commit("first");
        fs::remove_file(repo.join("d")).expect("it is there");
        repo.write("d/inside", "precious\n");
    };
    each(setup, "", &[&["d"], &["--cached", "d"], &["-f", "x", "d"]]);
}

#[test]
fn names_the_file_that_cannot_be_removed() {
    let setup = |repo: &Repo<'_>| {
        repo.write("locked/a", "1\n");
        repo.write("locked/b", "1\n");
        repo.write("free", "1\n");
        repo.commit("first");
    };
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let chmod = |mode| {
        oracle.both(|repo| {
            let mode = fs::Permissions::from_mode(mode);
            // As root, the command has removed the directory.
            let _ = fs::set_permissions(repo.join("locked"), mode);
        });
    };
    // Root ignores these permissions, so as root the test checks less.
    chmod(0o555);
    oracle.same(&["rm", "locked/a"]);
    oracle.same(&["rm", "free", "locked/b"]);
    chmod(0o755);
}

#[test]
fn respects_a_sparse_checkout() {
    let setup = |repo: &Repo<'_>| {
        for path in ["in/a", "out/a", "out/deep/b", "top"] {
            repo.write(path, "1\n");
        }
        repo.commit("first");
        repo.git(&["sparse-checkout", "set", "in"]);
    };
    let cases: &[&[&str]] = &[
        &["in/a"],
        &["out/a"],
        &["-r", "out"],
        &["--sparse", "out/a"],
        &["-r", "in", "out"],
        &["-r", "."],
        &["-r", "*"],
        &["nowhere"],
        &["--cached", "out/a"],
    ];
    each(setup, "", cases);
    let sparse = |repo: &Repo<'_>| {
        setup(repo);
        repo.git(&["config", "index.sparse", "true"]);
        repo.git(&["sparse-checkout", "reapply"]);
    };
    each(sparse, "", &[&["in/a"], &["out/a"], &["-r", "out"], &["-r", "."], &["nowhere"]]);
}

#[test]
fn leaves_submodules_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("first");
    repo.git(&["init", "-q", "sub"]);
    repo.write("sub/file", "1\n");
    repo.git(&["-C", "sub", "add", "file"]);
    repo.git(&["-C", "sub", "commit", "-q", "-m", "one"]);
    repo.git(&["add", "sub"]);
    repo.git(&["commit", "-q", "-m", "submodule"]);
    repo.write("sub/untracked", "precious\n");
    let shim = Shim::new();
    let run = shim.run(&repo, &["rm", "sub"]);
    assert_ne!(run.code, 0, "{}", run.stderr);
    assert!(repo.join("sub/untracked").exists());
    let log = shim.log();
    assert!(log.last().is_some_and(|line| line.contains("handed-over")), "{log:?}");
}

/// A file that changes after its comparison stays: the filter of the second file changes the first
/// one.
#[test]
fn keeps_a_file_that_changes_during_the_check() {
    let setup = |repo: &Repo<'_>| {
        repo.write("a", "1\n");
        repo.write("f", "1\n");
        repo.write(".gitattributes", "f filter=change\n");
        repo.commit("first");
        repo.git(&["config", "filter.change.clean", "echo more >>a; cat"]);
        repo.write("f", "1\n");
    };
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let args = ["rm", "a", "f"];
    let refused = oracle.ours().run(shim.program().as_ref(), &args);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    shim.was_native(&args);
    for path in ["a", "f"] {
        assert!(oracle.ours().join(path).exists(), "{path} was removed");
    }
}
