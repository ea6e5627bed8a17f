//! `--ours`, `--theirs` and `--merge`: checkout of one side of a conflict, and switches that may
//! have to merge.

use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, shim::Shim, switch::two_branches};

/// Creates a stopped merge with every way in which two sides can differ.
fn stopped_merge(repo: &Repo<'_>) {
    repo.write("both", "base\n");
    repo.write("deleted by them", "base\n");
    repo.write("deleted by us", "base\n");
    repo.write("dir/link", "base\n");
    repo.write("mode", "base\n");
    repo.write("plain", "base\n");
    repo.commit("base");
    repo.git(&["branch", "topic"]);
    repo.write("both", "ours\n");
    repo.write("deleted by them", "ours\n");
    repo.remove("deleted by us");
    repo.write("added", "ours\n");
    repo.remove("dir/link");
    repo.symlink("ours", "dir/link");
    repo.write_executable("mode", "ours\n");
    repo.commit("ours");
    repo.git(&["switch", "-q", "topic"]);
    repo.write("both", "theirs\n");
    repo.remove("deleted by them");
    repo.write("deleted by us", "theirs\n");
    repo.write("added", "theirs\n");
    repo.remove("dir/link");
    repo.symlink("theirs", "dir/link");
    repo.write("mode", "theirs\n");
    repo.commit("theirs");
    repo.git(&["switch", "-q", "main"]);
    assert_ne!(repo.try_git(&["merge", "topic"]).code, 0);
    repo.write("plain", "edited\n");
}

#[test]
fn checks_out_one_side_of_a_conflict() {
    let sandbox = Sandbox::new();
    let template = sandbox.init("template");
    stopped_merge(&template);
    let shim = Shim::new();
    for line in [
        &["checkout", "--ours", "--", "both"][..],
        &["checkout", "--theirs", "."],
        &["checkout", "--theirs", "--no-overlay", "."],
        &["checkout", "--ours", "--no-overlay", "--", "."],
        &["checkout", "-2", "both", "plain"],
        &["checkout", "--ours", "-3", "mode", "dir"],
        &["checkout", "-q", "--theirs", "added", "no such file"],
        &["checkout", "--ours"],
        &["checkout", "--ours", "topic"],
        &["checkout", "-f", "--ours", "both"],
        &["checkout", "HEAD", "--ours", "--", "both"],
        &["restore", "--ours", "."],
        &["restore", "--theirs", "both", "deleted by them"],
        &["restore", "--theirs", "--overlay", "."],
        &["restore", "--staged", "--ours", "both"],
        &["restore", "--source=HEAD", "--theirs", "both"],
        &["restore", "--ours", "-W", "both", "added"],
    ] {
        for program in [SAPWOOD, &shim.program()] {
            let oracle = Oracle::copies_of(program, &template);
            oracle.same(line);
            // The index has the stat data of the file just written, so the second run writes
            // nothing.
            oracle.same_as("again", line);
            oracle.same_as("after it", &["checkout", "--theirs", "both"]);
        }
        shim.was_native(line);
    }
}

/// A change that the user makes in a worktree.
type Edit = fn(&Repo<'_>);

/// Creates two branches, and local changes by `edit`.
fn edited(repo: &Repo<'_>, edit: Edit) {
    two_branches(repo);
    repo.git(&["switch", "-q", "topic"]);
    repo.write("added", "topic\n");
    repo.commit("added");
    repo.git(&["switch", "-q", "main"]);
    edit(repo);
}

#[test]
fn switches_unless_local_changes_must_be_merged() {
    let shim = Shim::new();
    let cases: [(&str, Edit, bool); 5] = [
        ("clean", |_| {}, true),
        ("kept", |repo| repo.write("untracked", "mine\n"), true),
        ("in the way", |repo| repo.write("a", "mine\n"), false),
        (
            "staged in the way",
            |repo| {
                repo.write("a", "mine\n");
                repo.git(&["add", "a"]);
            },
            false,
        ),
        ("untracked in the way", |repo| repo.write("added", "mine\n"), false),
    ];
    for (name, edit, native) in cases {
        for line in [
            &["switch", "-m", "topic"][..],
            &["checkout", "-m", "topic"],
            &["checkout", "--conflict=diff3", "-b", "new", "topic", "--"],
            &["switch", "--merge", "--detach", "topic"],
        ] {
            let oracle = Oracle::new(&shim.program(), |repo| edited(repo, edit));
            oracle.same_as(name, line);
            if native {
                shim.was_native(&[name, line[0]])
            } else {
                shim.was_handed_over(&[name, line[0]], "local changes have to be merged")
            }
            let oracle = Oracle::new(SAPWOOD, |repo| edited(repo, edit));
            if native {
                oracle.same_as(name, line);
            } else {
                let ours = oracle.ours();
                let before = oracle.snapshot(&ours);
                let run = ours.run(SAPWOOD.as_ref(), line);
                assert_eq!(run.code, 128, "{name} {line:?}: {}", run.stderr);
                assert_eq!(before, oracle.snapshot(&ours), "{name} {line:?}");
            }
        }
    }
}

#[test]
fn rejects_options_that_exclude_a_merge() {
    let oracle = Oracle::new(SAPWOOD, two_branches);
    for line in [
        &["checkout", "-f", "-m", "topic"][..],
        &["switch", "--discard-changes", "-m", "topic"],
        &["switch", "-m", "no-such-branch"],
        &["checkout", "-m", "HEAD", "--", "a"],
        &["restore", "-m", "--staged", "a"],
        &["restore", "--ignore-unmerged", "-m", "a"],
    ] {
        oracle.same(line);
    }
}
