//! `checkpoint --watch`: entries after changes, and what happens beside it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{done, repository, run};
use crate::SAPWOOD;

/// A line comes long before this.
const LONG: Duration = Duration::from_secs(60);

/// Ten times the pause after which a watcher of these tests makes an entry.
const QUIET: Duration = Duration::from_millis(1000);

struct Watcher {
    child: Child,
    lines: Receiver<String>,
}

impl Watcher {
    fn start(repo: &Repo<'_>, args: &[&str]) -> Watcher {
        let mut command = repo.command(Path::new(SAPWOOD));
        command.args(["checkpoint", "--watch", "--settle", "100"]).args(args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sapwood starts");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Watcher { child, lines }
    }

    fn next(&mut self) -> String {
        match self.lines.recv_timeout(LONG) {
            Ok(line) => line,
            Err(error) => panic!("{error}: {}", self.errors()),
        }
    }

    fn is_quiet(&self) {
        assert_eq!(self.lines.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout));
    }

    /// Ends the watcher, and returns its messages.
    fn errors(&mut self) -> String {
        let _ = self.child.kill();
        let mut errors = String::new();
        let _ = self.child.stderr.take().expect("a pipe").read_to_string(&mut errors);
        errors
    }

    /// The number of watches of the kernel.
    fn watches(&self) -> usize {
        let dir = fs::read_dir(format!("/proc/{}/fdinfo", self.child.id())).expect("a process");
        let infos = dir.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
        infos.map(|info| info.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum()
    }

    /// Ends the watcher by a signal, which it obeys at once.
    fn end(mut self) {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success());
        let before = Instant::now();
        let status = self.child.wait().expect("an end");
        assert_eq!(status.signal(), Some(15), "{status:?}");
        assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
        let mut errors = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("read");
        assert_eq!(errors, "");
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stored(repo: &Repo<'_>, number: usize, path: &str) -> String {
    let name = format!("refs/sapwood/checkpoints/main/{number}:worktree/{path}");
    repo.git(&["show", &name]).stdout.to_string()
}

/// Files, the index, new directories, ignored ones, rules, and renamed directories.
#[test]
fn each_change_becomes_an_entry() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write(".gitignore", "out/\n");
    repo.write("out/o", "ignored\n");
    let mut watcher = Watcher::start(&repo, &["-m", "auto"]);
    assert_eq!(watcher.next(), "Checkpoint 1");
    watcher.is_quiet();
    repo.write("a", "2\n");
    assert_eq!(watcher.next(), "Checkpoint 2");
    assert_eq!(stored(&repo, 2, "a"), "2\n");
    repo.git(&["add", "a"]);
    assert_eq!(watcher.next(), "Checkpoint 3");
    repo.write("new/deep/er/f", "1\n");
    assert_eq!(watcher.next(), "Checkpoint 4");
    repo.write("new/deep/er/f", "2\n");
    assert_eq!(watcher.next(), "Checkpoint 5");
    assert_eq!(stored(&repo, 5, "new/deep/er/f"), "2\n");
    repo.write("out/o", "still ignored\n");
    repo.git(&["status"]);
    watcher.is_quiet();
    repo.write(".gitignore", "");
    assert_eq!(watcher.next(), "Checkpoint 6");
    repo.write("out/o", "not ignored\n");
    assert_eq!(watcher.next(), "Checkpoint 7");
    fs::rename(repo.join("new"), repo.join("renamed")).expect("renamed");
    assert_eq!(watcher.next(), "Checkpoint 8");
    repo.write("renamed/deep/er/f", "3\n");
    assert_eq!(watcher.next(), "Checkpoint 9");
    assert_eq!(stored(&repo, 9, "renamed/deep/er/f"), "3\n");
    // A state that has an entry gets no second one.
    done(&repo, &["checkpoint", "-q"]);
    done(&repo, &["undo", "-q"]);
    watcher.is_quiet();
    watcher.end();
    let listed = done(&repo, &["checkpoints"]);
    assert_eq!(listed.lines().filter(|line| line.ends_with("checkpoint    auto")).count(), 9, "{listed}");
}

/// The watches go with their directories.
#[test]
fn watches_are_bounded_by_directories() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.write("out/ignored/o", "1\n");
    repo.write(".git/info/exclude", "out/\n");
    repo.git(&["init", "-q", "nested"]);
    repo.write("nested/dir/f", "1\n");
    let mut watcher = Watcher::start(&repo, &["--json"]);
    assert!(watcher.next().starts_with('{'));
    // The root, `dir`, and the Git directory.
    assert_eq!(watcher.watches(), 3);
    for round in 0..3 {
        for number in 0..50 {
            repo.write(format!("many/{number}/f"), format!("{round}\n"));
        }
        let document: serde_json::Value = serde_json::from_str(&watcher.next()).expect("a document");
        assert_eq!(document["changed"], true);
        assert_eq!(watcher.watches(), 3 + 51);
        repo.remove("many");
        watcher.next();
        assert_eq!(watcher.watches(), 3);
    }
    watcher.end();
}

/// The memory of a comparison is released after it.
#[test]
fn comparisons_leave_no_memory() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let long = "long".repeat(50);
    for number in 0..4_000 {
        repo.write(format!("{}/{long}{number}", number % 20), "");
    }
    repo.git(&["add", "."]);
    let mut watcher = Watcher::start(&repo, &["-q"]);
    let resident = |watcher: &Watcher| {
        let status = fs::read_to_string(format!("/proc/{}/status", watcher.child.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
    };
    let has = |number: usize| repo.exists(format!(".git/refs/sapwood/checkpoints/main/{number}"));
    let mut entry = |number: usize| {
        repo.write("a", format!("{number}\n"));
        let before = Instant::now();
        while !has(number) {
            assert!(before.elapsed() < LONG, "{}", watcher.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        resident(&watcher)
    };
    let before = (1..=4).map(&mut entry).last().expect("four entries");
    // The index takes a megabyte.
    let after = (5..=24).map(&mut entry).last().expect("twenty entries");
    assert!(after < before + 10_000, "{before} kB, then {after} kB");
    watcher.end();
}

#[test]
fn a_second_watcher_is_refused() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let mut first = Watcher::start(&repo, &["-q"]);
    let message = "fatal: another 'sapwood checkpoint --watch' watches this worktree\n";
    let before = Instant::now();
    while !repo.exists(".git/refs/sapwood/checkpoints/main/1") {
        assert!(before.elapsed() < LONG, "{}", first.errors());
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = run(&repo, &["checkpoint", "--watch"]);
    assert_eq!((second.code, second.stderr.to_string().as_str()), (128, message));
    // Another worktree has a watcher of its own.
    repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    let linked = sandbox.repo("linked");
    let mut other = Watcher::start(&linked, &[]);
    assert_eq!(other.next(), "Checkpoint 1");
    other.end();
    first.end();
    // A killed one has left nothing that blocks.
    let mut killed = Watcher::start(&repo, &[]);
    repo.write("a", "2\n");
    assert_eq!(killed.next(), "Checkpoint 2");
    killed.errors();
    let _ = killed.child.wait();
    let mut again = Watcher::start(&repo, &[]);
    repo.write("a", "3\n");
    assert_eq!(again.next(), "Checkpoint 3");
    again.end();
    // The worktree is removed.
    let mut watcher = Watcher::start(&linked, &[]);
    linked.write("a", "2\n");
    assert_eq!(watcher.next(), "Checkpoint 2");
    repo.git(&["worktree", "remove", "-f", "../linked"]);
    assert_eq!(watcher.child.wait().expect("an end").code(), Some(0), "{}", watcher.errors());
}

#[test]
fn mistakes_of_a_watcher() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    for (args, message) in [
        (&["--watch", "--hook"][..], "fatal: --hook and --watch cannot be used together\n"),
        (&["--settle", "1"], "fatal: --settle needs --watch\n"),
        (&["--watch", "--settle", "-1"], "fatal: '-1' is no number of milliseconds up to 600000\n"),
        (&["--watch", "--settle", "soon"], "fatal: 'soon' is no number of milliseconds up to 600000\n"),
        (&["--watch", "--settle", "600001"], "fatal: '600001' is no number of milliseconds up to 600000\n"),
    ] {
        let run = run(&repo, &[&["checkpoint"], args].concat());
        assert_eq!((run.code, run.stderr.to_string().as_str()), (128, message), "{args:?}");
    }
    assert!(!repo.exists(".git/sapwood-watch"));
}

/// Maintenance, a rebase, and changes without a pause.
#[test]
fn a_watcher_goes_on_beside_other_commands() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.git(&["checkout", "-q", "-b", "topic"]);
    for number in 0..5 {
        repo.write(format!("topic-{number}"), "1\n");
        repo.commit("topic");
    }
    repo.git(&["checkout", "-q", "main"]);
    repo.write("a", "main\n");
    repo.commit("main");
    repo.git(&["checkout", "-q", "topic"]);
    let mut watcher = Watcher::start(&repo, &[]);
    assert_eq!(watcher.next(), "Checkpoint 1");
    repo.git(&["rebase", "-q", "main"]);
    watcher.next();
    for round in 0..5 {
        repo.write("a", format!("{round}\n"));
        repo.git(&["gc", "-q", "--prune=now"]);
    }
    repo.write("last", "1\n");
    let before = Instant::now();
    loop {
        let line = watcher.next();
        let number = line.strip_prefix("Checkpoint ").expect("a number");
        let name = format!("refs/sapwood/checkpoints/main/{number}:worktree/last");
        if repo.try_git(&["rev-parse", "-q", "--verify", &name]).code == 0 {
            break;
        }
        assert!(before.elapsed() < LONG);
    }
    watcher.end();
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
}

/// While a workspace is not mounted, its files are not recorded as deleted.
#[test]
fn a_watcher_survives_an_unmount() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = repository(&sandbox);
    let created = run(&repo, &["workspace", "create", "-q", "w", "--backend", "overlay"]);
    if created.code != 0 {
        println!("skipped: {}", created.stderr);
        return;
    }
    let workspace = sandbox.repo("repo.workspaces/w");
    let mut watcher = Watcher::start(&workspace, &[]);
    assert_eq!(watcher.next(), "Checkpoint 1");
    let workspaces = |args: &[&str]| {
        let run = run(&repo, &[&["workspace"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    };
    workspaces(&["unmount", "w"]);
    assert!(!workspace.exists("a"));
    std::thread::sleep(2 * QUIET);
    watcher.is_quiet();
    workspaces(&["mount", "w"]);
    workspace.write("a", "2\n");
    assert_eq!(watcher.next(), "Checkpoint 2");
    workspace.write("a", "3\n");
    assert_eq!(watcher.next(), "Checkpoint 3");
    let name = "refs/sapwood/checkpoints/worktrees/w/2";
    assert_eq!(repo.git(&["ls-tree", "--name-only", &format!("{name}:worktree")]).stdout, "a\ndir\n");
    let errors = watcher.errors();
    assert!(errors.starts_with("warning: no checkpoint until this is mended: "), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let _ = watcher.child.wait();
    workspaces(&["remove", "--force", "w"]);
}
