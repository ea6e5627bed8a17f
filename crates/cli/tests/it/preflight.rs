//! Commands check every known reason for failure before they write. A command that fails for such a
//! reason leaves worktree, index and `.git` as they were.
//!
//! sapwood prints Git's message and exits with Git's code. If Git checks later, when it has already
//! written something, only the last line of its output is compared: see docs/differences.md.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Repo, Run};

use crate::SAPWOOD;

/// The moment when Git detects the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Git {
    /// Before Git writes, like sapwood.
    BeforeWriting,
    /// After Git has written something.
    Later,
    /// After Git has written files, which it removes again.
    Removed,
    /// Never: Git has no such command.
    Never,
}
use Git::{BeforeWriting, Later, Never, Removed};

/// A reason to fail, and the commands that fail for it.
struct Reason {
    name: &'static str,
    /// Creates the obstacle in the repository.
    arrange: fn(&Repo<'_>),
    date: &'static str,
    commands: &'static [(&'static [&'static str], Git)],
}

const GOOD_DATE: &str = "1112911993 -0700";

/// Creates two branches whose files differ, some of them with a filter attribute, a tag, and a
/// branch to track.
fn setup(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("dir/f.x", "one\n");
    repo.write(".gitattributes", "*.x filter=need\n");
    repo.commit("first");
    repo.git(&["tag", "v1"]);
    repo.git(&["branch", "topic"]);
    repo.write("a", "two\n");
    repo.write("new", "new\n");
    repo.commit("second");
    repo.git(&["switch", "-q", "topic"]);
    repo.write("dir/b", "topic\n");
    repo.write("dir/f.x", "topic\n");
    repo.commit("on topic");
    repo.git(&["switch", "-q", "main"]);
    repo.write("untracked", "mine\n");
}

fn lock(repo: &Repo<'_>, name: &str) {
    repo.write(format!(".git/{name}.lock"), "");
}

/// Configures a required filter that can clean but not smudge.
fn require_a_filter(repo: &Repo<'_>) {
    // Dates the file before the index, so that no command reads it.
    let file = fs::File::options().write(true).open(repo.join("dir/f.x")).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)).expect("a time");
    repo.git(&["update-index", "-q", "--refresh"]);
    repo.git(&["config", "filter.need.required", "true"]);
    repo.git(&["config", "filter.need.clean", "cat"]);
}

const REASONS: &[Reason] = &[
    Reason {
        name: "a date that Git does not take",
        arrange: |_| {},
        date: "yesterday",
        commands: &[
            (&["switch", "topic"], Later),
            (&["switch", "-c", "b"], Later),
            (&["switch", "-c", "b", "topic"], Later),
            (&["switch", "-C", "b", "topic"], Later),
            (&["switch", "--detach", "topic"], Later),
            (&["checkout", "topic"], Later),
            (&["checkout", "-f", "topic"], Later),
            (&["checkout", "-b", "b"], Later),
            (&["checkout", "-B", "topic", "main^"], Later),
            (&["reset", "--hard", "HEAD^"], Later),
            (&["reset", "--keep", "HEAD^"], Later),
            (&["reset", "--merge", "HEAD^"], Later),
            (&["reset", "HEAD^"], Later),
            (&["reset", "--soft", "HEAD^"], Later),
            (&["worktree", "add", "../linked"], Later),
            (&["worktree", "add", "-b", "b", "../linked"], Later),
            (&["worktree", "add", "--detach", "../linked"], Later),
            // Git removes the files that it has created so far.
            (&["clone", ".", "../cloned"], Removed),
        ],
    },
    Reason {
        name: "a lock of HEAD",
        arrange: |repo| lock(repo, "HEAD"),
        date: GOOD_DATE,
        commands: &[
            (&["switch", "topic"], Later),
            (&["switch", "-c", "b"], Later),
            (&["switch", "-c", "b", "topic"], Later),
            (&["switch", "--orphan", "b"], Later),
            (&["switch", "--detach", "topic"], Later),
            (&["checkout", "topic"], Later),
            (&["checkout", "-f", "topic"], Later),
            (&["reset", "--hard", "HEAD^"], Later),
            (&["reset", "--keep", "HEAD^"], Later),
            (&["reset", "HEAD^"], Later),
            (&["reset", "--soft", "HEAD^"], Later),
        ],
    },
    Reason {
        name: "a lock of a branch",
        arrange: |repo| {
            lock(repo, "refs/heads/b");
            lock(repo, "refs/heads/main");
        },
        date: GOOD_DATE,
        commands: &[
            (&["switch", "-c", "b"], BeforeWriting),
            (&["switch", "-c", "b", "topic"], Later),
            (&["checkout", "-B", "b", "topic"], Later),
            (&["reset", "--hard", "HEAD^"], Later),
            (&["worktree", "add", "-b", "b", "../linked"], BeforeWriting),
        ],
    },
    Reason {
        name: "a name that another branch makes impossible",
        arrange: |_| {},
        date: GOOD_DATE,
        commands: &[
            (&["switch", "-c", "topic/b"], BeforeWriting),
            (&["switch", "-c", "topic/b", "topic"], Later),
            (&["checkout", "-b", "topic/b/c", "topic"], Later),
            (&["worktree", "add", "-b", "topic/b", "../linked"], BeforeWriting),
        ],
    },
    Reason {
        name: "a name that a packed branch makes impossible",
        arrange: |repo| {
            repo.git(&["branch", "d/e"]);
            repo.git(&["pack-refs", "--all"]);
        },
        date: GOOD_DATE,
        commands: &[
            (&["switch", "-c", "d"], BeforeWriting),
            (&["switch", "-c", "d", "topic"], Later),
            (&["switch", "-c", "topic/b", "topic"], Later),
        ],
    },
    Reason {
        name: "reflogs below that of a branch",
        arrange: |repo| repo.write(".git/logs/refs/heads/b/c", ""),
        date: GOOD_DATE,
        commands: &[(&["switch", "-c", "b"], BeforeWriting), (&["switch", "-c", "b", "topic"], Later)],
    },
    Reason {
        name: "nothing to follow",
        arrange: |_| {},
        date: GOOD_DATE,
        commands: &[
            (&["switch", "-t", "-c", "b", "v1"], Later),
            (&["checkout", "-t", "-b", "b", "topic~0"], Later),
        ],
    },
    Reason {
        name: "a name that stands for several refs",
        arrange: |repo| {
            repo.git(&["tag", "both", "topic"]);
            repo.git(&["branch", "both", "main~1"]);
        },
        date: GOOD_DATE,
        commands: &[
            (&["switch", "-c", "b", "both"], Later),
            (&["checkout", "-b", "b", "both"], Later),
            (&["checkout", "-B", "topic", "both"], Later),
        ],
    },
    Reason {
        name: "a lock of the configuration",
        arrange: |repo| lock(repo, "config"),
        date: GOOD_DATE,
        commands: &[(&["-c", "core.packedRefsTimeout=0", "switch", "-t", "-c", "b", "topic"], Later)],
    },
    Reason {
        name: "a lock of the index",
        arrange: |repo| lock(repo, "index"),
        date: GOOD_DATE,
        commands: &[
            (&["switch", "topic"], BeforeWriting),
            (&["switch", "-c", "b", "topic"], BeforeWriting),
            (&["checkout", "topic"], BeforeWriting),
            (&["checkout", "-f", "topic"], BeforeWriting),
            (&["checkout", "topic", "--", "dir"], BeforeWriting),
            (&["checkout", "--", "a"], BeforeWriting),
            (&["restore", "a"], BeforeWriting),
            (&["restore", "--staged", "--source=topic", "a"], BeforeWriting),
            (&["reset", "--hard", "HEAD^"], BeforeWriting),
            (&["reset", "HEAD^"], BeforeWriting),
            (&["reset", "topic", "--", "a"], BeforeWriting),
            (&["read-tree", "-m", "-u", "topic"], BeforeWriting),
            (&["read-tree", "topic"], BeforeWriting),
            (&["checkout-index", "-u", "-f", "a"], BeforeWriting),
            (&["update-index", "--chmod=+x", "a"], BeforeWriting),
            (&["update-index", "--force-remove", "a"], BeforeWriting),
            (&["sparse-checkout", "set", "dir"], Later),
            (&["adopt"], Never),
        ],
    },
    Reason {
        name: "a required filter that cannot smudge",
        arrange: require_a_filter,
        date: GOOD_DATE,
        commands: &[
            (&["switch", "topic"], Later),
            (&["switch", "-c", "b", "topic"], Later),
            (&["checkout", "topic"], Later),
            (&["checkout", "topic", "--", "dir"], Later),
            (&["restore", "--source=topic", "dir"], Later),
            (&["reset", "--hard", "topic"], Later),
            (&["read-tree", "-m", "-u", "HEAD", "topic"], Later),
        ],
    },
    Reason {
        name: "the same for a file that is gone",
        arrange: |repo| {
            require_a_filter(repo);
            repo.remove("a");
            repo.remove("dir/f.x");
        },
        date: GOOD_DATE,
        commands: &[
            (&["checkout", "."], Later),
            (&["restore", "."], Later),
            (&["reset", "--hard"], Later),
            (&["checkout-index", "-a"], Later),
        ],
    },
];

#[test]
fn writes_nothing_before_all_preconditions_are_checked() {
    let mut wrong = Vec::new();
    for reason in REASONS {
        for &(args, git) in reason.commands {
            wrong.extend(compare(reason, args, git).map(|what| format!("{}: {args:?}: {what}", reason.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs a command with Git and with sapwood. Returns a description of the difference, if any.
fn compare(reason: &Reason, args: &[&str], git: Git) -> Option<String> {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        (reason.arrange)(repo);
    });
    let before = [oracle.git(), oracle.ours()].map(|repo| everything(&repo));
    let changed = |number: usize, repo: &Repo<'_>| {
        let after = everything(repo);
        let names = before[number].keys().chain(after.keys());
        let changed = names.filter(|name| before[number].get(*name) != after.get(*name));
        changed.map(ToString::to_string).collect::<Vec<_>>()
    };
    let ours = run(oracle.ours().command(Path::new(SAPWOOD)), args, reason.date);
    if ours.code == 0 {
        return Some(format!("done: {}", ours.stderr));
    }
    let ours_changed = changed(1, &oracle.ours());
    if !ours_changed.is_empty() {
        return Some(format!("written: {ours_changed:?}: {}", ours.stderr));
    }
    if git == Never {
        return None;
    }
    let theirs = run(oracle.git().git_command(), args, reason.date);
    let git_changed = changed(0, &oracle.git());
    if git_changed.is_empty() != (git != Later) {
        return Some(format!("git is not {git:?}, it changed {git_changed:?}"));
    }
    let (theirs, ours) = (words(&oracle, &theirs, git), words(&oracle, &ours, git));
    (theirs != ours).then(|| format!("git said {theirs:?}, sapwood {ours:?}"))
}

fn run(mut command: Command, args: &[&str], date: &str) -> Run {
    let output = command.args(args).env("GIT_COMMITTER_DATE", date).output().expect("it runs");
    let code = output.status.code().expect("no signal");
    Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
}

/// Returns the exit code and the messages without hints. Unless Git checks before it writes, only
/// the last line is returned.
fn words(oracle: &Oracle, run: &Run, git: Git) -> (i32, String) {
    let mut text = run.stderr.to_str_lossy().into_owned();
    for repo in [oracle.git(), oracle.ours()] {
        let root = repo.path.parent().expect("below the sandbox").display().to_string();
        text = text.replace(&root, "<root>");
    }
    let text = text.replace("sapwood", "git");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("hint:")).collect();
    if git != BeforeWriting {
        lines.drain(..lines.len().saturating_sub(1));
    }
    (run.code, lines.join("\n"))
}

/// Returns mode, inode and content of every file in the directory that contains the repository.
fn everything(repo: &Repo<'_>) -> BTreeMap<BString, (u32, u64, BString)> {
    let mut found = BTreeMap::new();
    collect(repo.path.parent().expect("below the sandbox"), &mut found);
    found
}

fn collect(dir: &Path, found: &mut BTreeMap<BString, (u32, u64, BString)>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("readable").path();
        let stat = path.symlink_metadata().expect("just listed");
        let content = if stat.is_file() { fs::read(&path).expect("readable") } else { Vec::new() };
        let name = path.as_os_str().as_encoded_bytes().into();
        found.insert(name, (stat.mode(), if stat.is_dir() { 0 } else { stat.ino() }, content.into()));
        if stat.is_dir() {
            collect(&path, found);
        }
    }
}

/// A date may be invalid when no reflog entry is written.
#[test]
fn ignores_an_invalid_date_that_is_not_used() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        repo.git(&["config", "core.logAllRefUpdates", "false"]);
        fs::remove_dir_all(repo.join(".git/logs")).expect("it was there");
    });
    for args in [
        &["switch", "topic"][..],
        &["checkout", "-b", "b", "v1"],
        &["reset", "--hard", "topic"],
        &["reset", "main"],
        &["checkout", "-f", "--detach", "main"],
        &["worktree", "add", "../linked", "topic"],
        &["status"],
        &["clone", "--bare", ".", "../bare"],
        &["clone", "-c", "core.logAllRefUpdates=false", ".", "../cloned"],
    ] {
        let theirs = run(oracle.git().git_command(), args, "no date");
        let ours = run(oracle.ours().command(Path::new(SAPWOOD)), args, "no date");
        assert_eq!((theirs.code, ours.code), (0, 0), "{args:?}: {} {}", theirs.stderr, ours.stderr);
        oracle.same_state(args);
    }
}

/// The committer comes from the same sources as in Git. A reflog entry is written even without a
/// name.
#[test]
fn reflog_names_the_same_committer_as_git() {
    let settings: &[&[&str]] = &[
        &[],
        &["-c", "user.useConfigOnly=true"],
        &["-c", "user.name=", "-c", "user.email="],
        &["-c", "user.name= ,;<>", "-c", "user.email=<a@b>"],
        &["-c", "author.name=A", "-c", "author.email=a@b"],
        &["-c", "committer.name=C", "-c", "user.name=U", "-c", "user.email=u@b"],
        &["-c", "committer.name=", "-c", "committer.email="],
        &["-c", "committer.name=", "-c", "user.name=U"],
    ];
    let variables: &[&[(&str, &str)]] = &[
        &[],
        &[("GIT_COMMITTER_NAME", "")],
        &[("GIT_COMMITTER_NAME", "  \"N\\ ")],
        &[("GIT_COMMITTER_EMAIL", "")],
        &[("EMAIL", " e@m ")],
        &[("GIT_COMMITTER_DATE", "Mon 20 Aug 2018 20:19:19 +0200")],
    ];
    let oracle = Oracle::new(SAPWOOD, setup);
    for settings in settings {
        for variables in variables {
            let args = [settings, &["reset", "--soft", "HEAD"][..]].concat();
            for mut command in [oracle.git().git_command(), oracle.ours().command(Path::new(SAPWOOD))] {
                command.env_remove("GIT_COMMITTER_NAME").env_remove("GIT_COMMITTER_EMAIL");
                let output = command.args(&args).envs(variables.iter().copied()).output().expect("it runs");
                assert!(output.status.success(), "{args:?} {variables:?}: {output:?}");
            }
            let logs = [oracle.git(), oracle.ours()].map(|repo| repo.read(".git/logs/HEAD"));
            assert_eq!(logs[0], logs[1], "{args:?} {variables:?}: git left, ours right");
        }
    }
}
