//! Clones and fetches that are interrupted: by the network at any byte, and by SIGKILL before any
//! change on disk. The repository stays usable, the same command completes the work, and the result
//! equals that of an undisturbed run.

mod clones;

use std::{path::Path, time::Duration};

use testkit::{
    Repo, Sandbox,
    crash::{Crash, CrashPoints},
    servers::{Daemon, Fault, Line, Proxy},
};

use crate::{SAPWOOD, full, killed::sapwood, random::Random};

/// Creates a source of some hundred kilobytes of incompressible content.
fn source(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("served/source");
    let mut random = Random::new(3);
    for number in 0..8 {
        add(&repo, number, &mut random);
    }
    repo
}

fn add(repo: &Repo<'_>, number: u64, random: &mut Random) {
    let content: Vec<u8> = (0..8000).flat_map(|_| random.next().to_le_bytes()).collect();
    repo.write(format!("dir/{number}"), content);
    repo.write("number", format!("{number}\n"));
    repo.commit(&number.to_string());
}

/// Returns the objects, refs and status of a clone, after `fsck`.
fn seen(repo: &Repo<'_>) -> [bstr::BString; 4] {
    repo.git(&["fsck", "--full"]);
    let objects = ["cat-file", "--batch-all-objects", "--batch-check"];
    let asked: [&[&str]; 4] =
        [&["for-each-ref"], &["rev-parse", "HEAD"], &["status", "--porcelain"], &objects];
    asked.map(|args| repo.git(args).stdout)
}

#[track_caller]
fn succeeds(repo: &Repo<'_>, context: &str, args: &[&str]) {
    let run = repo.run(Path::new(SAPWOOD), args);
    assert_eq!(run.code, 0, "{context}: {}", run.stderr);
}

#[test]
fn fetches_finish_after_a_cut() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    let line = Line { rate: Some(2_000_000), latency: Duration::ZERO };
    let proxy = Proxy::on(line, daemon.address());
    let url = proxy.before(&daemon.url("source"));
    let root = sandbox.repo("");
    root.git(&["clone", "-q", &url, "copy"]);
    let copy = sandbox.repo("copy");
    let mut random = Random::new(5);
    add(&source, 99, &mut random);
    let fetch = sapwood(&copy, &["fetch", "-q"]);
    let points = CrashPoints::of(&fetch);
    let mut killed = 0;
    let numbers = points.sample(if full() { 50 } else { 6 });
    for (round, number) in (0..).zip(&numbers) {
        add(&source, 100 + 2 * round, &mut random);
        let before = copy.git(&["for-each-ref"]).stdout;
        let after = random.next() % 64_000;
        proxy.once(Fault::Cut, after);
        let run = copy.run(Path::new(SAPWOOD), &["fetch", "-q"]);
        let context = format!("cut after {after} bytes: {}", run.stderr);
        assert!(!proxy.is_troubled() && [1, 128].contains(&run.code), "{context}");
        assert_eq!(copy.git(&["for-each-ref"]).stdout, before, "{context}");
        copy.git(&["fsck"]);
        succeeds(&copy, &context, &["fetch", "-q"]);

        add(&source, 101 + 2 * round, &mut random);
        let crash = Crash::before(*number, &fetch);
        killed += usize::from(crash.happened());
        let context = format!("round {round}, {crash}");
        copy.git(&["fsck"]);
        // The message about a lock of a process that was killed asks the user to remove it.
        let mut find = copy.command("find".as_ref());
        assert!(find.args([".git/refs", "-name", "*.lock", "-delete"]).status().expect("it runs").success());
        succeeds(&copy, &context, &["fetch", "-q"]);
        let tips = [copy.git(&["rev-parse", "origin/main"]), source.git(&["rev-parse", "HEAD"])];
        assert_eq!(tips[0].stdout, tips[1].stdout, "{context}");
        copy.git(&["fsck", "--full"]);
    }
    println!("{killed} of {} fetches were killed, at {numbers:?} of {}", numbers.len(), points.count());
    // The number of changes depends on the number of pieces in which the pack comes.
    assert!(2 * killed > numbers.len(), "{killed} fetches were killed at {numbers:?}");
}
