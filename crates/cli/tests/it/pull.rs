//! `pull` compared with Git: worktree, index, refs, reflogs, FETCH_HEAD, messages and exit codes.
//!
//! Each copy of the repository has its own server in a directory next to it.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates the server, clones it, and adds commits on the server.
const HISTORY: &str = "
git init -q --initial-branch=main ../server
(
    cd ../server
    mkdir dir
    seq 40 >file; seq 30 >moved; echo x >gone; echo y >dir/same; printf 'a\\0b' >binary
    git add .; git commit -qm 1
    git branch other
)
git remote add origin ../server
git fetch -q
git switch -q -c main --track origin/main
(
    cd ../server
    seq 2 40 >file; echo 41 >>file; git mv moved dir/moved; git rm -q gone
    printf 'a\\0bc' >binary; echo new >new; chmod +x new; ln -s new link; chmod +x dir/same
    git add .; git commit -qm 2
)
";

/// Adds a local commit.
const OURS: &str = "echo ours >ours; git add ours; git commit -qm ours;";

#[track_caller]
fn same(script: &str, args: &[&str]) {
    same_in("", script, args);
}

#[track_caller]
fn same_in(dir: &str, script: &str, args: &[&str]) {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        let script = [HISTORY, script].concat();
        let made = repo.command("sh".as_ref()).args(["-ec", &script]).output().expect("a shell");
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
    });
    match dir {
        "" => oracle.same_as(script, args),
        dir => oracle.same_in(dir, args),
    };
    let read = |repo: Repo<'_>| std::fs::read(repo.join(".git/FETCH_HEAD")).ok();
    assert_eq!(read(oracle.git()), read(oracle.ours()), "{script} {args:?}: FETCH_HEAD");
}

#[test]
fn fast_forwards() {
    for args in [
        &["pull"][..],
        &["pull", "-q"],
        &["pull", "-n"],
        &["pull", "--compact-summary", "--ff-only"],
        &["pull", "--rebase", "origin", "main"],
        &["pull", "--dry-run"],
        &["-c", "merge.stat=compact", "-c", "pull.rebase=true", "pull"],
        &["-c", "pull.ff=only", "pull", "../server", "main"],
        &["-c", "core.quotePath=false", "pull", "--no-edit", "--log", "origin"],
    ] {
        same("", args);
    }
    same("git pull -q", &["pull"]);
    same(
        "git switch -q -c side --no-track; git fetch -q; git branch -f main origin/main",
        &["pull", ".", "main"],
    );
    same("git pull -q", &["pull", "--rebase"]);
    same(OURS, &["-c", "pull.rebase=false", "pull", "origin", "other"]);
    same_in("dir", "", &["pull", "../server", "main"]);
    same("git switch -q --detach", &["pull", "origin", "main"]);
    same("git switch -q --orphan void; git update-ref -d refs/heads/main", &["pull", "origin", "main"]);
}

#[test]
fn runs_the_hook_and_keeps_to_git_where_more_is_asked() {
    let hook = "mkdir -p .git/hooks; printf '#!/bin/sh\\necho hook $* $GIT_REFLOG_ACTION >&2\\n' \
                >.git/hooks/post-merge; chmod +x .git/hooks/post-merge";
    same(hook, &["pull", "--stat"]);
    same("", &["pull", "--no-ff", "--no-edit"]);
    same("", &["pull", "--squash"]);
    same("echo changed >dir/same", &["pull", "--autostash"]);
    same(OURS, &["pull", "--no-rebase", "--no-edit"]);
    same(OURS, &["pull", "--rebase"]);
    same("", &["pull", "--no-ff", "origin", "main", "other"]);
}

#[test]
fn refuses_as_git_does() {
    for (script, args) in [
        (OURS, &["pull"][..]),
        (OURS, &["pull", "--ff-only"]),
        ("echo mine >file", &["pull"]),
        ("echo mine >new; echo mine >link", &["pull"]),
        ("echo mine >file", &["pull", "--rebase"]),
        ("echo mine >file; git add file; echo more >>file", &["-c", "pull.rebase=true", "pull"]),
        ("touch .git/MERGE_HEAD", &["pull"]),
        ("", &["pull", "origin", "nosuch"]),
        ("", &["pull", "nosuch"]),
        ("", &["pull", "origin", "refs/heads/z*:refs/heads/z*"]),
        ("", &["pull", "--rebase=what"]),
        ("", &["pull", "--cleanup=what"]),
        ("git config pull.ff what", &["pull"]),
        ("git config pull.rebase what", &["pull"]),
        ("git remote add two ../server", &["pull", "two"]),
        ("git switch -q --detach", &["pull"]),
        ("git switch -q -c lone --no-track", &["pull"]),
        ("git switch -q -c lone --no-track", &["pull", "--rebase"]),
        ("git config branch.main.merge refs/heads/nosuch", &["pull"]),
        ("git remote add two ../server", &["pull", "--all", "--ff-only"]),
        ("", &["pull", "--ff-only", "origin", "main", "other"]),
        ("", &["pull", "--rebase", "origin", "main", "other"]),
        ("git switch -q --orphan void; echo mine >file; git add file", &["pull", "origin", "main"]),
    ] {
        same(script, args);
    }
}

#[test]
fn files_follow_a_branch_that_the_fetch_moves() {
    same("", &["pull", "origin", "main:main"]);
    same("echo mine >file", &["pull", "origin", "main:main"]);
}
