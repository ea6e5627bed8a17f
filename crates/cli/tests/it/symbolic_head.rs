//! A HEAD whose branch is symbolic or unborn: every ref on the way gets its reflog line.

use crate::scripted::Scripted;

/// Prints HEAD's chain and all reflogs.
const SHOW: &str = "git symbolic-ref -q HEAD; for f in $(cd .git/logs && find . -type f | sort); do
    echo $f; cut -f2- .git/logs/$f; cut -d' ' -f1,2 .git/logs/$f; done";

#[test]
fn a_branch_that_was_unborn_keeps_its_reflog() {
    for line in [
        "git checkout -q -B main origin/main",
        "git checkout -q -b main origin/main",
        "git switch -q -c main origin/main",
        "git switch -q -C main origin/main",
        "git switch -q -c new origin/main",
        "git switch -q --detach origin/main",
        "git checkout -q origin/main",
        "git pull -q --ff-only origin main",
        "git pull -q origin main",
        "git symbolic-ref HEAD refs/heads/s; git symbolic-ref refs/heads/s refs/heads/a;
            git checkout -q -b a origin/main",
        "git symbolic-ref HEAD refs/heads/s; git symbolic-ref refs/heads/s refs/heads/a;
            git checkout -q -b s origin/main",
        "git symbolic-ref HEAD refs/heads/s; git symbolic-ref refs/heads/s refs/heads/a;
            git switch -q -c new origin/main",
        "git symbolic-ref HEAD refs/heads/s; git symbolic-ref refs/heads/s refs/heads/a;
            echo 1 >f; git add f; git commit -q -m first",
        "git symbolic-ref HEAD refs/heads/s; git symbolic-ref refs/heads/s refs/heads/a;
            git pull -q --ff-only origin main",
    ] {
        let both = Scripted::new(
            "git init -q -b main ../source && cd ../source && echo 1 >f && git add f && git commit -q -m one &&
             cd - && git remote add origin ../source && git fetch -q",
        );
        both.same(&format!("{line} 2>&1; echo $?; {SHOW}"));
    }
}

#[test]
fn every_ref_of_a_chain_is_logged() {
    for line in [
        "git commit -q --allow-empty -m next",
        "git commit -q --allow-empty --amend -m other",
        "git reset -q --soft HEAD~1",
        "git reset -q --hard HEAD~1",
        "git checkout -q -B a HEAD~1",
        "git switch -q -C s HEAD~1",
        "git switch -q -c new",
        "git switch -q --detach",
        "git switch -q main",
        "git pull -q --ff-only . main",
        "git stash -q",
        "git update-ref HEAD HEAD~1",
        "git update-ref refs/heads/a HEAD~1",
        "git worktree add -q ../tree HEAD 2>&1",
    ] {
        let both = Scripted::new(
            "echo 1 >f && git add f && git commit -q -m one && git commit -q --allow-empty -m two &&
             git branch a && git commit -q --allow-empty -m three &&
             git symbolic-ref refs/heads/s refs/heads/a && git symbolic-ref HEAD refs/heads/s && git reset -q --hard &&
             echo 2 >f",
        );
        both.same(&format!("{line} 2>&1; echo $?; {SHOW}"));
    }
}
