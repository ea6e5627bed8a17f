//! Missing alternates: sapwood does not treat such a repository as empty, and prints Git's message.

use std::fs;

use testkit::{Oracle, Repo};

use crate::{SAPWOOD, switch::two_branches};

/// Moves all objects to an object directory outside the repository, as in a shared clone.
fn shared(repo: &Repo<'_>) {
    two_branches(repo);
    let objects = repo.join(".git/objects");
    fs::rename(&objects, repo.join("../store")).expect("the objects move");
    fs::create_dir_all(objects.join("info")).expect("a directory");
    fs::create_dir_all(objects.join("pack")).expect("a directory");
    repo.write(".git/objects/info/alternates", "../../../store\n");
}

fn without_its_alternate() -> Oracle {
    let oracle = Oracle::new(SAPWOOD, shared);
    oracle.both(|repo| fs::rename(repo.join("../store"), repo.join("../gone")).expect("it moves"));
    oracle
}

/// A branch whose commit is missing is not an unborn branch: HEAD, its reflog and the branch stay.
#[test]
fn does_not_treat_a_branch_with_a_missing_commit_as_unborn() {
    for args in [
        &["switch", "-c", "new"][..],
        &["switch", "-C", "new"],
        &["checkout", "-b", "new"],
        &["checkout", "-B", "new"],
        &["checkout", "--orphan", "new"],
        &["checkout", "-f"],
        &["checkout", "--detach"],
        &["switch", "topic"],
        &["checkout", "-f", "topic"],
        &["checkout", "-b", "new", "HEAD"],
        &["reset"],
        &["reset", "--hard"],
        &["reset", "--soft", "HEAD"],
        &["checkout", "HEAD", "--", "a"],
        &["restore", "a"],
        &["restore", "--staged", "a"],
        &["restore", "--source=HEAD", "a"],
        &["worktree", "add", "../linked"],
        &["worktree", "add", "-b", "new", "../linked"],
        &["status"],
        &["status", "-sb"],
        &["read-tree", "HEAD"],
        &["read-tree", "-m", "-u", "HEAD"],
        &["diff-index", "HEAD"],
        &["ls-files", "--with-tree=HEAD"],
    ] {
        without_its_alternate().same(args);
    }
}

/// An upstream whose commit is missing is reported as gone, and the command succeeds.
#[test]
fn reports_an_upstream_with_a_missing_commit_as_gone() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["branch", "-q", "--set-upstream-to", "topic"]);
        let commit = repo.git(&["rev-parse", "topic"]).stdout.to_string();
        let (dir, file) = commit.trim().split_at(2);
        fs::remove_file(repo.join(format!(".git/objects/{dir}/{file}"))).expect("a loose object");
    });
    for args in [
        &["status"][..],
        &["status", "-sb"],
        &["status", "--porcelain=v2", "--branch"],
        &["checkout"],
        &["switch", "-c", "new"],
        &["switch", "main"],
    ] {
        assert_eq!(oracle.same(args).code, 0, "{args:?}");
    }
}

/// HEAD can move from a branch whose commit is missing to a branch whose commit exists. The first
/// branch keeps its reflog.
#[test]
fn keeps_the_reflog_of_a_branch_with_a_missing_commit() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        let commit = repo.git(&["rev-parse", "HEAD"]).stdout.to_string();
        let (dir, file) = commit.trim().split_at(2);
        fs::remove_file(repo.join(format!(".git/objects/{dir}/{file}"))).expect("a loose object");
        repo.git(&["read-tree", "--empty"]);
        repo.remove("a");
        repo.remove("new");
        repo.remove("dir");
    });
    oracle.same(&["switch", "topic"]);
    assert!(oracle.ours().exists(".git/logs/refs/heads/main"));
}
