//! `show-ref`, run as `git` and compared with Git.

use testkit::{Oracle, Repo};

use crate::{random::Random, shim::Shim};

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["tag", "-a", "-m", "packed", "packed"]);
    repo.git(&["tag", "-a", "-m", "tag of a tag", "twice", "packed"]);
    repo.git(&["tag", "light"]);
    repo.git(&["branch", "packed"]);
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["tag", "-a", "-m", "loose", "loose"]);
    repo.git(&["tag", "-a", "-m", "a tree", "tree", "HEAD^{tree}"]);
    repo.git(&["branch", "dir/deep"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
}

const PATTERNS: [&str; 10] =
    ["main", "heads/main", "refs/heads/main", "packed", "deep", "HEAD", "ain", "/main", "", "refs"];

const OPTIONS: [&str; 12] = [
    "--head",
    "-d",
    "-s",
    "--abbrev",
    "--abbrev=7",
    "--hash=2",
    "--branches",
    "--tags",
    "--heads",
    "-q",
    "--hash=0",
    "-h",
];

const NAMES: [&str; 14] = [
    "HEAD",
    "refs/heads/main",
    "refs/tags/twice",
    "refs/tags/loose",
    "refs/heads/dangling",
    "refs/remotes/origin/HEAD",
    "refs/heads",
    "refs/heads/main/below",
    "refs/heads/missing",
    "main",
    "ORIG_HEAD",
    "refs/heads/a..b",
    "config",
    "refs/heads/broken",
];

fn all(shim: &Shim, oracle: &Oracle, context: &str) {
    let native = |args: &[&str]| {
        oracle.same_as(context, args);
        shim.was_native(args);
    };
    for option in OPTIONS {
        native(&["show-ref", option, "--"]);
        for pattern in PATTERNS {
            native(&["show-ref", option, pattern]);
        }
    }
    for name in NAMES {
        for options in [&["--verify"][..], &["--verify", "-q"], &["--verify", "-ds"], &["--exists"]] {
            native(&[&["show-ref"], options, &[name]].concat());
        }
    }
}

#[test]
fn prints_what_git_prints() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    all(&shim, &oracle, "plain");
    for args in [
        &["--verify"][..],
        &["--exists"],
        &["--exists", "a", "b"],
        &["--verify", "--exists", "HEAD"],
        &["--verify", "refs/heads/main", "refs/heads/missing", "HEAD"],
        &["-d", "--branches", "--tags", "main", "twice"],
        &["--no-hash"],
        &["--exclude-existing"],
        &["--abbrev="],
        &["--hash=x"],
        &["--exists", "../config"],
        &["-h"],
    ] {
        oracle.same(&[&["show-ref"], args].concat());
    }
}

#[test]
fn reports_bad_refs_as_git_does() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    oracle.both(|repo| repo.write(".git/refs/heads/broken", "nonsense\n"));
    all(&shim, &oracle, "broken");
    oracle.both(|repo| {
        std::fs::remove_file(repo.join(".git/refs/heads/broken")).expect("it is there");
        repo.write(".git/refs/heads/zz", "1234567890123456789012345678901234567890\n");
    });
    all(&shim, &oracle, "missing object");
    oracle.both(|repo| {
        std::fs::remove_file(repo.join(".git/refs/heads/zz")).expect("it is there");
        repo.write(".git/packed-refs", "x\n");
    });
    oracle.same(&["show-ref"]);
}

#[test]
fn random_lines() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let mut random = Random::new(1);
    for _ in 0..if crate::full() { 1000 } else { 60 } {
        let mut args = vec!["show-ref"];
        for _ in 0..random.below(4) {
            args.push(OPTIONS[random.below(OPTIONS.len() - 1)]);
        }
        for _ in 0..random.below(3) {
            args.push(PATTERNS[random.below(PATTERNS.len())]);
        }
        oracle.same(&args);
        shim.was_native(&args);
    }
}
