//! The states that an entry holds, and what Git sees of the entries.

use sapwood::{
    Silent,
    checkpoint::{Reason, list, undo::Goal},
};
use testkit::Sandbox;

use super::{NONE_LEFT, checkpoint, committed, model::Model, redo, status, travel, undo};
use crate::open;

/// A staged change, another one above it, a new file, a removed one, an executable, a link, and an
/// ignored file.
#[test]
fn undo_restores_files_and_index() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("ignored.o", "kept\n");
    checkpoint(&repo, "clean");
    let clean = Model::of(&repo);
    repo.write("a", "staged\n");
    repo.git(&["add", "a"]);
    repo.write("a", "above\n");
    repo.remove("dir/b");
    repo.write("new/deep/file", "new\n");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("a", "link");
    repo.git(&["add", "-N", "run"]);
    checkpoint(&repo, "busy");
    let busy = Model::of(&repo);
    repo.remove("new");
    repo.write("new", "a file in place of a directory\n");
    repo.remove("a");
    repo.write("a/b", "a directory in place of a file\n");
    repo.git(&["add", "-A"]);
    let last = Model::of(&repo);

    // The present state has no entry, so it counts as one.
    let report = undo(&repo);
    assert_eq!((report.reached, report.saved, report.number), (2, Some(3), Some(4)));
    assert_eq!(Model::of(&repo), busy);
    let report = undo(&repo);
    assert_eq!((report.reached, report.saved, report.number), (1, None, Some(5)));
    assert_eq!(Model::of(&repo), clean);
    assert_eq!(travel(&repo, Goal::Back(1), false).expect_err("there are no more"), NONE_LEFT);
    redo(&repo);
    assert_eq!(Model::of(&repo), busy);
    assert_eq!(redo(&repo).reached, 3);
    assert_eq!(Model::of(&repo), last);
    assert_eq!(travel(&repo, Goal::Forward(1), false).expect_err("there are no more"), "nothing to redo");
    assert_eq!(travel(&repo, Goal::To(1), false).expect("a jump").reached, 1);
    assert_eq!(Model::of(&repo), clean);
    assert_eq!(repo.read("ignored.o"), "kept\n");
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
}

/// A change after an undo begins a new line; the old one stays in the list.
#[test]
fn a_change_ends_redo_and_loses_nothing() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    for content in ["1", "2", "3"] {
        repo.write("a", content);
        checkpoint(&repo, content);
    }
    travel(&repo, Goal::Back(2), false).expect("an undo");
    assert_eq!(repo.read("a"), "1");
    // Nothing changed, so redo is still possible.
    let same = checkpoint(&repo, "looked");
    assert!(!same.is_changed);
    redo(&repo);
    assert_eq!(repo.read("a"), "2");
    repo.write("a", "other");
    assert_eq!(travel(&repo, Goal::Forward(1), false).expect_err("changed"), "nothing to redo");
    assert_eq!(repo.read("a"), "other");
    checkpoint(&repo, "other");
    assert_eq!(travel(&repo, Goal::Forward(1), false).expect_err("changed"), "nothing to redo");
    undo(&repo);
    assert_eq!(repo.read("a"), "2");
    undo(&repo);
    assert_eq!(repo.read("a"), "1");
    redo(&repo);
    redo(&repo);
    assert_eq!(repo.read("a"), "other");
    travel(&repo, Goal::To(3), false).expect("every entry can be reached");
    assert_eq!(repo.read("a"), "3");
}

/// The effects of `log --all`, `push --all`, `fsck`, `gc` and expired reflogs.
#[test]
fn git_keeps_entries_and_does_not_show_them() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("a", "lost from all branches\n");
    repo.commit("two");
    let lost = repo.git(&["rev-parse", "HEAD"]).stdout;
    repo.write("untracked", "kept\n");
    checkpoint(&repo, "a label");
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.remove("untracked");
    assert_eq!(repo.git(&["log", "--all", "--format=%s"]).stdout, "one\n");
    repo.git(&["init", "-q", "--bare", "../remote"]);
    repo.git(&["push", "-q", "--all", "../remote"]);
    assert_eq!(
        sandbox.repo("remote").git(&["for-each-ref", "--format=%(refname)"]).stdout,
        "refs/heads/main\n"
    );
    repo.git(&["reflog", "expire", "--expire=now", "--expire-unreachable=now", "HEAD", "refs/heads/main"]);
    repo.git(&["reflog", "expire", "--all"]);
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(repo.git(&["cat-file", "-t", lost.to_string().trim()]).stdout, "commit\n");
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
    travel(&repo, Goal::To(1), true).expect("an undo");
    assert_eq!(repo.read("untracked"), "kept\n");
    assert_eq!(status(&repo), "?? untracked\n");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, lost);
    // Without the reflogs of the entries the files stay, and the commit does not.
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
    let refused = travel(&repo, Goal::To(1), true).expect_err("the commit is gone");
    assert!(refused.ends_with("is gone"), "{refused}");
    travel(&repo, Goal::To(1), false).expect("an undo");
    assert_eq!(repo.read("a"), "lost from all branches\n");
}

#[test]
fn unmerged_entries_come_back() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("a", "theirs\n");
    repo.remove("dir/b");
    repo.commit("theirs");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("a", "ours\n");
    repo.write("dir/b", "changed\n");
    repo.commit("ours");
    checkpoint(&repo, "before");
    let before = Model::of(&repo);
    assert_eq!(repo.try_git(&["merge", "-q", "side"]).code, 1);
    checkpoint(&repo, "conflict");
    let conflict = Model::of(&repo);
    assert_eq!(status(&repo), "UU a\nUD dir/b\n");
    repo.write("a", "resolved\n");
    repo.git(&["add", "-A"]);
    undo(&repo);
    assert_eq!(Model::of(&repo), conflict);
    undo(&repo);
    assert_eq!(Model::of(&repo), before);
    redo(&repo);
    assert_eq!(Model::of(&repo), conflict);
    assert_eq!(repo.git(&["fsck"]).stderr, "");
}

/// An unborn branch, and then a detached HEAD.
#[test]
fn head_is_restored_only_on_request() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.git(&["add", "a"]);
    checkpoint(&repo, "unborn");
    repo.commit("one");
    checkpoint(&repo, "one");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("a", "2\n");
    repo.commit("two");
    let two = repo.git(&["rev-parse", "side"]).stdout;
    undo(&repo);
    assert_eq!((repo.read("a"), status(&repo).as_str()), ("1\n".into(), "M  a\n"));
    assert_eq!(repo.git(&["symbolic-ref", "HEAD"]).stdout, "refs/heads/side\n");
    travel(&repo, Goal::To(2), true).expect("an undo");
    assert_eq!(repo.git(&["symbolic-ref", "HEAD"]).stdout, "refs/heads/main\n");
    assert_eq!(status(&repo), "");
    assert_eq!(repo.git(&["rev-parse", "side"]).stdout, two);
    let logged = repo.git(&["reflog", "-1", "--format=%gs"]).stdout;
    assert_eq!(logged, "undo: moving to checkpoint 2\n");
    repo.git(&["checkout", "-q", "--detach", "side"]);
    checkpoint(&repo, "detached");
    repo.git(&["checkout", "-q", "main"]);
    travel(&repo, Goal::Back(1), true).expect("an undo");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, two);
    assert_eq!(repo.try_git(&["symbolic-ref", "-q", "HEAD"]).code, 1);
    let refused = travel(&repo, Goal::To(1), true).expect_err("the branch has a commit");
    assert!(refused.ends_with("'refs/heads/main' had no commit then, and has one now"), "{refused}");
    repo.git(&["branch", "-D", "side"]);
    travel(&repo, Goal::To(1), false).expect("the files come back");
    assert_eq!(repo.read("a"), "1\n");
}

/// Repositories inside of the worktree and files that nobody can read are left out, by name.
#[test]
fn other_repositories_are_left_out() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("x/file", "1\n");
    repo.git(&["init", "-q", "x/nested"]);
    repo.write("x/nested/file", "its own\n");
    let made = checkpoint(&repo, "");
    let left: Vec<(String, &Reason)> =
        made.left_out.iter().map(|left| (left.path.to_string(), &left.reason)).collect();
    assert_eq!(left, [("x/nested/".to_owned(), &Reason::Repository)]);
    repo.write("x/file", "2\n");
    undo(&repo);
    assert_eq!((repo.read("x/file"), repo.read("x/nested/file")), ("1\n".into(), "its own\n".into()));
    travel(&repo, Goal::To(1), false).expect("an undo");
    assert!(repo.exists("x/nested/.git/HEAD"));
}

#[test]
fn submodules_are_recorded_and_not_touched() {
    let sandbox = Sandbox::new();
    let inner = sandbox.init("inner");
    inner.write("f", "1\n");
    inner.commit("inner");
    let repo = committed(&sandbox);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"]);
    repo.commit("submodule");
    checkpoint(&repo, "before");
    let before = Model::of(&repo);
    let sub = sandbox.repo("repo/sub");
    sub.write("f", "2\n");
    sub.commit("inside");
    let inside = sub.git(&["rev-parse", "HEAD"]).stdout;
    repo.git(&["add", "sub"]);
    repo.write("a", "2\n");
    undo(&repo);
    assert_eq!((Model::of(&repo).index, repo.read("a")), (before.index, "1\n".into()));
    assert_eq!((sub.git(&["rev-parse", "HEAD"]).stdout, sub.read("f")), (inside, "2\n".into()));
    assert_eq!(status(&repo), " M sub\n");
    repo.git(&["rm", "-q", "--cached", "sub"]);
    undo(&repo);
    assert_eq!(status(&repo), " M sub\n");
}

/// A repository in the place of a submodule or a file, whose commits no tree here can name.
#[test]
fn repositories_of_another_hash_are_left_out() {
    let sandbox = Sandbox::new();
    let inner = sandbox.init("inner");
    inner.write("f", "1\n");
    inner.commit("inner");
    let repo = committed(&sandbox);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "sub"]);
    repo.commit("submodule");
    for path in ["sub", "a"] {
        repo.remove(path);
        repo.git(&["init", "-q", "--object-format=sha256", path]);
        let other = sandbox.repo(&format!("repo/{path}"));
        other.write("f", "2\n");
        other.commit("other");
    }
    let made = checkpoint(&repo, "");
    let mut left: Vec<(String, &Reason)> =
        made.left_out.iter().map(|left| (left.path.to_string(), &left.reason)).collect();
    left.sort_by(|one, other| one.0.cmp(&other.0));
    // The directory in the place of the file is untracked, too.
    let expected = [("a", &Reason::OtherHash), ("a/", &Reason::Repository), ("sub", &Reason::OtherHash)];
    assert_eq!(left, expected.map(|(path, reason)| (path.to_owned(), reason)));
    let listed = repo.git(&["ls-tree", &format!("{}:worktree", made.name)]).stdout.to_string();
    let sub = repo.git(&["ls-tree", "HEAD", "sub"]).stdout.to_string();
    assert!(listed.contains(&sub) && !listed.contains("\ta\n"), "{listed}");
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
    repo.write("dir/b", "changed\n");
    undo(&repo);
    assert_eq!(
        (repo.read("dir/b"), repo.read("sub/f"), repo.read("a/f")),
        ("2\n".into(), "2\n".into(), "2\n".into())
    );
}

/// A file that is ignored now and was not then is stored before it is replaced.
#[test]
fn ignored_files_in_the_way_are_stored_first() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("out", "then\n");
    repo.write("other.o", "ignored\n");
    checkpoint(&repo, "");
    repo.write(".gitignore", "*.o\nout\n");
    repo.write("out", "now\n");
    undo(&repo);
    assert_eq!((repo.read("out"), repo.read("other.o")), ("then\n".into(), "ignored\n".into()));
    redo(&repo);
    assert_eq!((repo.read("out"), repo.read(".gitignore")), ("now\n".into(), "*.o\nout\n".into()));
}

/// A checkpoint after an undo is no change, although a file that the undo restored is ignored now.
#[test]
fn a_restored_file_that_is_ignored_now_ends_no_redo() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("out", "1\n");
    checkpoint(&repo, "");
    repo.write("out", "2\n");
    checkpoint(&repo, "");
    repo.write(".git/info/exclude", "out\n");
    undo(&repo);
    assert_eq!(repo.read("out"), "1\n");
    assert!(!checkpoint(&repo, "looked").is_changed);
    assert_eq!(redo(&repo).reached, 2);
    assert_eq!(repo.read("out"), "2\n");
    // An entry of a changed state has no ignored files.
    undo(&repo);
    repo.write("a", "changed\n");
    let made = checkpoint(&repo, "");
    let listed = repo.git(&["ls-tree", "--name-only", &format!("{}:worktree", made.name)]).stdout;
    assert_eq!(listed, ".gitignore\na\ndir\n");
    assert_eq!(travel(&repo, Goal::Forward(1), false).expect_err("changed"), "nothing to redo");
}

/// Empty directories are in no entry, and give way to files.
#[test]
fn empty_directories_give_way() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("x", "a file\n");
    repo.write("y", "a file\n");
    checkpoint(&repo, "");
    repo.remove("x");
    repo.remove("y");
    std::fs::create_dir_all(repo.join("x/deep/er")).expect("directories");
    std::fs::create_dir_all(repo.join("y/empty")).expect("directories");
    repo.write("y/file", "another\n");
    undo(&repo);
    assert_eq!((repo.read("x"), repo.read("y")), ("a file\n".into(), "a file\n".into()));
    redo(&repo);
    assert_eq!(repo.read("y/file"), "another\n");
}

/// An entry of `add -N` has the mode that the file had then.
#[test]
fn modes_of_entries_to_be_added_come_back() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("becomes-link", "a file\n");
    repo.write_executable("becomes-plain", "a script\n");
    repo.symlink("a", "gone");
    repo.git(&["add", "-N", "."]);
    repo.remove("becomes-link");
    repo.symlink("a", "becomes-link");
    repo.remove("becomes-plain");
    repo.write("becomes-plain", "no script\n");
    repo.remove("gone");
    checkpoint(&repo, "");
    let before = Model::of(&repo);
    repo.git(&["rm", "-q", "--cached", "becomes-link", "becomes-plain", "gone"]);
    undo(&repo);
    assert_eq!(Model::of(&repo), before);
}

/// Content that a filter changes is stored as `add` stores it, and written as `checkout` writes it.
#[test]
fn filters_and_line_ends_apply() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.git(&["config", "filter.up.clean", "tr a-z A-Z"]);
    repo.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    repo.write(".gitattributes", "*.up filter=up\n*.crlf text eol=crlf\n");
    repo.write("f.up", "text\n");
    repo.write("f.crlf", "one\r\ntwo\r\n");
    checkpoint(&repo, "");
    let stored = |path: &str| {
        repo.git(&["cat-file", "-p", &format!("refs/sapwood/checkpoints/main/1:worktree/{path}")]).stdout
    };
    assert_eq!((stored("f.up"), stored("f.crlf")), ("TEXT\n".into(), "one\ntwo\n".into()));
    repo.remove("f.up");
    repo.write("f.crlf", "other\r\n");
    undo(&repo);
    assert_eq!((repo.read("f.up"), repo.read("f.crlf")), ("text\n".into(), "one\r\ntwo\r\n".into()));
}

/// Files above `core.bigFileThreshold` are stored in pieces.
#[test]
fn large_files_come_back() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.git(&["config", "core.bigFileThreshold", "10000"]);
    let large = testkit::noise(100_000, 7);
    repo.write("large", &large);
    checkpoint(&repo, "");
    repo.write("large", "small");
    undo(&repo);
    assert!(repo.read("large") == large);
}

#[test]
fn sparse_worktrees_stay_sparse() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("out/side", "3\n");
    repo.commit("two");
    for index in ["false", "true"] {
        repo.git(&["config", "index.sparse", index]);
        repo.git(&["sparse-checkout", "set", "dir"]);
        checkpoint(&repo, "");
        let before = Model::of(&repo);
        repo.write("dir/b", "changed\n");
        repo.git(&["rm", "-q", "--sparse", "--cached", "out/side"]);
        undo(&repo);
        assert_eq!(Model::of(&repo), before, "index.sparse={index}");
        assert!(!repo.exists("out"));
        let flags = repo.git(&["ls-files", "-t", "out"]).stdout;
        assert_eq!(flags, "S out/side\n", "index.sparse={index}");
        repo.git(&["sparse-checkout", "disable"]);
    }
}

/// A file that Git takes for unchanged is in no entry. An undo does not overwrite it.
#[test]
fn files_that_git_does_not_look_at_stay() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("a", "then\n");
    repo.write("dir/b", "then\n");
    checkpoint(&repo, "");
    for path in ["a", "dir/b"] {
        repo.git(&["checkout", "-q", path]);
    }
    checkpoint(&repo, "");
    repo.git(&["update-index", "--assume-unchanged", "a"]);
    repo.write("a", "hidden\n");
    let refused = travel(&repo, Goal::To(1), false).expect_err("no entry holds it");
    assert_eq!(
        refused,
        "'a' is marked assume-unchanged and differs from the index, so no checkpoint holds it"
    );
    assert_eq!((repo.read("a"), repo.read("dir/b")), ("hidden\n".into(), "2\n".into()));
    repo.git(&["update-index", "--no-assume-unchanged", "a"]);
    repo.git(&["update-index", "--skip-worktree", "a"]);
    let report = travel(&repo, Goal::To(1), false).expect("an undo");
    let left: Vec<(String, &Reason)> =
        report.left_out.iter().map(|left| (left.path.to_string(), &left.reason)).collect();
    assert_eq!(left, [("a".to_owned(), &Reason::Skipped)]);
    assert_eq!((repo.read("a"), repo.read("dir/b")), ("hidden\n".into(), "then\n".into()));
    assert_eq!(repo.git(&["ls-files", "-v", "a"]).stdout, "S a\n");
    // A marked file that is as the index has it is replaced.
    repo.git(&["update-index", "--no-skip-worktree", "a"]);
    repo.git(&["checkout", "-q", "a"]);
    repo.git(&["update-index", "--assume-unchanged", "a"]);
    travel(&repo, Goal::To(1), false).expect("an undo");
    assert_eq!(repo.read("a"), "then\n");
}

/// A linked worktree has entries of its own. A later one of the same name does not find them.
#[test]
fn each_worktree_has_its_own_entries() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "main");
    let add = || {
        repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
        sandbox.repo("linked")
    };
    let linked = add();
    let of_linked = |linked: &testkit::Repo<'_>| {
        let plan = list::plan(&open(linked), list::Request::default()).expect("a plan");
        plan.run(&Silent).expect("a list").entries.len()
    };
    assert_eq!(of_linked(&linked), 0);
    linked.write("a", "2\n");
    assert_eq!(checkpoint(&linked, "").name, "refs/sapwood/checkpoints/worktrees/linked/1");
    linked.git(&["checkout", "-q", "a"]);
    undo(&linked);
    assert_eq!((linked.read("a"), repo.read("a")), ("2\n".into(), "1\n".into()));
    repo.git(&["worktree", "remove", "-f", "../linked"]);
    let linked = add();
    assert_eq!(of_linked(&linked), 0);
    assert_eq!(checkpoint(&linked, "").name, "refs/sapwood/checkpoints/worktrees/linked-2/1");
    // Entries of worktrees that are gone expire by age.
    repo.git(&["config", "sapwood.checkpointExpire", "now"]);
    repo.git(&["worktree", "add", "-q", "--detach", "../third"]);
    checkpoint(&sandbox.repo("third"), "");
    let all = repo.git(&["for-each-ref", "--format=%(refname)", "refs/sapwood"]).stdout.to_string();
    let names: Vec<&str> = all.lines().map(|name| &name["refs/sapwood/checkpoints/".len()..]).collect();
    assert_eq!(names, ["main/1", "worktrees/linked-2/1", "worktrees/third/1"]);
}
