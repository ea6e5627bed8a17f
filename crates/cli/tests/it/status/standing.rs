//! The state of HEAD, conflicts and operations in progress.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::Oracle;

use super::each;
use crate::{SAPWOOD, index_info};

#[test]
fn branches_and_what_they_follow() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for number in 0..4 {
            repo.write("file", format!("{number}\n"));
            repo.commit("more");
        }
        for (remote, at) in [("same", "main"), ("ahead", "main~2"), ("gone", "main")] {
            repo.git(&["update-ref", &format!("refs/remotes/origin/{remote}"), at]);
        }
        let tree = repo.git(&["commit-tree", "-p", "main~1", "-m", "side", "main^{tree}"]).stdout;
        repo.git(&["update-ref", "refs/remotes/origin/apart", tree.to_string().trim()]);
        repo.git(&["config", "remote.origin.url", "nowhere"]);
        repo.git(&["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
        for (branch, at, remote) in [
            ("same", "main", "same"),
            ("ahead", "main", "ahead"),
            ("behind", "main~3", "ahead"),
            ("apart", "main", "apart"),
            ("gone", "main", "gone"),
        ] {
            repo.git(&["branch", "-q", branch, at]);
            repo.git(&["branch", "-q", &format!("--set-upstream-to=origin/{remote}"), branch]);
        }
        repo.git(&["branch", "-q", "--track", "local", "main"]);
        repo.git(&["update-ref", "-d", "refs/remotes/origin/gone"]);
    });
    for branch in ["main", "same", "ahead", "behind", "apart", "gone", "local"] {
        oracle.both(|repo| {
            repo.git(&["checkout", "-q", branch]);
        });
        each(&oracle, "");
        oracle.same(&["status", "--no-ahead-behind"]);
        oracle.same(&["status", "-sb", "--no-ahead-behind"]);
        oracle.same(&["status", "--porcelain=v2", "-b", "--no-ahead-behind"]);
        oracle.same(&["-c", "status.aheadBehind=false", "status"]);
        oracle.same(&["-c", "status.aheadBehind=false", "status", "--porcelain=v2", "-b"]);
        oracle.same(&["-c", "status.compareBranches=@{upstream} @{push}", "status"]);
        oracle.same(&["-c", "status.displayCommentPrefix=true", "status"]);
    }
    oracle.both(|repo| {
        repo.git(&["tag", "v1", "main~1"]);
        repo.git(&["tag", "-a", "-m", "annotated", "v2", "main~2"]);
    });
    for target in ["v1", "v2", "origin/same", "main~1", "main", "HEAD"] {
        oracle.both(|repo| {
            repo.git(&["checkout", "-q", "--detach", target]);
        });
        each(&oracle, "");
    }
    oracle.both(|repo| {
        repo.git(&["commit", "-q", "--allow-empty", "-m", "off"]);
    });
    each(&oracle, "");
    oracle.both(|repo| {
        repo.git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
        repo.git(&["config", "branch.unborn.remote", "origin"]);
        repo.git(&["config", "branch.unborn.merge", "refs/heads/same"]);
    });
    each(&oracle, "");
}

/// Only formats that print the detached commit read it from HEAD's reflog.
#[test]
fn only_formats_that_name_a_detached_head_read_its_reflog() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("file", "one\n");
        repo.commit("one");
        repo.git(&["checkout", "-q", "--detach"]);
        repo.write("new", "untracked\n");
    });
    oracle.both(|repo| {
        repo.remove(".git/logs/HEAD");
        repo.write(".git/logs/HEAD/in", "the way\n");
    });
    for format in [&["-s"][..], &["-sb"], &["--porcelain"], &["--porcelain", "-b"], &["--porcelain=v2"]] {
        oracle.same(&[&["status"], format].concat());
    }
    for format in [&["--long"][..], &["--porcelain=v2", "-b"]] {
        let told = oracle.ours().run(Path::new(SAPWOOD), &[&["status"], format].concat());
        assert!(told.stderr.contains_str(".git/logs/HEAD': Is a directory"), "{told:?}");
        assert_eq!(told.code, 128);
    }
}

/// The ref of the branch is a symbolic ref to itself, or to something that is not a branch.
#[test]
fn head_leads_nowhere() {
    let ways: [&[(&str, &str)]; 6] = [
        &[("a", "ref: refs/heads/b\n"), ("b", "ref: refs/heads/a\n")],
        &[("a", "ref: HEAD\n")],
        &[("a", "ref: refs/heads/b..c\n")],
        &[("a", "-> b"), ("b", "-> a")],
        &[("a", "-> refs/heads/b")],
        &[("a", "ref: refs/tags/t\n")],
    ];
    for way in ways {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            repo.write("file", "x\n");
            repo.commit("one");
            repo.git(&["tag", "t"]);
            repo.write("new", "x\n");
            repo.git(&["symbolic-ref", "HEAD", "refs/heads/a"]);
            for (name, content) in way {
                let path = repo.join(format!(".git/refs/heads/{name}"));
                match content.strip_prefix("-> ") {
                    Some(target) => std::os::unix::fs::symlink(target, path).expect("a link"),
                    None => std::fs::write(path, content).expect("written"),
                }
            }
        });
        each(&oracle, "");
        oracle.same(&["-c", "color.status=always", "status", "-sb"]);
        oracle.same(&["switch", "-c", "new"]);
    }
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("file", "x\n");
        repo.commit("one");
        let name = "a".repeat(300);
        std::fs::write(repo.join(".git/HEAD"), format!("ref: refs/heads/{name}\n")).expect("written");
    });
    each(&oracle, "");
}

#[test]
fn conflicts_of_every_kind() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for name in ["both", "theirs gone", "ours gone", "other"] {
            repo.write(name, "1\n2\n3\n");
        }
        repo.commit("base");
        repo.git(&["checkout", "-q", "-b", "side"]);
        repo.write("both", "side\n2\n3\n");
        repo.write("ours gone", "side\n");
        repo.write("added", "side\n");
        repo.remove("theirs gone");
        repo.commit("side");
        repo.git(&["checkout", "-q", "main"]);
        repo.write("both", "main\n2\n3\n");
        repo.write("theirs gone", "main\n");
        repo.write("added", "main\n");
        repo.write("fine", "main\n");
        repo.remove("ours gone");
        repo.commit("main");
    });
    for start in
        [&["merge", "side"][..], &["cherry-pick", "side"], &["rebase", "side"], &["revert", "HEAD~0", "side"]]
    {
        oracle.both(|repo| {
            repo.try_git(start);
        });
        each(&oracle, "");
        oracle.same(&["-c", "advice.statusHints=false", "status"]);
        oracle.both(|repo| {
            repo.git(&["rm", "-q", "-f", "--cached", "ours gone"]);
        });
        oracle.same(&["status"]);
        oracle.both(|repo| {
            repo.git(&["add", "-A"]);
        });
        each(&oracle, "");
        oracle.both(|repo| {
            repo.git(&[start[0], "--abort"]);
        });
        oracle.same(&["status"]);
    }
    // Combinations of stages that no merge leaves.
    oracle.both(|repo| {
        let oid = repo.git(&["hash-object", "-w", "both"]).stdout.to_string();
        let oid = oid.trim();
        let lines = format!("100644 {oid} 1\tgone\n100644 {oid} 2\tonly ours\n100755 {oid} 3\tonly theirs\n");
        index_info(repo, &lines);
    });
    each(&oracle, "");
}

#[test]
fn operations_in_progress_are_reported() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for number in 0..6 {
            repo.write("file", format!("{number}\n"));
            repo.write(format!("file{number}"), "1\n");
            repo.commit("more");
        }
        repo.git(&["branch", "side", "main~5"]);
    });
    let edit = |oracle: &Oracle, script: &str, onto: &str| {
        oracle.both(|repo| {
            let mut git = repo.git_command();
            git.args(["rebase", "-q", "-i", onto]).env("GIT_SEQUENCE_EDITOR", format!("sed -i '{script}'"));
            let _ = git.output().expect("git can be run");
        });
    };
    for script in ["1s/pick/edit/", "3s/pick/edit/;$aexec true", "1ibreak", "4s/pick/edit/"] {
        edit(&oracle, script, "main~4");
        each(&oracle, "");
        oracle.both(|repo| repo.write("file0", "changed\n"));
        oracle.same(&["status"]);
        oracle.both(|repo| {
            repo.git(&["reset", "-q", "HEAD^"]);
        });
        oracle.same(&["status"]);
        oracle.same(&["-c", "advice.statusHints=false", "status"]);
        oracle.both(|repo| {
            repo.git(&["clean", "-f", "-q"]);
            repo.git(&["rebase", "--abort"]);
        });
    }
    oracle.both(|repo| {
        repo.git(&["bisect", "start"]);
        repo.git(&["bisect", "bad", "main"]);
        repo.git(&["bisect", "good", "main~5"]);
    });
    each(&oracle, "");
    oracle.both(|repo| {
        repo.git(&["bisect", "reset"]);
        repo.write("mail", "From: a <a@b>\nDate: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: x\n\nx\n---\ndiff --git a/file b/file\n--- a/file\n+++ b/file\n@@ -1 +1 @@\n-x\n+y\n");
        repo.try_git(&["am", "mail"]);
    });
    each(&oracle, "");
    oracle.both(|repo| repo.write(".git/rebase-apply/patch", ""));
    oracle.same(&["status"]);
}
