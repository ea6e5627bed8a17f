//! Files that are larger than the memory: no command needs memory for the whole of one, and a
//! signal ends a command inside the file.
//!
//! The file is so large that reading all of it would take minutes. A command that ends soon after
//! the signal has stopped inside the file.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full};

/// The size of the large file, which is sparse.
const SIZE: u64 = 1 << 40;
/// The limit of the address space, in KiB (`ulimit -v`).
const LIMIT: u64 = 256 << 10;
/// The bytes that a command reads before the signal: more than it may have memory.
const READ: u64 = 320 << 20;

/// Creates a repository whose index does not know the state of the large file `big`.
fn repository<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    repo.write("a", "1\n");
    repo.write("d/b", "1\n");
    repo.commit("first");
    repo.write("a", "2\n");
    repo.git(&["add", "a"]);
    repo.write("small", "x\n");
    let blob = repo.git(&["hash-object", "-w", "small"]).stdout;
    repo.remove("small");
    let entry = format!("100644,{},big", blob.trim().as_bstr());
    repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repo.git(&["commit", "-q", "-m", "second"]);
    // A file of another size would differ without being read; the index has no size yet.
    repo.write(".git/info/attributes", "big filter=x\n");
    File::create(repo.join("big")).and_then(|file| file.set_len(SIZE)).expect("a sparse file");
    repo
}

fn limited(repo: &Repo<'_>, args: &[&str]) -> Command {
    let mut command = repo.interruptible("sh".as_ref());
    command.arg("-c").arg(format!("ulimit -v {LIMIT}; exec \"$0\" \"$@\"")).arg(SAPWOOD).args(args);
    command
}

/// Returns the number of bytes that a process has read; `None` once it has ended.
fn read_by(child: &Child) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{}/io", child.id())).ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
    assert!(sent.expect("kill can be run").success());
}

/// Waits for the end, which must come before the whole file could have been read.
fn ended(child: &mut Child, what: &str) -> ExitStatus {
    for _ in 0..6000 {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("{what}: it goes on after the signal");
}

fn has_no_leftovers(repo: &Repo<'_>, what: &str) {
    let found = Command::new("find")
        .arg(repo.join(".git"))
        .args(["(", "-name", "*.lock", "-o", "-name", "tmp_*", ")"])
        .output()
        .expect("find can be run");
    assert_eq!(found.stdout.as_bstr(), "", "{what}");
}

fn interrupt(args: &[&str], (name, number): (&str, i32)) {
    let what = format!("{args:?}, {name}");
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox, "repo");
    let mut command = limited(&repo, args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    while read_by(&child).is_none_or(|read| read < READ) {
        if let Some(status) = child.try_wait().expect("a child") {
            let output = child.wait_with_output().expect("a child");
            panic!("{what}: it ended before the signal: {status}: {}", output.stderr.as_bstr());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    send(name, &child);
    let status = ended(&mut child, &what);
    assert_eq!(status.signal(), Some(number), "{what}: {status}");
    let output = child.wait_with_output().expect("a child");
    // A filter that got half of its input failed.
    let is_filtered = args == FILTERED;
    assert!(is_filtered || !output.stderr.contains_str("error: "), "{what}: {}", output.stderr.as_bstr());
    has_no_leftovers(&repo, &what);
    assert_eq!(repo.git(&["rev-parse", "HEAD~"]).code, 0, "{what}");
}

/// As in Git, a filter that must succeed gets the file in pieces.
const FILTERED: [&str; 5] = ["-c", "filter.x.clean=cat >/dev/null", "-c", "filter.x.required=true", "status"];

const SIGNALS: [(&str, i32); 2] = [("INT", 2), ("TERM", 15)];

#[test]
fn a_signal_ends_each_command_inside_a_large_file() {
    let often: &[&[&str]] = &[
        &["status"],
        &["update-index", "--refresh"],
        &["add", "big"],
        &["commit", "-a", "-m", "x"],
        &["stash"],
        &["hash-object", "-w", "big"],
        &FILTERED,
    ];
    let others: &[&[&str]] = &[
        &["hash-object", "big"],
        &["ls-files", "-m"],
        &["rm", "big"],
        &["mv", "big", "d"],
        &["reset"],
        &["checkout", "HEAD~"],
        &["checkout", "-m", "HEAD~"],
        &["switch", "-d", "HEAD~"],
        &["stash", "create"],
        &["stash", "push", "big"],
        &["update-index", "--really-refresh"],
        &["update-index", "big"],
        &["add", "-A"],
        &["add", "--refresh", "."],
        &["commit", "-m", "x", "big"],
        &["commit", "--allow-empty", "-m", "x"],
        &["adopt"],
    ];
    let others = if full() { others } else { &[] };
    for (number, args) in often.iter().chain(others).enumerate() {
        let signals = if full() { &SIGNALS[..] } else { &SIGNALS[number % 2..][..1] };
        signals.iter().for_each(|signal| interrupt(args, *signal));
    }
}

#[test]
fn a_file_that_must_be_converted_and_does_not_fit_is_an_error() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox, "repo");
    let commands: [&[&str]; 8] = [
        &["status"],
        &["update-index", "--refresh"],
        &["add", "big"],
        &["commit", "-a", "-m", "x"],
        &["stash"],
        &["rm", "big"],
        &["ls-files", "-m"],
        &["hash-object", "-w", "big"],
    ];
    for args in commands {
        let output = limited(&repo, &["-c", "core.autocrlf=true"]).args(args).output().expect("it runs");
        let said = output.stderr.as_bstr();
        assert_eq!(output.status.code(), Some(128), "{args:?}: {}: {said}", output.status);
        assert!(said.contains_str("fatal: "), "{args:?}: {said}");
        has_no_leftovers(&repo, &format!("{args:?}"));
    }
}
