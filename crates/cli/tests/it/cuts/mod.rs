//! Clones and fetches that are interrupted: by the network at any byte, and by SIGKILL at any time.
//! The repository stays usable, the same command completes the work, and the result equals that of
//! an undisturbed run.

mod clones;

use std::{path::Path, time::Duration};

use testkit::{
    Repo, Sandbox,
    servers::{Daemon, Fault, Line, Proxy},
};

use crate::{SAPWOOD, full, killed::kill_after, random::Random};

/// The number of times at which a run is killed.
fn moments() -> u64 {
    if full() { 50 } else { 6 }
}

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
    for round in 0..moments() {
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
        let delay = Duration::from_micros(random.next() % 80_000);
        let context = format!("round {round}, killed after {delay:?}");
        kill_after(&copy, &["fetch", "-q"], delay);
        copy.git(&["fsck"]);
        succeeds(&copy, &context, &["fetch", "-q"]);
        let tips = [copy.git(&["rev-parse", "origin/main"]), source.git(&["rev-parse", "HEAD"])];
        assert_eq!(tips[0].stdout, tips[1].stdout, "{context}");
        copy.git(&["fsck", "--full"]);
    }
}
