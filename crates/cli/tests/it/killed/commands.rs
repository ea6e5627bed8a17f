//! Commands of every day, killed before each change on disk. Nothing of the user's is lost, Git can
//! use the repository, each lock that is left is named by a command that it blocks, and the work
//! goes on.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::{BString, ByteSlice as _};
use testkit::{
    Repo, Run, Sandbox,
    crash::{Crash, CrashPoints, Signal},
};

use super::{ALL, Most, at_crash_points, sapwood};
use crate::{SAPWOOD, bounded, seen::names};

/// A text that only this version of a file has.
const EDITED: &str = "my edit, not staged";
const STAGED: &str = "my edit, staged";
const UNTRACKED: &str = "my file, not tracked";
const COMMITTED: &str = "my edit, committed";

/// The answer to the same command after the kill.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// It succeeds, whether or not it was done.
    Succeeds,
    /// It may fail if something of it was done, as `mv` does.
    Any,
}

/// A command, and the state before it.
struct Case {
    /// A script that runs in a repository with an edit of each kind.
    before: &'static str,
    args: &'static [&'static str],
    /// Texts that the command is asked to drop.
    dropped: &'static [&'static str],
    again: Again,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.args.join(" "))
    }
}

const fn case(before: &'static str, args: &'static [&'static str], again: Again) -> Case {
    Case { before, args, dropped: &[], again }
}

const fn dropping(dropped: &'static [&'static str], args: &'static [&'static str]) -> Case {
    Case { before: "", args, dropped, again: Again::Succeeds }
}

use Again::{Any, Succeeds};

const CASES: &[Case] = &[
    case("", &["add", "-A"], Succeeds),
    case("", &["-c", "sapwood.packOnAdd=1", "add", "-A"], Succeeds),
    case("", &["commit", "-q", "-m", "new"], Any),
    case("", &["commit", "-q", "-a", "--amend", "-m", "new"], Succeeds),
    case("", &["stash", "push", "-q", "--include-untracked"], Succeeds),
    case("git stash push -q -u", &["stash", "pop", "-q", "--index"], Any),
    case("git stash push -q -u", &["stash", "apply", "-q", "--index"], Any),
    case("", &["reset", "-q", "HEAD~1"], Any),
    case("", &["rm", "-q", "--cached", "-f", "staged"], Any),
    case("", &["mv", "same", "moved"], Any),
    case("", &["mv", "dir", "elsewhere"], Any),
    case("", &["checkout", "-q", "-b", "new"], Any),
    case("", &["switch", "-q", "--detach", "side"], Any),
    case("", &["worktree", "add", "-q", "../linked", "side"], Any),
    case("git worktree add -q ../linked side", &["worktree", "remove", "../linked"], Any),
    case("git worktree add -q ../linked side", &["worktree", "move", "../linked", "../moved"], Any),
    case("", &["update-ref", "refs/heads/new", "HEAD"], Succeeds),
    case("git pack-refs --all", &["update-ref", "-d", "refs/heads/side"], Succeeds),
    case("", &["fetch", "-q", "../upstream", "main:refs/remotes/up/main"], Succeeds),
    case("git stash push -q -u", &["pull", "-q", "--ff-only", "../upstream", "main"], Any),
    case("git repack -q", &["multi-pack-index", "write"], Succeeds),
    case("", &["commit-graph", "write", "--reachable"], Succeeds),
    case("git repack -q -a", &["prune-packed", "-q"], Succeeds),
    case("", &["config", "set", "a.b", "c"], Succeeds),
    case("git stash push -q -u", &["read-tree", "-m", "-u", "HEAD", "side"], Any),
    dropping(&[EDITED, STAGED], &["reset", "-q", "--hard"]),
    dropping(&[EDITED], &["checkout", "-q", "--", "edited"]),
    dropping(&[UNTRACKED], &["clean", "-q", "-f", "-d"]),
];

/// Creates a repository with a branch, an upstream that is one commit ahead, and edits of all
/// kinds.
fn scene<'s>(sandbox: &'s Sandbox, case: &Case) -> Repo<'s> {
    let repo = sandbox.init("repo");
    // Git's maintenance has locks of its own, at which later runs stay silent.
    repo.git(&["config", "maintenance.auto", "false"]);
    for name in ["edited", "staged", "same", "dir/one", "dir/two"] {
        repo.write(name, format!("{name}\n"));
    }
    repo.commit("one");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("side", "of the branch\n");
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("dir/one", format!("{COMMITTED}\n"));
    repo.commit("two");
    repo.git(&["clone", "-q", ".", "../upstream"]);
    let upstream = sandbox.repo("upstream");
    upstream.write("ahead", "of the upstream\n");
    upstream.commit("three");
    repo.write("edited", format!("{EDITED}\n"));
    repo.write("staged", format!("{STAGED}\n"));
    repo.git(&["add", "staged"]);
    repo.write("own/file", format!("{UNTRACKED}\n"));
    let run = repo.run(Path::new("sh"), &["-ec", case.before]);
    assert_eq!(run.code, 0, "{case}: {}", run.stderr);
    repo
}

/// Copies the places of a sandbox into another one, with the times of all files.
fn copy<'s>(from: &Sandbox, to: &'s Sandbox) -> Repo<'s> {
    for name in ["repo", "upstream", "linked"].into_iter().filter(|name| from.repo("").exists(name)) {
        let copied = Command::new("cp").arg("-a").args([from.path().join(name), to.path()]).status();
        assert!(copied.expect("cp runs").success());
    }
    if to.repo("").exists("linked") {
        to.repo("repo").git(&["worktree", "repair", "../linked"]);
    }
    to.repo("repo").git(&["update-index", "-q", "--refresh"]);
    to.repo("repo")
}

/// Returns everything that a user can get back: the contents of the worktree, and of the objects
/// that refs, reflogs and the index name.
fn contents(repo: &Repo<'_>) -> BString {
    let script = "find . -path ./.git -prune -o -type f -exec cat {} +
        git rev-list --objects --no-object-names --all --reflog --indexed-objects | git cat-file --batch";
    let run = repo.run(Path::new("sh"), &["-ec", script]);
    assert_eq!((run.code, run.stderr.as_bstr()), (0, b"".as_bstr()));
    run.stdout
}

/// Returns the lock that a message names. The message about a configuration file does not name the
/// lock itself, as in Git.
fn named_lock(text: &str, context: &str) -> Option<PathBuf> {
    if let Some((_, rest)) = text.split_once("could not lock config file ") {
        let (path, _) = rest.split_once(": File exists").expect("a lock");
        return Some(format!("{path}.lock").into());
    }
    let (_, rest) = text.split_once("Unable to create '")?;
    let (lock, rest) = rest.split_once("': File exists.")?;
    assert!(rest.contains("may be stale"), "{context}: {text}");
    Some(lock.into())
}

/// Runs a command until no lock is in its way, and removes the locks that it names.
fn without_locks(repo: &Repo<'_>, args: &[&str], context: &str) -> Run {
    loop {
        let run = repo.run(Path::new(SAPWOOD), args);
        let text = run.stderr.to_string();
        assert!(!text.contains("panicked"), "{context}: {text}");
        let Some(lock) = named_lock(&text, context) else { return run };
        fs::remove_file(repo.path.join(&lock)).unwrap_or_else(|error| panic!("{context}: {lock:?}: {error}"));
    }
}

fn locks(repo: &Repo<'_>) -> Vec<String> {
    let names = names(&repo.join(".git")).into_iter().map(|name| name.to_string());
    names.filter(|name| name.ends_with(".lock")).collect()
}

/// Asks about the locks of refs that `commit` does not update.
fn update_other_refs(repo: &Repo<'_>, context: &str) {
    for lock in locks(repo) {
        let name = lock.trim_end_matches(".lock");
        if ["AUTO_MERGE", "ORIG_HEAD"].contains(&name) || name.starts_with("refs/") {
            let run = without_locks(repo, &["update-ref", name, "HEAD"], context);
            assert_eq!(run.code, 0, "{context}: {name}: {}", run.stderr);
        }
    }
}

fn check(case: &Case) {
    let origin = Sandbox::new();
    scene(&origin, case);
    let whole = Sandbox::new();
    let points = CrashPoints::of(&sapwood(&copy(&origin, &whole), case.args));
    at_crash_points(&points, &Most(5, ALL), |number| {
        let sandbox = Sandbox::new();
        let repo = copy(&origin, &sandbox);
        let crash = Crash::before(number, &sapwood(&repo, case.args));
        let context = format!("{case}, {crash}");
        let fsck = repo.try_git(&["fsck", "--no-dangling"]);
        assert_eq!((fsck.code, fsck.stderr.as_bstr()), (0, b"".as_bstr()), "{context}: fsck");
        let found = contents(&repo);
        for text in [EDITED, STAGED, UNTRACKED, COMMITTED] {
            let is_kept = found.contains_str(text) || case.dropped.contains(&text);
            assert!(is_kept, "{context}: '{text}' is lost");
        }
        let again = without_locks(&repo, case.args, &context);
        assert!(again.code == 0 || case.again == Any, "{context}: again: {}", again.stderr);
        // The work goes on, whatever was done.
        for args in [&["add", "-A"][..], &["commit", "-q", "--allow-empty", "-m", "after"]] {
            let run = without_locks(&repo, args, &context);
            assert_eq!(run.code, 0, "{context}: {args:?}: {}", run.stderr);
        }
        update_other_refs(&repo, &context);
        assert_eq!(locks(&repo), [""; 0], "{context}: nobody names these locks");
        let (fsck, status) = (repo.try_git(&["fsck", "--no-dangling"]), repo.git(&["status", "--porcelain"]));
        assert_eq!((fsck.code, fsck.stderr.as_bstr()), (0, b"".as_bstr()), "{context}: fsck afterwards");
        assert_eq!(status.stdout, "", "{context}: status afterwards");
        crash.happened()
    });
}

#[test]
fn nothing_is_lost_when_a_command_is_killed() {
    bounded(CASES.iter().collect(), CASES.len(), |case| check(case));
}

/// As in Git, only SIGKILL leaves locks.
fn check_signals(case: &Case) {
    let origin = Sandbox::new();
    scene(&origin, case);
    let whole = Sandbox::new();
    let points = CrashPoints::of(&sapwood(&copy(&origin, &whole), case.args));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        at_crash_points(&points, &Most(4, ALL), |number| {
            let sandbox = Sandbox::new();
            let repo = copy(&origin, &sandbox);
            let crash = Crash::interrupted(number, &sapwood(&repo, case.args), signal);
            let context = format!("{case}, {crash}");
            let code = crash.code();
            assert!([0, 128 + signal as i32].contains(&code), "{context}: {code}: {}", crash.stderr());
            assert_eq!(locks(&repo), [""; 0], "{context}");
            crash.happened()
        });
    }
}

#[test]
fn a_signal_leaves_no_lock() {
    bounded(CASES.iter().collect(), CASES.len(), |case| check_signals(case));
}
