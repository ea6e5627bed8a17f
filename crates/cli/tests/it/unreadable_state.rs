//! State files of a repository that cannot be read, or whose content is invalid, are not treated as
//! missing.

use std::fs;

use bstr::ByteSlice as _;
use testkit::{
    Oracle, Repo, Sandbox,
    weather::{At, Errno, Fault, Mount, Operation, Profile},
};

use crate::{SAPWOOD, switch::two_branches};

/// Creates files that must not be lost, some of them ignored by rules outside the worktree.
fn setup(repo: &Repo<'_>) {
    two_branches(repo);
    repo.write(".git/info/exclude", "*.keep\n");
    repo.write("mine.keep", "mine\n");
    repo.write("untracked", "mine\n");
}

/// Replaces the file at `path` by a directory, which can be opened but not read.
fn becomes_a_directory(repo: &Repo<'_>, path: &str) {
    if repo.exists(path) {
        fs::remove_file(repo.join(path)).expect("a file");
    }
    fs::create_dir_all(repo.join(path)).expect("a directory");
    // On some file systems an empty directory has size zero, and counts as an empty file.
    repo.write(format!("{path}/something"), "");
}

/// Unreadable rules do not mean that nothing is ignored: ignored files would be deleted or
/// overwritten.
#[test]
fn rules_that_cannot_be_read_are_not_none() {
    for (path, settings) in [
        (".git/info/exclude", &[][..]),
        ("rules", &["-c", "core.excludesFile=rules"]),
        (".git/rules", &["-c", "core.excludesFile=.git/rules"]),
    ] {
        for args in [
            &["clean", "-f", "-d"][..],
            &["clean", "-n"],
            &["clean", "-f", "-X"],
            &["status", "--porcelain"],
            &["status", "--ignored"],
            &["ls-files", "-o", "--exclude-standard"],
            &["switch", "topic"],
            &["checkout", "topic"],
            &["reset", "--hard", "topic"],
            &["read-tree", "-m", "-u", "topic"],
        ] {
            let oracle = Oracle::new(SAPWOOD, setup);
            oracle.both(|repo| becomes_a_directory(repo, path));
            let run = oracle.same(&[settings, args].concat());
            assert_eq!(run.code, 128, "{path} {args:?}");
        }
    }
}

/// Commands that do not need these files succeed.
#[test]
fn rules_that_cannot_be_read_and_are_not_needed() {
    let oracle = Oracle::new(SAPWOOD, setup);
    oracle.both(|repo| becomes_a_directory(repo, ".git/info/exclude"));
    for args in [&["clean", "-n", "-x"][..], &["ls-files", "-o"], &["checkout", "--", "a"], &["restore", "a"]]
    {
        assert_eq!(oracle.same(args).code, 0, "{args:?}");
    }
}

/// An invalid list of shallow commits is an error, because the cut in the history is unknown.
#[test]
fn a_bad_list_of_shallow_commits() {
    for content in ["garbage\n", "0123\n", "\n", "\u{1}"] {
        for args in [
            &["status"][..],
            &["switch", "topic"],
            &["checkout", "-f", "v1"],
            &["reset", "--hard", "v1"],
            &["restore", "--source=topic", "a"],
            &["diff-index", "topic"],
        ] {
            let oracle = Oracle::new(SAPWOOD, setup);
            oracle.both(|repo| repo.write(".git/shallow", content));
            let run = oracle.same(args);
            assert_eq!(run.code, 128, "{content:?} {args:?}");
        }
    }
}

/// A worktree on a failing disk does not count as missing.
#[test]
fn a_worktree_that_cannot_be_looked_at_is_not_pruned() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    setup(&repo);
    let [backing, at] = ["backing", "disk"].map(|name| sandbox.path().join(name));
    for dir in [&backing, &at] {
        fs::create_dir(dir).expect("a directory");
    }
    let mount = Mount::over(&Profile::bare(), &backing, &at).expect("a disk");
    repo.git(&["worktree", "add", "-q", "../disk/linked", "topic"]);
    let everything = Fault { operation: None, ..Fault::fail(Operation::Lookup, Errno::IO) };
    mount.set_faults(vec![everything.at(At::Below("linked".into()))]);
    let run = repo.run(SAPWOOD.as_ref(), &["worktree", "prune", "-v"]);
    assert_eq!((run.code, run.stderr.as_slice()), (0, &b""[..]));
    assert!(repo.exists(".git/worktrees/linked/HEAD"));
    assert!(!mount.struck().is_empty(), "nobody looked");
    mount.set_faults(Vec::new());
    fs::remove_dir_all(at.join("linked")).expect("it can be removed");
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["worktree", "prune"]).code, 0);
    assert!(!repo.exists(".git/worktrees/linked"));
}

/// In this state Git does not treat the repository as shallow, and looks for parents that are
/// missing.
#[test]
fn a_list_of_shallow_commits_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    setup(&repo);
    repo.symlink("shallow", ".git/shallow");
    let run = repo.run(SAPWOOD.as_ref(), &["switch", "topic"]);
    assert_eq!(run.code, 128);
    assert!(run.stderr.contains_str("/.git/shallow': Too many levels of symbolic links"), "{}", run.stderr);
}

/// If the file of an operation is invalid, no operation is in progress, and the command completes.
#[test]
fn files_of_operations_that_say_nothing() {
    let shapes: [fn(&Repo<'_>, &str); 2] = [|repo, path| repo.write(path, "garbage\n"), becomes_a_directory];
    for name in ["CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG"] {
        for shape in shapes {
            for args in [&["checkout", "-q", "-f", "v1"][..], &["reset", "--hard", "v1"]] {
                let oracle = Oracle::new(SAPWOOD, setup);
                oracle.both(|repo| shape(repo, &format!(".git/{name}")));
                let theirs = oracle.git().try_git(args);
                let ours = oracle.ours().run(SAPWOOD.as_ref(), args);
                assert_eq!((theirs.code, ours.code), (0, 0), "{name} {args:?}: {}", ours.stderr);
                oracle.same_state(&[name]);
            }
        }
    }
}

/// HEAD moves even if ORIG_HEAD cannot be written.
#[test]
fn orig_head_cannot_be_written() {
    let obstacles: [fn(&Repo<'_>); 2] =
        [|repo| becomes_a_directory(repo, ".git/ORIG_HEAD"), |repo| repo.write(".git/ORIG_HEAD.lock", "")];
    for arrange in obstacles {
        let oracle = Oracle::new(SAPWOOD, setup);
        oracle.both(arrange);
        for args in [&["reset", "--hard", "v1"][..], &["reset", "main@{1}"], &["reset", "--soft", "v1"]] {
            let theirs = oracle.git().try_git(args);
            let ours = oracle.ours().run(SAPWOOD.as_ref(), args);
            assert_eq!((theirs.code, ours.code), (0, 0), "{args:?}: {}", ours.stderr);
            oracle.same_state(args);
        }
    }
}

/// A damaged commit does not count as missing: HEAD does not move away from it.
#[test]
fn a_damaged_commit() {
    for args in [
        &["checkout", "-f", "v1"][..],
        &["switch", "topic"],
        &["switch", "-c", "new"],
        &["checkout", "--orphan", "new"],
    ] {
        let oracle = Oracle::new(SAPWOOD, setup);
        oracle.both(|repo| {
            let commit = repo.git(&["rev-parse", "HEAD"]).stdout.to_string();
            let (dir, file) = commit.trim().split_at(2);
            let object = format!(".git/objects/{dir}/{file}");
            let content = repo.read(&object);
            fs::remove_file(repo.join(&object)).expect("a loose object");
            repo.write(&object, &content[..content.len() / 2]);
        });
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(SAPWOOD.as_ref(), args);
        assert_eq!((theirs.code, ours.code), (128, 128), "{args:?}: {} {}", theirs.stderr, ours.stderr);
        oracle.same_state(args);
    }
}

/// A truncated tree is an error: the entries after the truncation do not count as missing.
#[test]
fn a_tree_that_ends_early() {
    let oracle = Oracle::new(SAPWOOD, setup);
    oracle.both(|repo| {
        let tree = repo.git(&["rev-parse", "HEAD^{tree}"]).stdout.to_string();
        let content = repo.git(&["cat-file", "tree", tree.trim()]).stdout;
        repo.write("tree", &content[..content.len() - 5]);
        let made = repo.git(&["hash-object", "-w", "-t", "tree", "--literally", "tree"]).stdout.to_string();
        repo.git(&["update-ref", "refs/tags/broken", made.trim()]);
    });
    for args in [&["checkout", "broken:new"][..], &["restore", "--source=broken:new", "a"]] {
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(SAPWOOD.as_ref(), args);
        assert_eq!(theirs.code, ours.code, "{args:?}: {} {}", theirs.stderr, ours.stderr);
    }
}
