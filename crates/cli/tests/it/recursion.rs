//! `--recurse-submodules`: submodules are updated with their superproject, as in Git, or the
//! command is refused.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::{
    Oracle, Repo, Run, Sandbox,
    crash::{Crash, CrashPoints},
};

use crate::{
    SAPWOOD,
    killed::{ALL, Most, at_crash_points, sapwood},
    shim::Shim,
};

const ALLOWED: [&str; 2] = ["-c", "protocol.file.allow=always"];

/// Creates a history. `main` has the submodule `sub` at its first commit, `next` at its second.
/// `deep` has it at its third, which has a nested submodule. `none` has no submodule; `file` and
/// `dir` have another kind of entry in its place. All of them were checked out once.
fn history(repo: &Repo<'_>) {
    for (name, commits) in [("../inner.git", ["i1", "i2", "i3"]), ("../sub.git", ["one", "two", "three"])] {
        repo.git(&["init", "-q", "-b", "main", name]);
        for tag in commits {
            repo.write(format!("{name}/changes"), format!("{tag}\n"));
            repo.write(format!("{name}/{tag}"), "new\n");
            if tag == "one" {
                repo.write(format!("{name}/stays"), "stays\n");
            }
            if tag == "three" {
                repo.git(
                    &[&["-C", name], &ALLOWED[..], &["submodule", "-q", "add", "../inner.git", "inner"]]
                        .concat(),
                );
            }
            repo.git(&["-C", name, "add", "-A"]);
            repo.git(&["-C", name, "commit", "-q", "-m", tag]);
            repo.git(&["-C", name, "tag", tag]);
        }
    }
    repo.write("a", "a\n");
    repo.commit("none");
    repo.git(&["branch", "none"]);
    repo.git(&[&ALLOWED[..], &["submodule", "-q", "add", "../sub.git", "sub"]].concat());
    repo.git(&["config", "submodule.sub.url", "../sub.git"]);
    for (branch, tag) in [("main", "one"), ("next", "two"), ("deep", "three")] {
        if branch != "main" {
            repo.git(&["checkout", "-q", "-b", branch]);
        }
        repo.git(&["-C", "sub", "checkout", "-q", "--detach", tag]);
        repo.write("a", branch);
        repo.git(&["add", "a", "sub"]);
        repo.commit(branch);
    }
    repo.git(&["-C", "sub", "config", "-f", ".gitmodules", "submodule.inner.url", "../inner.git"]);
    repo.git(&[&["-C", "sub"], &ALLOWED[..], &["submodule", "-q", "update", "--init"]].concat());
    repo.git(&["-C", "sub", "checkout", "-q", "--", ".gitmodules"]);
    repo.git(&["checkout", "-q", "--recurse-submodules", "main"]);
    repo.git(&["checkout", "-q", "--recurse-submodules", "-b", "link", "none"]);
    repo.write("there/file", "in a directory\n");
    std::os::unix::fs::symlink("there", repo.join("sub")).expect("nothing is there");
    repo.git(&["add", "sub", "there"]);
    repo.commit("link");
    for (branch, path) in [("file", "sub"), ("dir", "sub/inner")] {
        repo.git(&["checkout", "-q", "--recurse-submodules", "-b", branch, "none"]);
        repo.write(path, "a file\n");
        repo.git(&["add", "sub"]);
        repo.commit(branch);
    }
    repo.git(&["checkout", "-q", "--recurse-submodules", "main"]);
}

/// Returns the state of the submodules: HEAD, the last line of its reflog, the configured worktree,
/// index and worktree.
fn within(repo: &Repo<'_>) -> Vec<String> {
    let mut seen = Vec::new();
    for (path, modules) in [("sub", ".git/modules/sub"), ("sub/inner", ".git/modules/sub/modules/inner")] {
        let log = repo.read(format!("{modules}/logs/HEAD")).to_string();
        seen.push(repo.read(format!("{modules}/HEAD")).to_string());
        seen.push(log.lines().last().unwrap_or_default().to_owned());
        let worktree = repo.try_git(&["config", "-f", &format!("{modules}/config"), "core.worktree"]);
        seen.push(format!("{} {}", worktree.code, worktree.stdout));
        if repo.exists(format!("{path}/.git")) {
            seen.push(repo.read(format!("{path}/changes")).to_string());
            seen.push(repo.read(format!("{path}/.git")).to_string());
            for args in [&["status", "--porcelain", "--ignored"][..], &["ls-files", "-s"], &["diff", "HEAD"]]
            {
                seen.push(repo.git(&[&["-C", path], args].concat()).stdout.to_string());
            }
        }
    }
    seen
}

/// Runs the command on both sides and compares the results, submodules included.
#[track_caller]
fn same(oracle: &Oracle, args: &[&str]) -> Run {
    let run = oracle.same(args);
    assert_eq!(within(&oracle.git()), within(&oracle.ours()), "{args:?}: git left, sapwood right");
    run
}

#[test]
fn updates_submodules_with_the_superproject() {
    let oracle = Oracle::new(SAPWOOD, history);
    let on = ["-c", "submodule.recurse=true"];
    for args in [
        &["checkout", "--recurse-submodules", "next"][..],
        &["switch", "--recurse-submodules", "none"],
        &["checkout", "--recurse-submodules", "deep"],
        &["checkout", "--recurse-submodules", "main"],
        &["reset", "--hard", "--recurse-submodules", "deep"],
        &["reset", "--keep", "--recurse-submodules", "none"],
        &["reset", "--merge", "--recurse-submodules", "next"],
        &["read-tree", "-m", "-u", "--recurse-submodules", "HEAD", "deep"],
        &["reset", "--hard", "--recurse-submodules=yes"],
        &["restore", "--recurse-submodules", "--source=main", "sub"],
        &["checkout", "-f", "--recurse-submodules", "main"],
        &["checkout", "--recurse-submodules", "next", "--", "sub"],
        &["checkout", "-f", "--recurse-submodules=no", "main"],
        &["reset", "--hard", "--recurse-submodules"],
        &["checkout", "--recurse-submodules", "--detach", "none"],
        &["checkout", "--recurse-submodules", "file"],
        &["checkout", "--recurse-submodules", "main"],
        &["checkout", "--recurse-submodules", "link"],
        &["checkout", "--recurse-submodules", "next"],
        &["reset", "--hard", "--recurse-submodules", "link"],
        &["reset", "--hard", "--recurse-submodules", "deep"],
        &["checkout", "-f", "--recurse-submodules", "main"],
    ] {
        let run = same(&oracle, args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        let configured: Vec<&str> =
            args.iter().copied().filter(|arg| *arg != "--recurse-submodules").collect();
        same(&oracle, &[&on[..], &configured].concat());
    }
}

#[test]
fn refuses_changes_in_submodules() {
    let oracle = Oracle::new(SAPWOOD, history);
    let all: &[&[&str]] = &[
        &["checkout", "--recurse-submodules", "next"],
        &["checkout", "--recurse-submodules", "none"],
        &["checkout", "-q", "--recurse-submodules", "deep"],
        &["reset", "--keep", "--recurse-submodules", "next"],
        &["reset", "--merge", "--recurse-submodules", "next"],
        &["read-tree", "-m", "-u", "--recurse-submodules", "main", "next"],
    ];
    oracle.both(|repo| repo.write("sub/changes", "mine\n"));
    for args in all {
        let run = same(&oracle, args);
        assert_ne!(run.code, 0, "{args:?}");
    }
    oracle.both(|repo| drop(repo.git(&["-C", "sub", "add", "changes"])));
    for args in all {
        let run = same(&oracle, args);
        assert!(run.stderr.contains_str("submodule 'sub' has dirty index"), "{args:?}: {}", run.stderr);
    }
    assert_eq!(oracle.ours().read("sub/changes"), "mine\n");
    same(&oracle, &["checkout", "-f", "--recurse-submodules", "next"]);
    oracle.both(|repo| repo.write("sub/changes", "mine\n"));
    same(&oracle, &["reset", "--hard", "--recurse-submodules", "deep"]);
    oracle.both(|repo| repo.write("sub/inner/changes", "mine\n"));
    same(&oracle, &["checkout", "--recurse-submodules", "-f", "main"]);
    // Without the option, submodules stay at their commits.
    same(&oracle, &["checkout", "next"]);
    same(&oracle, &["restore", "--recurse-submodules", "sub"]);
}

/// sapwood keeps these files; Git overwrites all of them.
#[test]
fn keeps_the_users_files_in_submodules() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let run = |args: &[&str]| repo.run(Path::new(SAPWOOD), args);
    repo.write("sub/stays", "mine\n");
    assert_eq!(run(&["checkout", "--recurse-submodules", "next"]).code, 0);
    assert_eq!((repo.read("sub/stays"), repo.read("sub/changes")), ("mine\n".into(), "two\n".into()));
    repo.git(&["-C", "sub", "checkout", "-q", "stays"]);
    repo.git(&["checkout", "-q", "--recurse-submodules", "main"]);
    repo.write("sub/two", "mine\n");
    let refused = run(&["checkout", "--recurse-submodules", "next"]);
    assert_eq!(refused.code, 1);
    let text = "Untracked working tree file 'sub/two' would be overwritten by merge.";
    assert!(refused.stderr.contains_str(text), "{}", refused.stderr);
    assert_eq!(repo.read("sub/two"), "mine\n");
    std::fs::remove_file(repo.join("sub/two")).expect("removed");
    repo.git(&["checkout", "-q", "--recurse-submodules", "deep"]);
    repo.write("sub/inner/changes", "mine\n");
    for to in ["main", "none"] {
        let refused = run(&["checkout", "--recurse-submodules", to]);
        assert_eq!((refused.code, repo.read("sub/inner/changes")), (1, "mine\n".into()));
        assert!(refused.stderr.contains_str("Entry 'sub/inner/changes' not uptodate"), "{}", refused.stderr);
    }
    // If a submodule cannot be checked out, nothing is changed.
    repo.git(&["checkout", "-q", "-f", "--recurse-submodules", "none"]);
    std::fs::rename(repo.join(".git/modules/sub"), repo.join(".git/kept")).expect("renamed");
    let refused = run(&["checkout", "--recurse-submodules", "main"]);
    assert_eq!(refused.code, 128);
    let text = "fatal: not a git repository: ../.git/modules/sub\nfatal: could not reset submodule index\n";
    assert_eq!(refused.stderr, text);
    assert!(!repo.exists(".gitmodules") && !repo.exists("sub/.git"));
}

#[test]
fn hands_over_unsupported_submodules() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    let args = ["checkout", "-q", "--recurse-submodules", "next"];
    assert_eq!(shim.run(&repo, &args).code, 0);
    shim.was_native(&args);
    repo.remove("sub/.git");
    std::fs::rename(repo.join(".git/modules/sub"), repo.join("sub/.git")).expect("renamed");
    repo.git(&["config", "-f", "sub/.git/config", "--unset", "core.worktree"]);
    let args = ["checkout", "--recurse-submodules", "main"];
    let refused = repo.run(Path::new(SAPWOOD), &args);
    assert_eq!((refused.code, repo.read("sub/changes")), (128, "two\n".into()), "{}", refused.stderr);
    assert_eq!(shim.run(&repo, &args).code, 0);
    shim.was_handed_over(&args, "submodule 'sub': its .git is a directory");
    assert_eq!(repo.read("sub/changes"), "one\n");
    repo.write(".git/modules/sub/hooks/reference-transaction", "#!/bin/sh\n");
    let args = ["reset", "--hard", "--recurse-submodules", "none"];
    assert_eq!(shim.run(&repo, &args).code, 0);
    shim.was_handed_over(&args, "there is a hook 'reference-transaction'");
}

/// Creates `deep` and `deeper` with the same nested submodule, which was checked out once but is
/// not checked out now.
fn nested_is_not_there(repo: &Repo<'_>) {
    history(repo);
    repo.git(&["checkout", "-q", "--recurse-submodules", "-b", "deeper", "deep"]);
    repo.write("sub/changes", "four\n");
    repo.git(&["-C", "sub", "commit", "-q", "-am", "four"]);
    repo.git(&["add", "sub"]);
    repo.commit("deeper");
    repo.git(&["checkout", "-q", "--recurse-submodules", "none"]);
    repo.git(&["checkout", "-q", "deeper"]);
    repo.git(&["submodule", "-q", "update"]);
    assert!(!repo.exists("sub/inner/.git"));
}

#[test]
fn checks_out_a_missing_nested_submodule() {
    let oracle = Oracle::new(SAPWOOD, nested_is_not_there);
    assert_eq!(same(&oracle, &["checkout", "--recurse-submodules", "deep"]).code, 0);
    assert_eq!(oracle.ours().read("sub/inner/changes"), "i3\n");
    let oracle = Oracle::new(SAPWOOD, nested_is_not_there);
    assert_eq!(same(&oracle, &["checkout", "--recurse-submodules", "main"]).code, 0);
    // An untracked file in its place stays, and the submodule is not checked out.
    let oracle = Oracle::new(SAPWOOD, nested_is_not_there);
    let repo = oracle.ours();
    repo.write("sub/inner/changes", "mine\n");
    assert_eq!(repo.run(Path::new(SAPWOOD), &["checkout", "--recurse-submodules", "deep"]).code, 0);
    assert_eq!(repo.read("sub/inner/changes"), "mine\n");
    assert!(!repo.exists("sub/inner/.git"));
}

/// Checks that the command of a killed run can be repeated.
fn done_again(repo: &Repo<'_>, to: &str, context: &str) {
    for dir in [".git", ".git/modules/sub", ".git/modules/sub/modules/inner"] {
        for lock in ["index.lock", "HEAD.lock", "config.lock"] {
            if repo.exists(format!("{dir}/{lock}")) {
                repo.remove(format!("{dir}/{lock}"));
            }
        }
    }
    assert_eq!(repo.try_git(&["fsck", "--no-dangling"]).code, 0, "{context}");
    assert_eq!(repo.try_git(&["status", "--porcelain"]).code, 0, "{context}");
    let again = repo.run(Path::new(SAPWOOD), &["checkout", "-q", "-f", "--recurse-submodules", to]);
    assert_eq!(again.code, 0, "{context}: {}", again.stderr);
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "", "{context}");
}

#[test]
fn recovers_from_a_kill_before_each_change() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    repo.git(&["config", "checkout.workers", "1"]);
    for (from, to) in [("main", "deep"), ("deep", "none"), ("none", "next"), ("next", "main")] {
        let back = || repo.git(&["checkout", "-q", "-f", "--recurse-submodules", from]);
        let switch = sapwood(&repo, &["checkout", "-q", "--recurse-submodules", to]);
        // The first switch creates the directories of logs, which each round finds.
        repo.git(&["checkout", "-q", "-f", "--recurse-submodules", to]);
        back();
        let points = CrashPoints::of(&switch);
        at_crash_points(&points, &Most(15, ALL), |number| {
            back();
            let crash = Crash::before(number, &switch);
            done_again(&repo, to, &format!("{from} to {to}, {crash}"));
            crash.happened()
        });
    }
}

/// A kill between the creation of a submodule's directory and its connection leaves an empty
/// directory, at which Git fails from then on.
#[test]
fn does_not_take_an_empty_directory_for_a_submodule() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    history(&repo);
    for force in [&["-f"][..], &[]] {
        repo.git(&["checkout", "-q", "-f", "--recurse-submodules", "main"]);
        std::fs::create_dir(repo.join("sub/inner")).expect("nothing is there");
        let modules = repo.git(&["-C", "sub", "show", "three:.gitmodules"]).stdout;
        repo.write("sub/.gitmodules", modules.as_slice());
        let args = [&["checkout", "-q", "--recurse-submodules"], force, &["deep"]].concat();
        assert_ne!(repo.try_git(&args).code, 0);
        if force.is_empty() {
            repo.remove("sub/.gitmodules");
        }
        let run = repo.run(Path::new(SAPWOOD), &args);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()));
        assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
        assert_eq!(repo.read("sub/inner/changes"), "i3\n");
    }
}
