//! Automatic maintenance after a commit: the command line of the real Git.

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use crate::shim::{Shim, finished};

/// A Git that logs its arguments. With `OLD` set, it fails like a version without `--detach`.
const GIT: &str = "#!/bin/sh
echo \"$@\" >>\"$LOG\"
case $1 in maintenance) echo said >&2; test -z \"$OLD\" || exit 129;; esac
";

#[test]
fn is_started_as_git_does() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write_executable("../real/git", GIT);
    // Two loose objects in the directory that Git counts: there may be work to do.
    for name in ["17/00000000000000000000000000000000000000", "17/11111111111111111111111111111111111111"] {
        repo.write(format!(".git/objects/{name}"), "");
    }
    let log = sandbox.path().join("log");
    let starts = |settings: &[&str], options: &[&str], old: &str| {
        let _ = std::fs::remove_file(&log);
        let mut command = shim.command(&repo);
        command.env("SAPWOOD_GIT", sandbox.path().join("real/git")).env("LOG", &log).env("OLD", old);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let run = finished(command.args(["commit", "--allow-empty", "-m", "x"]).args(options));
        assert_eq!(run.code, 0, "{settings:?}: {}", run.stderr);
        shim.was_native(settings);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let expected = if said.is_empty() || !old.is_empty() { "" } else { "said\n" };
        assert_eq!(run.stderr, expected, "{settings:?}");
        said
    };
    // The sandbox configures maintenance in the foreground.
    assert_eq!(starts(&[], &[], ""), "maintenance run --auto --no-quiet --no-detach\n");
    assert_eq!(starts(&[], &["-q"], ""), "maintenance run --auto --quiet --no-detach\n");
    for detaching in ["maintenance.autoDetach=true", "gc.autoDetach=true"] {
        let said = starts(&[detaching], &["-q"], "");
        assert_eq!(said, "maintenance run --auto --quiet --detach\n", "{detaching}");
    }
    for off in [&["maintenance.auto=false"][..], &["gc.auto=0"], &["gc.auto=-1"]] {
        assert_eq!(starts(off, &[], ""), "", "{off:?}");
    }
    assert_ne!(starts(&["gc.auto=0", "maintenance.auto=true"], &[], ""), "");
    let said = starts(&[], &["-q"], "1");
    assert_eq!(said, "maintenance run --auto --quiet --no-detach\ngc --auto --quiet\n");
}

/// Where the real Git finds work, it is started. In a small repository no process is.
#[test]
fn starts_only_where_there_may_be_work() {
    type Change = fn(&Repo<'_>);
    let changes: [(&str, Change, bool); 12] = [
        ("one commit", |_| (), false),
        ("60 commits", |repo| commits(repo, 60), false),
        ("120 commits", |repo| commits(repo, 120), true),
        (
            "120 commits in a graph",
            |repo| {
                commits(repo, 120);
                repo.git(&["commit-graph", "write", "--reachable"]);
                // The dates of a sandbox are years ago.
                repo.remove(".git/logs/HEAD");
            },
            false,
        ),
        (
            "two packs",
            |repo| {
                for count in [1, 2] {
                    commits(repo, count);
                    repo.git(&["repack", "-q"]);
                }
            },
            true,
        ),
        (
            "loose objects",
            |repo| {
                let mut blobs = (0..).map(|number| format!("{number}\n"));
                let in_17 = |repo: &Repo<'_>| {
                    std::fs::read_dir(repo.join(".git/objects/17")).map_or(0, Iterator::count)
                };
                while in_17(repo) < 2 {
                    repo.write("blob", blobs.next().expect("endless"));
                    repo.git(&["hash-object", "-w", "blob"]);
                }
            },
            true,
        ),
        (
            "20 branches",
            |repo| {
                for number in 0..20 {
                    repo.git(&["branch", &format!("b/{number}")]);
                }
            },
            true,
        ),
        (
            "20 packed branches",
            |repo| {
                for number in 0..20 {
                    repo.git(&["branch", &format!("b/{number}")]);
                }
                repo.git(&["pack-refs", "--all"]);
            },
            false,
        ),
        (
            "an old reflog",
            |repo| {
                let line = repo.read(".git/logs/HEAD");
                let old = line.replace("> ", "> 1000000000 +0000 ");
                repo.write(".git/logs/HEAD", old.repeat(120));
            },
            true,
        ),
        (
            "commits of a tag",
            |repo| {
                repo.git(&["switch", "-q", "--detach"]);
                commits(repo, 120);
                repo.git(&["tag", "-a", "-m", "x", "t"]);
                repo.git(&["switch", "-q", "main"]);
                // A long reflog is a reason of its own.
                repo.remove(".git/logs/HEAD");
            },
            true,
        ),
        ("recorded conflicts", |repo| repo.write(".git/rr-cache/1234/preimage", "x"), true),
        (
            "a setting",
            |repo| {
                repo.git(&["config", "maintenance.pack-refs.enabled", "true"]);
            },
            true,
        ),
    ];
    let shim = Shim::new();
    for (name, change, expected) in changes {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        repo.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        change(&repo);
        let is_needed = repo.try_git(&["maintenance", "is-needed", "--auto"]).code == 0;
        assert!(expected || !is_needed, "{name}: Git finds work");
        repo.write_executable("../real/git", GIT);
        let log = sandbox.path().join("log");
        let mut command = shim.command(&repo);
        command.env("SAPWOOD_GIT", sandbox.path().join("real/git")).env("LOG", &log);
        let run = finished(command.args(["commit", "-q", "--allow-empty", "-m", "x"]));
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        assert_eq!(log.exists(), expected, "{name}");
    }
}

fn commits(repo: &Repo<'_>, count: usize) {
    for number in 0..count {
        repo.git(&[
            "-c",
            "maintenance.auto=false",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            &number.to_string(),
        ]);
    }
}
