//! `checkpoint`, `undo`, `redo`, `checkpoints` and `fork` as commands. The library has the tests of
//! the states.

mod costs;
mod shrinking;
mod unreadable;
mod watch;

use bstr::ByteSlice as _;
use serde_json::Value;
use testkit::{
    NoMountsBelow, Repo, Run, Sandbox,
    crash::{Crash, CrashPoints},
};

use crate::{
    SAPWOOD,
    killed::{ALL, Most, at_crash_points, sapwood},
};

fn run(repo: &Repo<'_>, args: &[&str]) -> Run {
    repo.run(SAPWOOD.as_ref(), args)
}

fn done(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = run(repo, args);
    assert_eq!((run.code, run.stderr.as_slice()), (0, &b""[..]), "{args:?}");
    run.stdout.to_string()
}

fn json(repo: &Repo<'_>, args: &[&str]) -> Value {
    serde_json::from_str(&done(repo, &[args, &["--json"]].concat())).expect("a document")
}

fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.write("dir/b", "1\n");
    repo.commit("one");
    repo
}

#[test]
fn commands_report_what_they_did() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    assert_eq!(done(&repo, &["checkpoints"]), "");
    assert_eq!(done(&repo, &["checkpoint", "-m", "first\nline"]), "Checkpoint 1\n");
    repo.write("a", "2\n");
    repo.write("new", "2\n");
    assert_eq!(done(&repo, &["checkpoint", "-q"]), "");
    repo.write("a", "3\n");
    let told = "The state before is checkpoint 3\nNow at the state of checkpoint 1: first\n";
    assert_eq!(done(&repo, &["undo", "2"]), told);
    assert_eq!((repo.read("a"), repo.exists("new")), ("1\n".into(), false));
    assert_eq!(done(&repo, &["redo"]), "Now at the state of checkpoint 2\n");
    assert_eq!(done(&repo, &["undo", "-q", "--to", "3"]), "");
    assert_eq!(repo.read("a"), "3\n");
    let listed = done(&repo, &["checkpoints"]);
    let kinds: Vec<&str> =
        listed.lines().map(|line| line.split("Z  ").nth(1).expect("a kind").trim()).collect();
    assert_eq!(kinds, ["undo to 3", "redo to 2", "undo to 1", "left", "checkpoint", "checkpoint    first"]);
    let stars: Vec<usize> =
        listed.lines().enumerate().filter(|(_, line)| line.starts_with('*')).map(|(at, _)| at).collect();
    assert_eq!(stars, [3]);
}

/// A label can come from a program that nobody trusts.
#[test]
fn a_terminal_gets_no_control_characters() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    done(&repo, &["checkpoint", "-m", "\x1b[31mred\x07 \u{9b}2J\nsecond line"]);
    repo.write("a", "2\n");
    let told = "The state before is checkpoint 2\nNow at the state of checkpoint 1:  [31mred   2J\n";
    assert_eq!(done(&repo, &["undo"]), told);
    assert!(!done(&repo, &["checkpoints"]).contains(['\x1b', '\x07', '\u{9b}']));
}

#[test]
fn documents_have_a_version() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = repository(&sandbox);
    repo.git(&["init", "-q", "nested"]);
    let made = json(&repo, &["checkpoint", "-m", "x"]);
    assert_eq!((&made["version"], &made["number"], &made["changed"]), (&1.into(), &1.into(), &true.into()));
    assert_eq!(made["ref"], "refs/sapwood/checkpoints/main/1");
    assert_eq!(made["leftOut"][0]["path"], "nested/");
    repo.write("a", "2\n");
    repo.remove("nested");
    let undone = json(&repo, &["undo"]);
    assert_eq!((&undone["version"], &undone["reached"], &undone["saved"]), (&1.into(), &1.into(), &2.into()));
    assert_eq!(
        (&undone["number"], &undone["written"], &undone["complete"]),
        (&3.into(), &1.into(), &true.into())
    );
    let listed = json(&repo, &["checkpoints"]);
    assert_eq!((&listed["version"], &listed["place"]), (&1.into(), &1.into()));
    let last = &listed["checkpoints"][2];
    assert_eq!(
        (&last["kind"], &last["shows"], &last["branch"]),
        (&"undo".into(), &1.into(), &"refs/heads/main".into())
    );
    assert_eq!(last["command"], "sapwood undo --json");
    repo.write("new", "2\n");
    let forked = json(&repo, &["fork", "one"]);
    assert_eq!((&forked["version"], &forked["workspace"]["branch"]), (&1.into(), &"one".into()));
    let forked = sandbox.repo(forked["workspace"]["dir"].as_str().expect("a path"));
    assert_eq!(forked.read("new"), "2\n");
    assert_eq!(forked.git(&["status", "--porcelain"]).stdout, "?? new\n");
}

#[test]
fn mistakes_change_nothing() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    for (args, code, message) in [
        (&["undo"][..], 1, "error: nothing to undo: 1 back is asked for, and 0 are there\n"),
        (&["redo"], 1, "error: nothing to redo\n"),
        (&["undo", "0"], 128, "fatal: '0' is no number from 1\n"),
        (&["undo", "1", "--to", "2"], 128, "fatal: give one number, or --to\n"),
        (&["undo", "--to", "7"], 128, "fatal: there is no checkpoint 7 of this worktree\n"),
        (&["checkpoint", "x"], 128, "fatal: unexpected argument 'x'\n"),
        (&["fork"], 128, "fatal: name the workspace, and at most its directory\n"),
        (&["fork", "a/b"], 128, "fatal: 'a/b' cannot be the name of a workspace"),
    ] {
        let run = run(&repo, args);
        assert_eq!((run.code, run.stdout.as_slice()), (code, &b""[..]), "{args:?}: {}", run.stderr);
        assert!(run.stderr.starts_with_str(message), "{args:?}: {}", run.stderr);
    }
    assert_eq!(repo.git(&["for-each-ref", "refs/sapwood"]).stdout, "");
    let bare = sandbox.repo("");
    bare.git(&["init", "-q", "--bare", "bare"]);
    assert_eq!(run(&sandbox.repo("bare"), &["checkpoint"]).code, 128);
}

/// In a directory below, which the undo would remove.
#[test]
fn the_current_directory_stays() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    done(&repo, &["checkpoint"]);
    repo.write("deep/er/file", "1\n");
    repo.write("deep/other/file", "1\n");
    done(&sandbox.repo("repo/deep/er"), &["undo"]);
    assert!(repo.exists("deep/er") && !repo.exists("deep/er/file") && !repo.exists("deep/other"));
    // The redo goes on there, and `-C` names no other directory.
    let there = sandbox.repo("repo/deep/er");
    done(&there, &["redo"]);
    assert!(repo.exists("deep/er/file"));
    done(&there, &["-C", "../..", "undo"]);
    assert!(repo.exists("deep/er") && !repo.exists("deep/er/file"));
}

/// A file would take the place of the current directory, or of one above it.
#[test]
fn the_current_directory_does_not_give_way_to_a_file() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("deep", "a file\n");
    done(&repo, &["checkpoint"]);
    repo.remove("deep");
    repo.write("a", "2\n");
    repo.write("deep/er/file", "1\n");
    for place in ["repo/deep", "repo/deep/er"] {
        let refused = run(&sandbox.repo(place), &["undo"]);
        let message = "fatal: 'deep' is in the way: it is the current directory, or has it inside\n";
        assert_eq!((refused.code, refused.stderr.to_str_lossy().as_ref()), (128, message));
        assert_eq!((repo.read("a"), repo.exists("deep/er/file")), ("2\n".into(), true));
    }
    std::fs::create_dir(repo.join("deeper")).expect("a directory");
    done(&sandbox.repo("repo/deeper"), &["undo"]);
    assert_eq!(repo.read("deep"), "a file\n");
}

/// From a directory below, the whole worktree is stored and restored.
#[test]
fn a_directory_below_is_no_limit() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write(".gitignore", "out/\n");
    repo.write("out/o", "ignored\n");
    repo.write("new/file", "1\n");
    for (place, content) in [("repo/dir", "2\n"), ("repo/new", "3\n"), ("repo/out", "4\n")] {
        repo.write("a", content);
        repo.write("dir/b", content);
        repo.write("beside", content);
        done(&sandbox.repo(place), &["checkpoint"]);
        for path in ["a", "dir/b", "beside"] {
            repo.write(path, "changed\n");
        }
        done(&sandbox.repo(place), &["undo"]);
        for path in ["a", "dir/b", "beside"] {
            assert_eq!(repo.read(path), content, "{path} in {place}");
        }
        assert_eq!((repo.read("out/o"), repo.read("new/file")), ("ignored\n".into(), "1\n".into()));
    }
}

/// A worktree with changes of every kind, whose last checkpoint is older.
fn changed(repo: &Repo<'_>) {
    repo.write("a", "changed\n");
    repo.git(&["add", "a"]);
    repo.write("a", "above\n");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.write("untracked/file", "untracked\n");
}

/// Returns the content of all files except `unique`.
fn contents(repo: &Repo<'_>) -> Vec<(String, String)> {
    let listed = repo.git(&["ls-files", "-z", "-c", "-o", "--exclude-standard"]).stdout.to_string();
    let mut names: Vec<&str> =
        listed.split('\0').filter(|name| !name.is_empty() && *name != "unique").collect();
    names.dedup();
    let file = |name: &str| {
        let is_file = std::fs::symlink_metadata(repo.join(name)).is_ok_and(|found| found.is_file());
        is_file.then(|| (name.to_owned(), repo.read(name).to_string()))
    };
    names.into_iter().filter_map(file).collect()
}

/// Whatever the moment of the kill: the repository is sound, and every state can be reached.
#[test]
fn a_killed_undo_loses_nothing() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    done(&repo, &["checkpoint"]);
    let first = contents(&repo);
    changed(&repo);
    let second = contents(&repo);
    let index = repo.git(&["ls-files", "--stage"]).stdout;
    let undo = sapwood(&repo, &["undo", "--to", "1", "--head"]);
    let unlock = || {
        for lock in [".git/index.lock", ".git/HEAD.lock", ".git/refs/heads/main.lock"] {
            if repo.exists(lock) {
                repo.remove(lock);
            }
        }
    };
    let is_second = |number: usize| {
        let is_unique = repo.exists("unique") && repo.read("unique") == number.to_string();
        is_unique && contents(&repo) == second && repo.git(&["ls-files", "--stage"]).stdout == index
    };
    // Goes back to the second state, which the worktree still has, or an entry.
    let back = |number: usize| {
        let listed = json(&repo, &["checkpoints"]);
        let entries = listed["checkpoints"].as_array().expect("a list").iter().rev();
        let mut numbers = entries.map(|entry| entry["number"].to_string());
        let restored = |entry: String| {
            done(&repo, &["undo", "-q", "--to", &entry]);
            is_second(number)
        };
        is_second(number) || numbers.any(restored)
    };
    // The first run creates directories.
    repo.write("unique", "0");
    done(&repo, &["undo", "-q", "--to", "1", "--head"]);
    assert!(back(0));
    repo.write("unique", "1");
    let points = CrashPoints::of(&undo);
    assert_eq!(contents(&repo), first);
    assert!(back(1));
    at_crash_points(&points, &Most(40, ALL), |number| {
        // A state without an entry.
        repo.write("unique", number.to_string());
        let crash = Crash::before(number, &undo);
        assert_eq!(repo.git(&["fsck", "--no-dangling"]).stderr, "", "{crash}");
        repo.git(&["--no-optional-locks", "status"]);
        unlock();
        assert!(back(number), "{crash}");
        done(&repo, &["undo", "-q", "--to", "1"]);
        assert_eq!(contents(&repo), first, "{crash}");
        assert!(back(number), "{crash}");
        crash.happened()
    });
}

#[test]
fn a_killed_checkpoint_or_fork_leaves_the_source_as_it_is() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = repository(&sandbox);
    changed(&repo);
    let state = || (contents(&repo), repo.git(&["status", "--porcelain", "-uall"]).stdout);
    let before = state();
    let checkpoint = sapwood(&repo, &["checkpoint"]);
    // The first one creates directories.
    done(&repo, &["checkpoint"]);
    repo.write("unique", "");
    at_crash_points(&CrashPoints::of(&checkpoint), &Most(20, ALL), |number| {
        repo.write("unique", number.to_string());
        let crash = Crash::before(number, &checkpoint);
        assert_eq!(repo.git(&["fsck", "--no-dangling"]).stderr, "", "{crash}");
        done(&repo, &["checkpoint"]);
        repo.remove("unique");
        assert_eq!(state(), before, "{crash}");
        crash.happened()
    });
    // The points of a fork: a workspace of a killed run is completed or removed by `gc`.
    let fork = sapwood(&repo, &["fork", "-q", "--backend", "copy", "f"]);
    let remove = || {
        run(&repo, &["workspace", "gc"]);
        run(&repo, &["workspace", "remove", "--force", "f"]);
        repo.try_git(&["worktree", "remove", "-f", "-f", "../repo.workspaces/f"]);
        let _ = std::fs::remove_dir_all(repo.join("../repo.workspaces"));
        repo.git(&["worktree", "prune"]);
        repo.try_git(&["branch", "-q", "-D", "f"]);
    };
    let points = CrashPoints::of(&fork);
    remove();
    at_crash_points(&points, &Most(12, ALL), |number| {
        let crash = Crash::before(number, &fork);
        assert_eq!(state(), before, "{crash}");
        assert_eq!(repo.git(&["fsck", "--no-dangling"]).stderr, "", "{crash}");
        remove();
        done(&repo, &["fork", "-q", "--backend", "copy", "f"]);
        remove();
        crash.happened()
    });
}
