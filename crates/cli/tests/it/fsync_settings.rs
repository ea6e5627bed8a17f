//! `core.fsyncObjectFiles`, `core.fsyncMethod=batch` and `GIT_TEST_FSYNC`, compared with Git; and
//! the fallback where the system cannot write back a part of a file.

use std::process::{Command, Output};

use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

fn git() -> String {
    std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned())
}

fn run(repo: &Repo<'_>, program: &str, fsync: Option<&str>, args: &[&str]) -> Output {
    let mut command = repo.command(program.as_ref());
    if let Some(value) = fsync {
        command.env("GIT_TEST_FSYNC", value);
    }
    command.args(args).output().expect("it runs")
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn values_are_booleans() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    let object_files = |value: &str| format!("core.fsyncObjectFiles={value}");
    for value in ["FALSE", "Off", "", "00", "0", "yes", "2", "zz", "nope"] {
        let with_variable = &["-c", "core.fsync=all", "add", "a"][..];
        let setting = object_files(value);
        let with_setting = &["-c", &setting, "add", "a"][..];
        let cloned = &["-c", &setting, "clone", "-q", "--bare", ".", "new"][..];
        let rows = [(Some(value), with_variable), (None, with_setting), (None, cloned)];
        for (fsync, args) in rows {
            let answers = [git().as_str(), SAPWOOD].map(|program| {
                for made in [".git/index", "new"] {
                    if repo.exists(made) {
                        repo.remove(made);
                    }
                }
                drop(std::fs::remove_dir_all(repo.join(".git/objects")));
                std::fs::create_dir(repo.join(".git/objects")).expect("made");
                said(&run(&repo, program, fsync, args))
            });
            assert_eq!(answers[0], answers[1], "{fsync:?} {args:?}: git left, sapwood right");
        }
    }
}

/// Runs `add` of 2 files under `strace`, and returns the calls and the messages.
fn traced(settings: &[&str], args: &[&str], inject: &[&str]) -> Option<(String, String)> {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for name in ["a", "b"] {
        repo.write(name, format!("{name}\n"));
    }
    let log = sandbox.path().join("strace");
    let mut command = repo.command("strace".as_ref());
    command.args(["-f", "-o"]).arg(&log).args(["-e", "trace=fsync,fdatasync,sync_file_range"]);
    command.args(inject).arg(SAPWOOD).args(settings).args(args);
    let output = command.output().expect("strace can be run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !log.exists() {
        println!("skipped: strace cannot trace: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{stderr}");
    assert_eq!(repo.try_git(&["fsck", "--strict"]).code, 0);
    Some((std::fs::read_to_string(log).expect("written by strace"), stderr))
}

fn can_trace() -> bool {
    let found = Command::new("strace").arg("-V").output().is_ok();
    if !found {
        println!("skipped: strace cannot be run");
    }
    found
}

const BATCH: &[&str] = &["-c", "core.fsync=all", "-c", "core.fsyncMethod=batch"];

#[test]
fn a_batch_is_only_for_loose_objects_that_core_fsync_names() {
    if !can_trace() {
        return;
    }
    let older = &["-c", "core.fsyncObjectFiles=true", "-c", "core.fsyncMethod=batch"][..];
    let two = &["add", "a", "b"][..];
    let rows = [
        (BATCH, two, true),
        (older, two, false),
        // A single object needs one flush in any case.
        (BATCH, &["hash-object", "-w", "a"], false),
        // The tree and the commit.
        (BATCH, &["commit", "-q", "--allow-empty", "-m", "one"], true),
    ];
    for (settings, args, is_batch) in rows {
        let Some((calls, stderr)) = traced(settings, args, &[]) else { return };
        assert_eq!(calls.contains("sync_file_range("), is_batch, "{settings:?} {args:?}: {calls}");
        assert!(calls.contains("fsync("), "{settings:?} {args:?}: {calls}");
        assert!(!stderr.contains("unsupported"), "{stderr}");
    }
}

#[test]
fn falls_back_and_warns_where_a_batch_is_not_possible() {
    if !can_trace() {
        return;
    }
    let inject = &["-e", "inject=sync_file_range:error=ENOSYS"];
    let Some((calls, stderr)) = traced(BATCH, &["add", "a", "b"], inject) else { return };
    let warning = "warning: core.fsyncMethod = batch is unsupported on this platform\n";
    assert_eq!(stderr, warning.repeat(2));
    let flushes = |calls: &str| calls.matches(" fsync(").count();
    assert!(flushes(&calls) >= 4, "each object, and its directory: {calls}");
    // `writeout-only` falls back too, in Git without a warning.
    let settings = &["-c", "core.fsync=all", "-c", "core.fsyncMethod=writeout-only"];
    let Some((calls, stderr)) = traced(settings, &["add", "a", "b"], inject) else { return };
    assert_eq!(stderr, "");
    assert!(flushes(&calls) >= 2, "{calls}");
}

/// The number of flushes does not depend on the number of files.
#[test]
fn a_batch_of_many_files_needs_few_flushes() {
    if !can_trace() {
        return;
    }
    let counts = [8, 40, 200].map(|count| {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        (0..count).for_each(|number| repo.write(format!("f{number}"), format!("{number}\n")));
        let log = sandbox.path().join("strace");
        let mut command = repo.command("strace".as_ref());
        command.args(["-f", "-o"]).arg(&log).args(["-e", "trace=fsync,fdatasync,syncfs"]);
        command.arg(SAPWOOD).args(BATCH).args(["add", "-A"]);
        let output = command.output().expect("strace can be run");
        let log = std::fs::read_to_string(log).ok();
        log.map(|log| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            log.lines().filter(|line| line.contains("sync(")).count()
        })
    });
    let [Some(few), Some(some), Some(many)] = counts else {
        println!("skipped: strace cannot trace");
        return;
    };
    assert_eq!((few, some), (some, many));
    assert!(many <= 8, "{many} flushes");
}

/// The kernel reports an error of a page once for each open file, so a later sync does not repeat
/// it.
#[test]
fn an_error_of_writing_pages_ends_the_command() {
    if !can_trace() {
        return;
    }
    let writeout = &["-c", "core.fsync=all", "-c", "core.fsyncMethod=writeout-only"][..];
    // A pack of more than 8 MiB, whose first pages are written while more follow.
    let packed = &["-c", "sapwood.packOnAdd=true", "-c", "core.compression=0"][..];
    for settings in [BATCH, writeout, packed] {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        ["a", "b", "c"].iter().for_each(|name| repo.write(name, name.repeat(5 << 20)));
        let log = sandbox.path().join("strace");
        let mut command = repo.command("strace".as_ref());
        command.args(["-f", "-o"]).arg(&log).args(["-e", "inject=sync_file_range:error=EIO"]);
        let output =
            command.arg(SAPWOOD).args(settings).args(["add", "-A"]).output().expect("strace can be run");
        let Ok(log) = std::fs::read_to_string(log) else {
            println!("skipped: strace cannot trace");
            return;
        };
        assert!(log.contains("(INJECTED)"), "{settings:?}: no such call");
        let (code, stderr) = said(&output);
        assert_eq!(code, Some(128), "{settings:?}: {stderr}");
        assert!(stderr.contains("Input/output error"), "{settings:?}: {stderr}");
        assert_eq!(repo.git(&["ls-files"]).stdout, "", "{settings:?}");
    }
}

/// Objects, index and refs are synced in few rounds (docs/design/flushes.md). The numbers are those
/// of all files and directories that change; each sync more would be a file that is synced twice.
#[test]
fn each_file_is_synced_once() {
    if !can_trace() {
        return;
    }
    let counted = |args: &[&str]| {
        let (calls, _) = traced(&[], args, &[])?;
        Some(calls.matches("fsync(").count())
    };
    // Two objects, their directories, `objects`; `index.lock`, `.git`.
    let Some(added) = counted(&["add", "a", "b"]) else { return };
    assert!(added <= 7, "add: {added}");
    // A tree and a commit, their directories, `objects`; the index; the branch, two logs, and their
    // directories: `logs/refs/heads`, `logs/refs`, `logs`, `refs/heads`, `.git`.
    let committed = counted(&["commit", "-q", "--allow-empty", "-m", "one"]).expect("traced before");
    assert!(committed <= 14, "commit: {committed}");
}
