//! Files that become shorter while a checkpoint reads them. `strace` holds the program after it has
//! opened the file.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use testkit::{Repo, Sandbox};

use super::repository;
use crate::SAPWOOD;

const NAME: &str = "shrinks";

const SIZE: usize = 10_000;

/// A checkpoint comes to the next file long before this.
const LONG: Duration = Duration::from_secs(60);

/// Starts a checkpoint that waits after each time that it has opened the file.
fn start(repo: &Repo<'_>) -> Child {
    testkit::need_program("strace");
    let mut command = repo.command(Path::new("strace"));
    command.args(["-f", "-qq", "-o"]).arg(repo.join(".git/trace")).args(["-P", NAME]);
    command.args(["-e", "trace=openat,openat2", "-e", "inject=openat,openat2:delay_exit=3s"]);
    command.arg(SAPWOOD).args(["checkpoint", "--json"]);
    command.stdout(Stdio::piped()).spawn().expect("strace starts")
}

/// Returns true if a process has the file open.
fn is_open(repo: &Repo<'_>) -> bool {
    let file = repo.join(NAME);
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut descriptors =
        processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    descriptors.any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == file))
}

/// How often the file becomes shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shrinks {
    Once,
    /// Until the checkpoint ends.
    Always,
}

/// Makes the file shorter after the checkpoint has opened it. Returns the document.
fn shrink(repo: &Repo<'_>, shrinks: Shrinks) -> Value {
    repo.write(NAME, [b'x'; SIZE]);
    let mut child = start(repo);
    let before = Instant::now();
    while !is_open(repo) {
        assert!(before.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(10));
    }
    let file = fs::OpenOptions::new().write(true).open(repo.join(NAME)).expect("a file");
    for size in (0..SIZE).rev() {
        file.set_len(size as u64).expect("shorter");
        if shrinks == Shrinks::Once || child.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

#[test]
fn a_file_that_becomes_shorter_is_read_again() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let made = shrink(&repo, Shrinks::Once);
    assert_eq!(made["leftOut"], serde_json::json!([]));
    let name = format!("{}:worktree/{NAME}", made["ref"].as_str().expect("a name"));
    assert_eq!(repo.git(&["cat-file", "-s", &name]).stdout, format!("{}\n", SIZE - 1));
}

#[test]
fn a_file_that_becomes_shorter_again_and_again_is_unknown() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let made = shrink(&repo, Shrinks::Always);
    let left_out = serde_json::json!([{ "path": NAME, "reason": "it becomes shorter while it is read" }]);
    assert_eq!(made["leftOut"], left_out);
    assert_eq!(repo.git(&["fsck", "--strict"]).stderr, "");
}
