//! Refusals of an undo, and files that change under it.

use sapwood::checkpoint::undo::{self, Goal};
use testkit::Sandbox;

use super::{checkpoint, committed, model::everything, travel};
use crate::{Heard, open};

/// Another repository and an ignored file in the place of something that would come back.
#[test]
fn nothing_that_no_entry_holds_is_overwritten() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("x", "a file\n");
    repo.write("y", "a file\n");
    checkpoint(&repo, "");
    for (make, way) in [("x", "x/.git"), ("y", "y/deep/ignored.o")] {
        repo.remove(make);
        if make == "x" {
            repo.git(&["init", "-q", "x"]);
        } else {
            repo.write("y/deep/ignored.o", "ignored\n");
        }
        let before = everything(&repo);
        let refused = travel(&repo, Goal::Back(1), false).expect_err("something is in the way");
        assert!(refused.starts_with(&format!("'{way}' is in the way")), "{refused}");
        assert_eq!(everything(&repo), before);
        repo.remove(make);
        travel(&repo, Goal::Back(1), false).expect("the way is free");
        assert_eq!(repo.read(make), "a file\n");
    }
}

/// A file changes, and one appears, between plan and run. Both stay.
#[test]
fn files_that_change_meanwhile_stay() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("new", "then\n");
    repo.write("dir/b", "then\n");
    checkpoint(&repo, "");
    repo.write("a", "now\n");
    repo.remove("new");
    repo.write("dir/b", "now\n");
    let repository = open(&repo);
    let plan = undo::plan(&repository, undo::Request::default()).expect("a plan");
    repo.write("a", "somebody else's\n");
    repo.write("new", "somebody else's\n");
    let heard = Heard::default();
    let report = plan.run(&heard).expect("a run");
    assert!(report.is_incomplete && report.number.is_none(), "{report:?}");
    assert_eq!(heard.0.borrow().len(), 2, "{:?}", heard.0);
    let contents = ["a", "new", "dir/b"].map(|path| repo.read(path).to_string());
    assert_eq!(contents, ["somebody else's\n", "somebody else's\n", "then\n"]);
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, " M a\n M dir/b\n?? new\n");
    // The state before has its entry.
    travel(&repo, Goal::To(2), false).expect("an undo");
    assert_eq!((repo.read("a"), repo.read("dir/b")), ("now\n".into(), "now\n".into()));
}

/// Files came from a directory that is a submodule now.
#[test]
fn files_of_a_submodule_stay() {
    let sandbox = Sandbox::new();
    let inner = sandbox.init("inner");
    inner.write("f", "of the submodule\n");
    inner.commit("inner");
    let repo = committed(&sandbox);
    repo.write("sub/f", "then\n");
    repo.write("sub/g", "then\n");
    repo.git(&["add", "sub"]);
    checkpoint(&repo, "");
    repo.git(&["rm", "-q", "-r", "-f", "sub"]);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"]);
    let before = everything(&repo);
    let refused = travel(&repo, Goal::Back(1), false).expect_err("another repository");
    assert!(refused.starts_with("'sub' is in the way"), "{refused}");
    assert_eq!(everything(&repo), before);
}

#[test]
fn a_locked_index_is_an_error_only_for_undo() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    repo.write(".git/index.lock", "");
    repo.write("a", "2\n");
    checkpoint(&repo, "");
    let refused = travel(&repo, Goal::Back(1), false).expect_err("locked");
    assert!(refused.contains("index.lock"), "{refused}");
    assert_eq!(repo.read("a"), "2\n");
}

/// A branch that another worktree uses is not moved.
#[test]
fn a_branch_of_another_worktree_stays() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    repo.git(&["checkout", "-q", "-b", "other"]);
    repo.git(&["worktree", "add", "-q", "../linked", "main"]);
    repo.write("a", "2\n");
    let refused = travel(&repo, Goal::To(1), true).expect_err("it is in use");
    assert!(refused.contains("'refs/heads/main' is checked out at '"), "{refused}");
    assert_eq!(repo.read("a"), "2\n");
}

/// No entry names the commits that a branch has got since, unless HEAD is on it.
#[test]
fn a_branch_that_head_is_not_on_does_not_move() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let value = |name: &str| repo.git(&["rev-parse", name]).stdout;
    checkpoint(&repo, "");
    let first = value("main");
    repo.write("a", "2\n");
    repo.commit("two");
    let second = value("main");
    let text =
        "HEAD of checkpoint 1 cannot be restored: 'refs/heads/main' has moved since, and HEAD is not on it";
    for away in [&["checkout", "-q", "-b", "other"][..], &["checkout", "-q", "--detach"]] {
        repo.git(away);
        let before = everything(&repo);
        assert_eq!(travel(&repo, Goal::To(1), true).expect_err("it has moved"), text);
        assert_eq!((everything(&repo), value("main")), (before, second.clone()));
    }
    // The branch that HEAD is on moves, and an entry has the commit before.
    repo.git(&["checkout", "-q", "main"]);
    let report = travel(&repo, Goal::To(1), true).expect("an undo");
    assert_eq!((value("main"), repo.read("a")), (first.clone(), "1\n".into()));
    let saved = report.saved.expect("an entry of the state before");
    travel(&repo, Goal::To(saved), true).expect("an undo");
    assert_eq!((value("main"), repo.read("a")), (second, "2\n".into()));
    // A branch that is gone comes back.
    repo.git(&["checkout", "-q", "other"]);
    repo.git(&["branch", "-q", "-D", "main"]);
    travel(&repo, Goal::To(1), true).expect("an undo");
    assert_eq!((value("main"), value("HEAD")), (first.clone(), first));
}

/// HEAD moves to another branch between plan and run.
#[test]
fn head_that_moves_meanwhile_is_an_error() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    repo.write("a", "2\n");
    repo.commit("two");
    repo.git(&["branch", "other"]);
    let repository = open(&repo);
    let request = undo::Request { goal: Goal::To(1), head: true, ..undo::Request::default() };
    let plan = undo::plan(&repository, request).expect("a plan");
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/other"]);
    let refs = repo.git(&["for-each-ref"]).stdout;
    let refused = plan.run(&sapwood::Silent).expect_err("HEAD has moved");
    assert_eq!(refused.to_string(), "HEAD was changed meanwhile; try again");
    assert_eq!((repo.git(&["for-each-ref"]).stdout, repo.read("a")), (refs, "2\n".into()));
}

/// Trees that somebody else made: no path leads out of the worktree or into `.git`.
#[test]
fn hostile_entries_are_refused() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    let object = |args: &[&str], input: &[u8]| {
        use std::io::Write as _;
        let mut child = repo.git_command();
        child.args(args).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.spawn().expect("Git runs");
        child.stdin.take().expect("a pipe").write_all(input).expect("written");
        let output = child.wait_with_output().expect("Git ends");
        String::from_utf8(output.stdout).expect("a name").trim().to_owned()
    };
    let git = |args: &[&str]| repo.git(args).stdout.to_string().trim().to_owned();
    let blob = object(&["hash-object", "-w", "--stdin"], b"#!/bin/sh\n");
    let info = git(&["rev-parse", "refs/sapwood/checkpoints/main/1:info"]);
    let index = git(&["rev-parse", "refs/sapwood/checkpoints/main/1:index"]);
    let raw = |entries: &[(&str, &str, &str)]| {
        let mut tree = Vec::new();
        for (mode, name, oid) in entries {
            tree.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            tree.extend((0..20).map(|at| u8::from_str_radix(&oid[2 * at..2 * at + 2], 16).expect("hex")));
        }
        object(&["hash-object", "-w", "-t", "tree", "--literally", "--stdin"], &tree)
    };
    let number = std::cell::Cell::new(1);
    let entry = |tree: &str| {
        number.set(number.get() + 1);
        git(&["update-ref", &format!("refs/sapwood/checkpoints/main/{}", number.get()), tree]);
    };
    let worktree = |tree: &str| {
        raw(&[("40000", "index", &index), ("100644", "info", &info), ("40000", "worktree", tree)])
    };
    let hooks = raw(&[("100755", "post-checkout", &blob)]);
    for name in [".git", ".GIT", "..", ".", "a/../../b", "git~1"] {
        entry(&worktree(&raw(&[("40000", name, &hooks)])));
        let before = everything(&repo);
        let refused = travel(&repo, Goal::To(number.get()), false).expect_err("a bad path");
        assert!(refused.starts_with("the checkpoint has the invalid path"), "{name}: {refused}");
        assert_eq!(everything(&repo), before, "{name}");
    }
    let incomplete = raw(&[("100644", "info", &blob), ("40000", "worktree", &index)]);
    let damaged =
        raw(&[("40000", "index", &index), ("100644", "info", &blob), ("40000", "worktree", &index)]);
    for tree in [git(&["rev-parse", "HEAD"]), blob.clone(), incomplete, damaged] {
        entry(&tree);
        let refused = travel(&repo, Goal::To(number.get()), false).expect_err("no entry");
        assert!(refused.ends_with("is not a checkpoint"), "{refused}");
    }
    // The newest entry that can be read is the last one with a bad path.
    let before = everything(&repo);
    let refused = travel(&repo, Goal::Back(1), false).expect_err("a bad path");
    assert_eq!(refused, "the checkpoint has the invalid path 'git~1/post-checkout'");
    assert_eq!(everything(&repo), before);
}
