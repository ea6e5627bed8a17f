//! `symbolic-ref`, run as `git` and compared with Git: messages, refs and reflogs.

use testkit::{Oracle, Repo};

use crate::{random::Random, shim::Shim};

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.git(&["branch", "dir/deep"]);
    repo.git(&["tag", "side"]);
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    repo.git(&["symbolic-ref", "refs/heads/one", "refs/heads/two"]);
    repo.git(&["symbolic-ref", "refs/heads/two", "refs/heads/side"]);
    repo.git(&["symbolic-ref", "refs/heads/loop", "refs/heads/pool"]);
    repo.git(&["symbolic-ref", "refs/heads/pool", "refs/heads/loop"]);
    repo.write(".git/refs/heads/broken", "nonsense\n");
    repo.write(".git/refs/heads/bad", "ref: refs/heads/a..b\n");
    repo.write(".git/refs/heads/tobroken", "ref: refs/heads/broken\n");
    repo.write(".git/refs/heads/todir", "ref: refs/heads/dir\n");
    repo.write(".git/refs/heads/below", "ref: refs/heads/side/below\n");
}

const NAMES: [&str; 22] = [
    "HEAD",
    "refs/heads/main",
    "refs/heads/side",
    "refs/heads/dir",
    "refs/heads/dir/deep",
    "refs/heads/missing",
    "refs/heads/dangling",
    "refs/heads/one",
    "refs/heads/two",
    "refs/heads/loop",
    "refs/heads/broken",
    "refs/heads/bad",
    "refs/heads/tobroken",
    "refs/heads/todir",
    "refs/heads/below",
    "refs/heads/a..b",
    "refs/remotes/origin/HEAD",
    "main",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "refs/",
    "",
];

#[test]
fn reads_as_git_does() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for name in NAMES {
        for options in [&[][..], &["-q"], &["--short"], &["--no-recurse"], &["--short", "--no-recurse"]] {
            let args = [&["symbolic-ref"], options, &[name]].concat();
            oracle.same(&args);
            shim.was_native(&args);
        }
    }
    for args in [&["--recurse", "-m", "", "HEAD"][..], &["--no-quiet", "HEAD"], &["--", "HEAD"]] {
        oracle.same(&[&["symbolic-ref"], args].concat());
        shim.was_native(args);
    }
    for args in [&[][..], &["a", "b", "c"], &["-d"], &["-d", "a", "b"], &["--no-recurs"], &["-x"]] {
        oracle.same(&[&["symbolic-ref"], args].concat());
    }
}

#[test]
fn writes_and_deletes_as_git_does() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for args in [
        &["HEAD", "refs/heads/side"][..],
        &["-m", "to  side\n again", "HEAD", "refs/heads/main"],
        &["-m", "unborn", "HEAD", "refs/heads/unborn"],
        &["-m", "born", "HEAD", "refs/heads/side"],
        &["-m", "x", "refs/heads/new/link", "refs/heads/main"],
        &["refs/tags/link", "refs/heads/nowhere"],
        &["refs/heads/dir", "refs/heads/main"],
        &["refs/heads/side/below", "refs/heads/main"],
        &["refs/heads", "refs/heads/main"],
        &["NOTES", "refs/heads/main"],
        &["refs/heads/broken", "refs/heads/main"],
        &["-d", "refs/heads/new/link"],
        &["-d", "refs/tags/link"],
        &["--delete", "-q", "NOTES"],
        &["-d", "NOTES"],
        &["-d", "HEAD"],
        &["-d", "refs/heads/main"],
        &["-d", "refs/heads/loop"],
        &["HEAD", "main"],
        &["HEAD", "refs/heads/a..b"],
        &["refs/heads/x", "a..b"],
        &["refs/heads/x", "refs/heads/"],
        &["refs/heads/x", "ORIG_HEAD"],
        &["refs/heads/a..b", "a..b"],
        &["-d", "refs/heads/a..b"],
        &["FETCH_HEAD", "refs/heads/main"],
        &["lower", "refs/heads/main"],
        &["-m", "of HEAD's branch", "refs/heads/side", "refs/heads/main"],
        &["-d", "refs/heads/side"],
    ] {
        let args = [&["symbolic-ref"], args].concat();
        oracle.same(&args);
        shim.was_native(&args);
    }
    for (args, why) in [
        (&["refs/heads/a..b", "refs/heads/main"][..], "unusual name"),
        (&["refs/heads/y", "lower"], "unusual name"),
    ] {
        let args = [&["symbolic-ref"], args].concat();
        oracle.same(&args);
        shim.was_handed_over(&args, why);
    }
}

#[test]
fn names_locks_as_git_does_and_leaves_hooks_to_it() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let write = ["symbolic-ref", "HEAD", "refs/heads/side"];
    oracle.both(|repo| repo.write(".git/HEAD.lock", ""));
    oracle.same(&write);
    shim.was_native(&write);
    oracle.both(|repo| std::fs::remove_file(repo.join(".git/HEAD.lock")).expect("it is there"));
    oracle.both(|repo| {
        let script = "#!/bin/sh\ncat >>../hooked\n";
        let made = ["-c", "mkdir -p .git/hooks; printf '%s' \"$0\" >.git/hooks/reference-transaction; chmod +x .git/hooks/*", script];
        assert!(repo.command("sh".as_ref()).args(made).status().expect("a shell").success());
    });
    oracle.same(&write);
    shim.was_handed_over(&write, "reference-transaction");
    oracle.same(&["symbolic-ref", "HEAD"]);
    shim.was_native(&["symbolic-ref", "HEAD"]);
}

/// Reads, writes and deletions in a random order.
#[test]
fn random_lives_of_symbolic_refs() {
    let shim = Shim::new();
    for seed in 0..if crate::full() { 40 } else { 3 } {
        let mut random = Random::new(seed);
        let oracle = Oracle::new(&shim.program(), setup);
        for _ in 0..25 {
            let mut pick = || NAMES[random.below(NAMES.len())];
            let (name, target) = (pick(), pick());
            let args = match random.below(6) {
                0 => vec!["symbolic-ref", "-d", name],
                1 => vec!["symbolic-ref", "--short", name],
                2 => vec!["symbolic-ref", "-m", "why", name, target],
                _ => vec!["symbolic-ref", name, target],
            };
            // This would make the repository invalid for the next command of either program.
            if name == "HEAD" && args.len() > 3 && !target.starts_with("refs/heads/") {
                continue;
            }
            oracle.same_as(&format!("seed {seed}"), &args);
        }
    }
}
