//! Refusals of an undo, and files that change under it.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

use sapwood::{
    Silent,
    checkpoint::undo::{self, Goal},
};
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

/// The present state cannot hold an ignored file that the user cannot read.
#[test]
fn unreadable_files_in_the_way_stay() {
    if sys::user::effective_uid() == 0 {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("out", "then\n");
    checkpoint(&repo, "");
    repo.write(".gitignore", "*.o\nout\n");
    repo.write("out", "now\n");
    let set = |mode| std::fs::set_permissions(repo.join("out"), Permissions::from_mode(mode));
    set(0).expect("changed");
    let refused = travel(&repo, Goal::To(1), false).expect_err("unreadable");
    assert!(refused.starts_with("'out' is in the way"), "{refused}");
    set(0o644).expect("changed");
    assert_eq!(repo.read("out"), "now\n");
}

/// A second change in the same tick of the kernel's clock has the same time.
#[test]
fn a_plan_waits_for_the_clock() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    let repository = open(&repo);
    repo.write("a", "now\n");
    let _plan = undo::plan(&repository, undo::Request::default()).expect("a plan");
    let changed = std::fs::metadata(repo.join("a")).expect("a file").modified().expect("a time");
    let age = changed.elapsed().expect("the clock goes on");
    assert!(age >= std::time::Duration::from_millis(10), "{age:?}");
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
    let made = undo::plan(&open(&repo), undo::Request::default()).map(|plan| plan.run(&Silent));
    assert!(made.is_err(), "the newest entry is damaged");
}
