//! Tests of `mv` against Git: the index, the worktree, the output and the exit code.

use std::{fs, os::unix::fs::symlink};

use testkit::{Oracle, Repo, Sandbox};

use crate::shim::Shim;

/// Creates tracked and untracked files and directories, some of them changed or staged.
fn mixture(repo: &Repo<'_>) {
    for path in ["a", "b", "changed", "dir/x", "dir/deep/z", "other/y", "exec"] {
        repo.write(path, format!("{path}\n"));
    }
    symlink("a", repo.join("link")).expect("a link");
    repo.commit("first");
    repo.write("changed", "other\n");
    repo.write("dir/untracked", "1\n");
    repo.write("untracked", "1\n");
    repo.write("new", "1\n");
    repo.git(&["add", "new"]);
    repo.write("intended", "1\n");
    repo.git(&["add", "-N", "intended"]);
    fs::create_dir(repo.join("empty")).expect("a new directory");
}

/// Runs each line natively in a separate repository, and compares it with Git's run.
#[track_caller]
fn each(setup: impl Fn(&Repo<'_>) + Copy, dir: &str, cases: &[&[&str]]) {
    for case in cases {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), setup);
        let args = [&["mv"], *case].concat();
        oracle.same_in(dir, &args);
        shim.was_native(&args);
        let trees = [oracle.git(), oracle.ours()].map(|repo| repo.try_git(&["write-tree"]).stdout);
        assert_eq!(trees[0], trees[1], "{args:?}");
    }
}

#[test]
fn moves_the_same_files() {
    each(
        mixture,
        "",
        &[
            &["a", "c"],
            &["-v", "a", "c"],
            &["-n", "a", "c"],
            &["-nv", "a", "c"],
            &["a", "dir"],
            &["a", "dir/"],
            &["a", "b", "dir"],
            &["-v", "a", "dir/deep", "other"],
            &["dir", "renamed"],
            &["-v", "dir", "renamed"],
            &["-n", "dir", "renamed"],
            &["dir/", "renamed/"],
            &["dir", "other"],
            &["dir/deep", "."],
            &["dir/x", "."],
            &["changed", "moved"],
            &["new", "moved"],
            &["intended", "moved"],
            &["link", "moved"],
            &["-f", "a", "b"],
            &["-fv", "a", "b"],
            &["-f", "a", "untracked"],
            &["-f", "link", "a"],
            &["-f", "dir/x", "changed"],
            &["a", "./dir/../c"],
            &["--no-force", "a", "c"],
        ],
    );
}

#[test]
fn refuses_the_same_moves() {
    each(
        mixture,
        "",
        &[
            &[],
            &["a"],
            &["nowhere", "c"],
            &["a", "b"],
            &["a", "a"],
            &["dir", "dir"],
            &["dir", "dir/inside"],
            &["dir", "a"],
            &["-f", "dir", "a"],
            &["a", "nowhere/"],
            &["a", "nowhere/c"],
            &["a", "b", "nowhere"],
            &["a", "b", "changed"],
            &["untracked", "c"],
            &["empty", "c"],
            &["dir", "dir/x", "other"],
            &["a", "dir/x", "nowhere", "other"],
            &["dir/x", "../outside"],
            &["-f", "a", "empty"],
            &["a", "dir/deep/z/below"],
            &["a", "untracked"],
        ],
    );
}

#[test]
fn skips_errors() {
    each(
        mixture,
        "",
        &[
            &["-k", "nowhere", "a", "dir"],
            &["-k", "untracked", "a", "other"],
            &["-kv", "a", "b", "empty", "dir"],
            &["-kn", "a", "nowhere", "dir"],
            &["-k", "a", "b"],
            &["-k", "nowhere", "c"],
            &["-kf", "dir", "a"],
        ],
    );
}

#[test]
fn works_in_a_subdirectory() {
    each(
        mixture,
        "dir",
        &[
            &["x", "y"],
            &["x", ".."],
            &["../a", "."],
            &["deep", "../other"],
            &["x", "../../outside"],
            &[".", "../e"],
        ],
    );
}

#[test]
fn replaces_entries_that_are_in_the_way() {
    // The directory is missing, but its entries exist.
    let setup = |repo: &Repo<'_>| {
        mixture(repo);
        fs::remove_dir_all(repo.join("other")).expect("it is there");
        fs::remove_file(repo.join("b")).expect("it is there");
    };
    each(setup, "", &[&["a", "other"], &["dir", "other"], &["a", "b"], &["dir", "b"]]);
}

#[test]
fn refuses_unmerged_files() {
    let setup = |repo: &Repo<'_>| {
        repo.write("f", "base\n");
        repo.commit("base");
        repo.git(&["checkout", "-q", "-b", "side"]);
        repo.write("f", "side\n");
        repo.commit("side");
        repo.git(&["checkout", "-q", "main"]);
        repo.write("f", "main\n");
        repo.commit("main");
        repo.try_git(&["merge", "-q", "side"]);
    };
    each(setup, "", &[&["f", "g"], &["-k", "f", "g"]]);
}

#[test]
fn keeps_stat_data_so_that_nothing_is_read_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    mixture(&repo);
    let shim = Shim::new();
    assert_eq!(shim.run(&repo, &["mv", "dir", "moved"]).code, 0);
    assert_eq!(shim.run(&repo, &["mv", "a", "c"]).code, 0);
    let changed = repo.git(&["diff-files", "--name-only"]).stdout;
    assert_eq!(changed, "changed\nintended\n");
}

#[test]
fn leaves_submodules_and_sparse_checkouts_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.write("dir/b", "1\n");
    repo.commit("first");
    repo.git(&["init", "-q", "sub"]);
    repo.write("sub/file", "1\n");
    repo.git(&["-C", "sub", "add", "file"]);
    repo.git(&["-C", "sub", "commit", "-q", "-m", "one"]);
    repo.git(&["add", "sub"]);
    let shim = Shim::new();
    let was_handed_over = |args: &[&str]| {
        let run = shim.run(&repo, args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        let log = shim.log();
        assert!(log.last().is_some_and(|line| line.contains("handed-over")), "{args:?}: {log:?}");
    };
    was_handed_over(&["mv", "sub", "moved"]);
    repo.git(&["sparse-checkout", "set", "dir"]);
    shim.log();
    let run = shim.run(&repo, &["mv", "a", "outside/c"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let log = shim.log();
    assert!(log.last().is_some_and(|line| line.contains("handed-over")), "{log:?}");
    assert_eq!(shim.run(&repo, &["mv", "dir/b", "dir/c"]).code, 0);
    shim.was_native(&["mv"]);
}

/// A usage names the program that the user called.
#[test]
fn the_usage_names_the_program() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for (program, name) in [(shim.program(), "git"), (crate::SAPWOOD.to_owned(), "sapwood")] {
        let run = repo.run(program.as_ref(), &["mv"]);
        let lines = format!("usage: {name} mv [-v] [-f] [-n] [-k] <source> <destination>\n   or: {name} mv ");
        assert!(run.code == 129 && run.stderr.to_string().starts_with(&lines), "{}", run.stderr);
    }
}
