//! `add` in sparse checkouts, and with all forms of the index.

use testkit::{Oracle, Repo};

use super::{each, mixture};
use crate::SAPWOOD;

/// Creates a sparse checkout with an untracked file outside the cone.
fn sparse(repo: &Repo<'_>) {
    for path in ["in/a", "in/b", "out/a", "out/deep/b", "top"] {
        repo.write(path, "1\n");
    }
    repo.commit("first");
    repo.git(&["sparse-checkout", "set", "in"]);
    repo.write("in/a", "changed\n");
    repo.write("in/new", "1\n");
}

fn sparse_with_files(repo: &Repo<'_>) {
    sparse(repo);
    repo.write("out/new", "1\n");
    repo.write("out/a", "changed\n");
}

fn sparse_index(repo: &Repo<'_>) {
    sparse(repo);
    repo.git(&["config", "index.sparse", "true"]);
    repo.git(&["sparse-checkout", "reapply"]);
}

#[test]
fn respects_a_sparse_checkout() {
    let cases: &[&[&str]] = &[
        &["."],
        &["-A"],
        &["-u"],
        &["out"],
        &["out/a"],
        &["out/new"],
        &["--sparse", "out/new"],
        &["--sparse", "."],
        &["--sparse", "out/a"],
        &["in", "out/*"],
        &["--chmod=+x", "out/a", "in/a"],
        &["--refresh", "out/a"],
        &["--refresh", "in"],
        &["--renormalize", "."],
        &["-n", "out", "in/new"],
        &["nowhere", "out/a"],
    ];
    each(sparse, "", cases);
    each(sparse_with_files, "", cases);
    each(sparse_index, "", cases);
}

#[test]
fn keeps_the_form_of_the_index() {
    for settings in [
        &[("core.untrackedCache", "true")][..],
        &[("index.version", "4")],
        &[("index.skipHash", "true")],
        &[("core.fileMode", "false")],
        &[("core.symlinks", "false")],
        &[("core.ignoreStat", "true")],
    ] {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            mixture(repo);
            for (name, value) in settings {
                repo.git(&["config", name, value]);
            }
            // Git compares whole seconds. Otherwise the files of one copy may be racy, if the other
            // copy is made while a second ends.
            repo.git(&["-c", "alias.age=!find . -name .git -prune -o -type f -exec touch -d @1 {} +", "age"]);
            repo.git(&["status"]);
        });
        oracle.outlast_files();
        for args in [&["add", "-v", "dir"][..], &["add", "-N", "new"], &["add", "-v", "."], &["add", "-A"]] {
            oracle.same_as(&format!("{settings:?}"), args);
        }
        oracle.ours().git(&["fsck", "--no-dangling"]);
        let trees = [oracle.git(), oracle.ours()].map(|repo| repo.git(&["write-tree"]).stdout);
        assert_eq!(trees[0], trees[1], "{settings:?}");
    }
}

#[test]
fn finds_the_same_files_with_an_untracked_cache() {
    for directories in [3, 60] {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            mixture(repo);
            repo.git(&["config", "core.untrackedCache", "true"]);
            for number in 0..directories {
                repo.write(format!("u{number}/a"), "1\n");
                repo.write(format!("u{number}/b/c"), "1\n");
                repo.write(format!("u{number}/x.o"), "1\n");
            }
            repo.write("only-ignored/x.o", "1\n");
            repo.git(&["init", "-q", "holder/nested"]);
            repo.write("holder/nested/f", "1\n");
            repo.git(&["-C", "holder/nested", "add", "f"]);
            repo.git(&["-C", "holder/nested", "commit", "-q", "-m", "one"]);
            repo.git(&["status"]);
        });
        oracle.same(&["add", "-n", "."]);
        oracle.same(&["add", "-v", "-A"]);
        oracle.same(&["status", "--porcelain"]);
        oracle.both(|repo| repo.write("u1/late", "1\n"));
        oracle.same(&["add", "-v", "."]);
        oracle.same(&["status", "--porcelain"]);
    }
}
