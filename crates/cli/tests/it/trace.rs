//! `GIT_TRACE2_EVENT`, `GIT_TRACE2_PERF`, and `sapwood --verbose`.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

/// Returns event and thread of each trace line of a checkout of 8 files, in order.
fn traced(repo: &Repo<'_>, workers: &str, target: &str) -> Vec<(String, String)> {
    let (workers, target) = (format!("checkout.workers={workers}"), repo.join(target));
    let mut command = repo.command(Path::new(SAPWOOD));
    command.args([
        "-c",
        &workers,
        "-c",
        "checkout.thresholdForParallelism=0",
        "checkout",
        "-q",
        "-f",
        "main",
    ]);
    let output = command.env("GIT_TRACE2_EVENT", &target).output().expect("can be run");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", output.stderr.as_bstr());
    let text = std::fs::read_to_string(&target).unwrap_or_default();
    std::fs::remove_file(&target).expect("was written");
    let field = |line: &str, name: &str| {
        let rest = line.split_once(&format!("\"{name}\":\""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let fields = |line| field(line, "event").zip(field(line, "thread"));
    text.lines().map(|line| fields(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn workers_are_threads_of_the_trace() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    (0..8).for_each(|number| repo.write(format!("dir{number}/file"), "content\n"));
    repo.commit("first");
    for (workers, expected) in [("1", 0), ("2", 2), ("4", 4)] {
        (0..8).for_each(|number| repo.remove(format!("dir{number}")));
        let events = traced(&repo, workers, "trace");
        let count = |event: &str| {
            let is = |(kind, thread): &&(String, String)| {
                kind == event && thread.starts_with("th") && thread.ends_with(":checkout_worker")
            };
            events.iter().filter(is).count()
        };
        assert_eq!((count("thread_start"), count("thread_exit")), (expected, expected), "{events:?}");
        let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds[..3], ["version", "start", "cmd_name"]);
        assert_eq!(kinds[kinds.len() - 2..], ["exit", "atexit"]);
    }
}

#[test]
fn a_trace_that_cannot_be_written_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "one\n");
    repo.commit("first");
    for target in ["", "0", "relative", "/nowhere/trace"] {
        repo.write("a", "changed\n");
        let mut command = repo.command(Path::new(SAPWOOD));
        command.args(["checkout", "a"]).env("GIT_TRACE2_EVENT", target);
        let output = command.output().expect("can be run");
        assert_eq!(output.stderr.as_bstr(), "Updated 1 path from the index\n");
        assert_eq!(repo.read("a"), "one\n");
    }
}

#[test]
fn traces_the_number_of_workers() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    (0..100).for_each(|number| repo.write(format!("dir{number}/file"), "content\n"));
    repo.commit("first");
    repo.write(".git/info/exclude", "trace\n");
    (0..100).for_each(|number| repo.remove(format!("dir{number}")));
    let trace = repo.join("trace");
    let mut command = repo.command(Path::new(SAPWOOD));
    command.args(["--verbose", "-c", "checkout.workers=3", "reset", "-q", "--hard"]);
    let output = command.env("GIT_TRACE2_PERF", &trace).output().expect("can be run");
    assert!(output.status.success(), "{}", output.stderr.as_bstr());
    let said = output.stderr.to_str_lossy();
    assert!(said.lines().any(|line| line == "workers: checkout_worker 3"), "{said}");
    let text = std::fs::read_to_string(&trace).expect("was written");
    let rows: Vec<Vec<&str>> =
        text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>()).collect();
    assert!(rows.iter().all(|row| row.len() == 9 && row[1] == "d0"), "{text}");
    let events: Vec<&str> = rows.iter().map(|row| row[3]).collect();
    assert_eq!(events[..3], ["version", "start", "cmd_name"], "{text}");
    assert_eq!(events[events.len() - 2..], ["exit", "atexit"], "{text}");
    let sizes = rows.iter().filter(|row| row[7] == "workers" && row[8] == "..checkout_worker:3");
    assert_eq!(sizes.count(), 1, "{text}");
}
