//! Kills a switch and a clone with SIGKILL before each change on disk. The repository opens, `git
//! fsck` is clean, a stale lock is reported, and the same command completes when it runs again.

mod commands;
mod resumed;

use std::{path::Path, process::Command};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Sandbox,
    crash::{Crash, CrashPoints},
    shared_data,
};

use crate::{SAPWOOD, full};

/// The numbers of crash points that a test goes through, if there are more: in the usual run, and
/// in full.
pub(crate) struct Most(pub(crate) usize, pub(crate) usize);

/// All crash points of a command with few changes.
pub(crate) const ALL: usize = usize::MAX;

/// Calls `kill` with numbers of changes. It returns true if the command came to the change. The
/// work of threads differs a little from run to run, but most runs must have been killed.
pub(crate) fn at_crash_points(points: &CrashPoints, most: &Most, mut kill: impl FnMut(usize) -> bool) {
    let numbers = points.sample(if full() { most.1 } else { most.0 });
    let killed = numbers.iter().filter(|number| kill(**number)).count();
    println!("{killed} runs were killed at {} of {} crash points", numbers.len(), points.count());
    assert!(4 * killed >= 3 * numbers.len(), "{killed} kills at {numbers:?}");
}

/// Returns sapwood's command in a directory.
pub(crate) fn sapwood(repo: &Repo<'_>, args: &[&str]) -> Command {
    let mut command = repo.command(Path::new(SAPWOOD));
    command.args(args);
    command
}

/// Checks that Git can use the repository.
fn usable(repo: &Repo<'_>, context: &str) {
    usable_objects(repo, context);
    let status = repo.try_git(&["--no-optional-locks", "status", "--porcelain"]);
    assert_eq!(status.code, 0, "{context}: status: {}", status.stderr);
}

fn usable_objects(repo: &Repo<'_>, context: &str) {
    let fsck = repo.try_git(&["fsck", "--no-dangling", "--connectivity-only"]);
    // In a clone without refs, fsck reports that HEAD's branch is unborn.
    let faults: Vec<&str> =
        fsck.stderr.to_str().expect("text").lines().filter(|line| !line.starts_with("notice: ")).collect();
    assert_eq!((fsck.code, faults), (0, Vec::new()), "{context}: fsck");
}

/// Runs a command that a lock of a killed one may block. The message names the lock. Returns the
/// number of locks that were in the way.
fn done_in_spite_of_locks(repo: &Repo<'_>, args: &[&str], context: &str) -> usize {
    let mut locks = 0;
    let mut run = repo.run(Path::new(SAPWOOD), args);
    for name in ["index.lock", "HEAD.lock"] {
        let lock = format!(".git/{name}");
        if run.code != 0 && repo.exists(&lock) {
            locks += 1;
            let path = repo.join(&lock).display().to_string();
            assert_eq!(run.code, 128, "{context}: {}", run.stderr);
            let text = run.stderr.to_string();
            assert!(text.contains(&format!("Unable to create '{path}': File exists.")), "{context}: {text}");
            assert!(text.contains("the lock file may be stale"), "{context}: {text}");
            repo.remove(&lock);
            run = repo.run(Path::new(SAPWOOD), args);
        }
    }
    assert_eq!(run.code, 0, "{context}: {}", run.stderr);
    locks
}

/// Kills a switch from `old` to `new` at its crash points, and lets `check` look at the state.
fn switches(repo: &Repo<'_>, (old, new): (&str, &str), most: &Most, check: impl Fn(&str)) {
    let switch = sapwood(repo, &["checkout", "-q", new]);
    let back = || repo.git(&["checkout", "-q", "-f", old]);
    // The first switch creates the directories of logs, which each round finds.
    repo.git(&["checkout", "-q", "-f", new]);
    back();
    let points = CrashPoints::of(&switch);
    let commits = repo.git(&["rev-parse", old, new]).stdout;
    let mut stale_locks = 0;
    at_crash_points(&points, most, |number| {
        back();
        let crash = Crash::before(number, &switch);
        let context = format!("{old} to {new}, {crash}");
        usable(repo, &context);
        let head = repo.git(&["rev-parse", "HEAD"]).stdout;
        assert!(commits.lines().any(|commit| commit == head.trim_end()), "{context}: HEAD is {head}");
        check(&context);
        stale_locks += done_in_spite_of_locks(repo, &["checkout", "-q", "-f", new], &context);
        let status = repo.git(&["status", "--porcelain", "-uno"]).stdout;
        assert_eq!(status, "", "{context}: the second run did not finish the work");
        let head = repo.git(&["rev-parse", "HEAD", new]).stdout.to_string();
        let ids: Vec<&str> = head.lines().collect();
        assert_eq!(ids[0], ids[1], "{context}");
        crash.happened()
    });
    println!("{stale_locks} stale locks met");
    assert!(stale_locks > 0, "{old} to {new}: no kill came between a lock and its end");
}

#[test]
fn switch_recovers_from_a_kill_before_each_change() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for name in ["changed", "gone/file", "mode", "kind", "same"] {
        repo.write(name, format!("old {name}\n"));
    }
    repo.commit("old");
    repo.git(&["branch", "old"]);
    repo.write("changed", "new changed\n");
    repo.write_executable("mode", "old mode\n");
    repo.write("added/deep/file", "new added\n");
    repo.remove("gone");
    repo.remove("kind");
    repo.symlink("same", "kind");
    repo.commit("new");
    repo.git(&["branch", "new"]);
    repo.write("own/untracked", "untracked\n");
    repo.write("added/own", "beside a new file\n");
    for sides in [("old", "new"), ("new", "old")] {
        switches(&repo, sides, &Most(ALL, ALL), |context| {
            assert_eq!(repo.read("own/untracked"), "untracked\n", "{context}");
            assert_eq!(repo.read("added/own"), "beside a new file\n", "{context}");
            assert_eq!(repo.read("same"), "old same\n", "{context}");
        });
    }
}

/// The user's change of a file that is equal in both commits stays, at each crash point.
#[test]
fn a_killed_switch_keeps_local_changes() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("mine", "committed\n");
    repo.write("file", "old\n");
    repo.commit("old");
    repo.git(&["branch", "old"]);
    repo.write("file", "new\n");
    repo.commit("new");
    repo.git(&["branch", "new"]);
    let switch = sapwood(&repo, &["checkout", "-q", "new"]);
    let prepare = || {
        repo.git(&["checkout", "-q", "-f", "old"]);
        repo.write("mine", "changed\n");
    };
    prepare();
    at_crash_points(&CrashPoints::of(&switch), &Most(ALL, ALL), |number| {
        prepare();
        let crash = Crash::before(number, &switch);
        usable(&repo, &crash.to_string());
        assert_eq!(repo.read("mine"), "changed\n", "{crash}");
        // The file is the one of a commit: nothing is lost by another switch with force.
        let file = if repo.exists("file") { repo.read("file") } else { "".into() };
        assert!(["old\n", "new\n", ""].iter().any(|content| file == **content), "{crash}: {file}");
        for lock in [".git/index.lock", ".git/HEAD.lock"].iter().filter(|lock| repo.exists(lock)) {
            repo.remove(lock);
        }
        crash.happened()
    });
}

#[test]
fn large_switch_recovers_from_a_kill_at_any_change() {
    let Some(bundle) = shared_data("ripgrep.bundle") else { return };
    let sandbox = Sandbox::new();
    sandbox.repo("").git(&["clone", "-q", &bundle.display().to_string(), "repo"]);
    let repo = sandbox.repo("repo");
    repo.git(&["branch", "-q", "old", "HEAD~800"]);
    repo.git(&["branch", "-q", "new", "origin/HEAD"]);
    switches(&repo, ("new", "old"), &Most(12, 500), |_| {});
    switches(&repo, ("old", "new"), &Most(12, 500), |_| {});
}

/// Kills a clone of `source.git` at its crash points.
fn clones(sandbox: &Sandbox, most: &Most) {
    let root = sandbox.repo("");
    let args = ["clone", "-q", "source.git", "copy"];
    let clone = sapwood(&root, &args);
    let points = CrashPoints::of(&clone);
    let refused = |context: &str| {
        let run = root.run(Path::new(SAPWOOD), &args);
        let refusal = "fatal: destination path 'copy' already exists and is not an empty directory.\n";
        assert_eq!((run.code, run.stderr.to_string()), (128, refusal.to_owned()), "{context}");
    };
    refused("not killed");
    let copy = sandbox.repo("copy");
    let source = sandbox.repo("source.git").git(&["rev-parse", "HEAD"]).stdout;
    let mut resumed = 0;
    at_crash_points(&points, most, |number| {
        if root.exists("copy") {
            root.remove("copy");
        }
        let crash = Crash::before(number, &clone);
        let context = crash.to_string();
        if copy.exists(".git/HEAD") {
            usable(&copy, &context);
        }
        // The marker is created with the repository and removed last. Without it the clone is
        // complete, and a second clone is refused as Git refuses it.
        if copy.exists(".git") && !copy.exists(".git/sapwood-clone") {
            refused(&context);
        } else {
            resumed += 1;
            let run = root.run(Path::new(SAPWOOD), &args);
            assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        }
        usable(&copy, &context);
        for name in ["sapwood-clone", "index.lock", "HEAD.lock"] {
            assert!(!copy.exists(format!(".git/{name}")), "{context}: {name} is left");
        }
        let status = copy.git(&["status", "--porcelain"]).stdout;
        assert_eq!(status, "", "{context}: the second run did not finish the work");
        assert_eq!(copy.git(&["rev-parse", "HEAD"]).stdout, source, "{context}");
        crash.happened()
    });
    println!("{resumed} clones were resumed");
    assert!(resumed > 0, "each kill came after the end");
}

#[test]
fn clone_recovers_from_a_kill_before_each_change() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    source.write("a/file", "one\n");
    source.write_executable("run", "two\n");
    source.symlink("run", "link");
    source.commit("one");
    sandbox.repo("").git(&["clone", "-q", "--bare", "source", "source.git"]);
    clones(&sandbox, &Most(60, ALL));
}

#[test]
fn large_clone_recovers_from_a_kill_at_any_change() {
    let Some(bundle) = shared_data("ripgrep.bundle") else { return };
    let sandbox = Sandbox::new();
    let bundle = bundle.display().to_string();
    sandbox.repo("").git(&["clone", "-q", "--bare", &bundle, "source.git"]);
    clones(&sandbox, &Most(12, 500));
}
