//! Trees that stand for more paths than the memory can hold, and trees that are nested too deeply.

use std::{
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full};

/// The levels of the trees, and the names in each. Together they are 10^10 paths.
const LEVELS: usize = 10;
const NAMES: usize = 10;

/// Creates the branch `bomb`. Its names are long, so that the memory is full soon.
fn bomb(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.commit("first");
    let mut below = repo.git(&["hash-object", "-w", "a"]).stdout;
    for level in 0..LEVELS {
        let mode = if level == 0 { "100644 blob" } else { "040000 tree" };
        let long = "n".repeat(190);
        let entry = |name| format!("{mode} {}\t{long}{name}\n", below.trim().as_bstr());
        let listing: String = (0..NAMES).map(entry).collect();
        let mut git = repo.git_command();
        let mut child =
            git.arg("mktree").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), listing.as_bytes()).expect("fed");
        below = child.wait_with_output().expect("a child").stdout.into();
    }
    let tree = below.trim().as_bstr().to_string();
    let commit = repo.git(&["commit-tree", "-m", "bomb", &tree]).stdout;
    repo.git(&["update-ref", "refs/heads/bomb", &commit.trim().as_bstr().to_string()]);
}

fn has_no_lock(repo: &Repo<'_>, what: &str) {
    assert!(!repo.exists(".git/index.lock"), "{what}: a lock stays");
    assert!(!repo.exists("../new"), "{what}: a worktree stays");
}

#[test]
fn more_paths_than_memory_are_an_error() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    bomb(&repo);
    let mut commands: Vec<&[&str]> = vec![&["read-tree", "bomb"], &["workspace", "create", "new", "bomb"]];
    if full() {
        let others: [&[&str]; 5] = [
            &["checkout", "bomb"],
            &["reset", "--hard", "bomb"],
            &["restore", "--source=bomb", "--staged", "."],
            &["worktree", "add", "../new", "bomb"],
            &["diff-index", "bomb"],
        ];
        commands.extend(others);
    }
    for args in commands {
        let mut command = repo.command("sh".as_ref());
        command.arg("-c").arg("ulimit -v 200000; exec \"$0\" \"$@\"").arg(SAPWOOD).args(args);
        let output = command.output().expect("it runs");
        let said = output.stderr.as_bstr();
        assert_eq!(output.status.code(), Some(128), "{args:?}: {}: {said}", output.status);
        assert!(said.contains_str("the trees have too many paths"), "{args:?}: {said}");
        has_no_lock(&repo, &format!("{args:?}"));
    }
}

/// Returns the CPU time of a process in user mode, in clock ticks.
fn computed_by(child: &Child) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
}

#[test]
fn a_signal_ends_the_walk_over_trees() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    bomb(&repo);
    for args in [&["read-tree", "bomb"][..], &["worktree", "add", "../new", "bomb"]] {
        let mut child = repo.command(SAPWOOD.as_ref()).args(args).spawn().expect("it runs");
        // Nothing but the walk takes this long.
        while computed_by(&child).is_none_or(|ticks| ticks < 30) {
            assert_eq!(child.try_wait().expect("a child"), None, "{args:?}: it ended before the signal");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        assert!(sent.expect("kill can be run").success());
        let status = child.wait().expect("a child");
        assert_eq!(status.signal(), Some(15), "{args:?}: {status}");
        has_no_lock(&repo, &format!("{args:?}"));
    }
}

/// Creates the tag `deep`, whose only file is below `depth` directories.
fn deep(repo: &Repo<'_>, depth: usize) {
    repo.write("a", "1\n");
    repo.commit("first");
    repo.git(&["tag", "first"]);
    let path = format!("{}file", "d/".repeat(depth));
    repo.write(&path, "x\n");
    repo.commit("deep");
    repo.git(&["tag", "deep"]);
    repo.git(&["reset", "-q", "--hard", "first"]);
}

#[test]
fn the_depth_of_trees_is_limited_as_in_git() {
    let commands: [&[&str]; 5] = [
        &["read-tree", "deep"],
        &["checkout", "-q", "deep"],
        &["reset", "-q", "--hard", "deep"],
        &["diff-index", "--cached", "deep"],
        &["worktree", "add", "../new", "deep"],
    ];
    for limit in ["core.maxTreeDepth=19", "core.maxTreeDepth=20", "core.maxTreeDepth=-1"] {
        for args in commands {
            let [git, ours] = [false, true].map(|is_ours| {
                let sandbox = Sandbox::new();
                let repo = sandbox.init("repo");
                deep(&repo, 20);
                let words = [&["-c", limit], args].concat();
                let run = if is_ours { repo.run(SAPWOOD.as_ref(), &words) } else { repo.try_git(&words) };
                let is_refused = run.stderr.contains_str("exceeded maximum allowed tree depth");
                (run.code, is_refused, repo.git(&["ls-files"]).stdout)
            });
            assert_eq!(ours, git, "{limit} {args:?}");
        }
    }
}
