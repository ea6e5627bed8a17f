//! Hooks: when they run, with what arguments, and that those of the configuration come before that of the directory.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Hooks that say how they were called; where to is what the commands' own standard error shows.
fn hooked(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("dir/b", "1\n");
    repo.commit("first");
    repo.git(&["branch", "topic"]);
    repo.write("a", "2\n");
    repo.commit("second");
    for event in ["post-index-change", "post-checkout"] {
        let hook = format!(
            "#!/bin/sh\necho \"{event} $* in ${{PWD##*/}} from '$GIT_PREFIX'\"\ngit ls-files -s | wc -l\n"
        );
        repo.write_executable(format!(".git/hooks/{event}"), hook);
    }
}

const CALLS: &[&[&str]] = &[
    &["switch", "topic"],
    &["switch", "-c", "new"],
    &["checkout", "main"],
    &["checkout", "topic", "--", "a"],
    &["checkout", "--", "a"],
    &["restore", "--source=HEAD~1", "a"],
    &["restore", "--staged", "a"],
    &["reset"],
    &["reset", "--", "a"],
    &["reset", "--soft", "HEAD~1"],
    &["reset", "--hard", "topic"],
    &["reset", "--keep", "main"],
    &["checkout", "--detach"],
    &["checkout", "nowhere"],
];

#[test]
fn in_the_directory() {
    let oracle = Oracle::new(SAPWOOD, hooked);
    for args in CALLS {
        oracle.same(args);
    }
    oracle.same_in("dir", &["reset", "--hard"]);
    // A hook that fails stops nothing but the exit code of a checkout.
    oracle.both(|repo| {
        for event in ["post-index-change", "post-checkout"] {
            repo.write_executable(format!(".git/hooks/{event}"), "#!/bin/sh\nexit 7\n");
        }
    });
    oracle.same(&["switch", "main"]);
    oracle.same(&["reset", "--hard", "topic"]);
}

#[test]
fn in_the_configuration() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        hooked(repo);
        for (name, value) in [
            ("hook.one.event", "post-checkout"),
            ("hook.one.command", "echo one; printf '<%s>\\n'"),
            ("hook.two.event", "post-index-change"),
            ("hook.two.command", "echo"),
            ("hook.three.event", "pre-commit"),
            ("hook.three.command", "false"),
        ] {
            repo.git(&["config", name, value]);
        }
    });
    for args in CALLS {
        oracle.same(args);
    }
    oracle.both(|repo| drop(repo.git(&["config", "hook.one.enabled", "false"])));
    oracle.same(&["switch", "topic"]);
    oracle.both(|repo| drop(repo.git(&["config", "hook.post-index-change.enabled", "false"])));
    oracle.same(&["switch", "main"]);
}
