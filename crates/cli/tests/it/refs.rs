//! Names of refs that are broken, lead nowhere, or are something else: what commands say of them.

use std::fs;

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["branch", "packed"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    for name in ["broken", "packed"] {
        fs::write(repo.join(format!(".git/refs/heads/{name}")), "").expect("written");
    }
}

#[test]
fn broken_and_dangling_ones_are_passed_over() {
    let oracle = Oracle::new(SAPWOOD, setup);
    for name in ["broken", "packed", "dangling", "config", "COMMIT_EDITMSG", "objects", "refs"] {
        for command in [&["checkout"][..], &["switch"], &["switch", "-c", "new"], &["reset", "--hard"]] {
            oracle.same(&[command, &[name]].concat());
        }
    }
    oracle.both(|repo| repo.write("broken", "a file\n"));
    oracle.both(|repo| drop(repo.git(&["add", "broken"])));
    oracle.both(|repo| repo.write("broken", "changed\n"));
    oracle.same(&["checkout", "broken"]);
}

#[test]
fn what_is_left_behind_is_not_known_where_a_ref_is_broken() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        repo.git(&["checkout", "-q", "--detach"]);
        repo.git(&["commit", "-q", "--allow-empty", "-m", "nobody's"]);
    });
    oracle.same(&["checkout", "main"]);
}

/// `main` leads to `trunk`, as when a branch was renamed and its old name is to be understood still.
fn aliased(repo: &Repo<'_>) {
    for number in 0..3 {
        repo.write("f", format!("{number}\n"));
        repo.commit("more");
    }
    repo.git(&["branch", "side", "HEAD~1"]);
    repo.git(&["branch", "-m", "main", "trunk"]);
    repo.git(&["symbolic-ref", "refs/heads/main", "refs/heads/trunk"]);
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    repo.git(&["config", "branch.trunk.remote", "."]);
    repo.git(&["config", "branch.trunk.merge", "refs/heads/side"]);
}

#[test]
fn a_symbolic_branch_is_the_one_it_leads_to() {
    for steps in [
        &[&["status"][..], &["status", "-sb"], &["status", "--porcelain=v2", "--branch"]][..],
        &[&["reset", "--hard", "HEAD~1"], &["reset", "--soft", "trunk@{1}"], &["reset", "--mixed", "side"]],
        &[&["switch", "side"], &["switch", "-"]],
        &[&["checkout", "-b", "new"], &["checkout", "main"]],
        &[&["checkout", "--detach"], &["checkout", "-"], &["checkout", "@{u}"]],
        &[&["switch", "main"], &["switch", "trunk"]],
        &[&["checkout", "-B", "main", "side"]],
        &[&["checkout", "-B", "trunk", "side"]],
        &[&["switch", "side"], &["switch", "-C", "main", "side"]],
        &[&["worktree", "list"], &["worktree", "add", "-q", "--no-checkout", "w", "trunk"]],
    ] {
        let oracle = Oracle::new(SAPWOOD, aliased);
        steps.iter().for_each(|args| drop(oracle.same(args)));
    }
}
