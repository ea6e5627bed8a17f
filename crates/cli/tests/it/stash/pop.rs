//! How `pop`, `apply` and `branch` apply a stash.

use std::{fs, process::Command};

use testkit::{
    Repo, Sandbox,
    disk::{Disk, Format},
};

use super::Pair;
use crate::{SAPWOOD, bounded};

/// Changes after a stash of everything, as lines of shell code.
const SINCE: &[(&str, &str)] = &[
    ("nothing", "true"),
    ("a commit of another path", "echo 9 >b; git commit -qam b"),
    ("a commit of a new path", "echo 9 >n; git add n; git commit -qm n"),
    ("a commit of the same change", "echo 3 >a; git commit -qam a"),
    ("a commit of another change", "echo 8 >a; git commit -qam a"),
    ("a commit that deletes", "git rm -q a; git commit -qm a"),
    ("a local change of another path", "echo 9 >b"),
    ("a local change of the path", "echo 9 >a"),
    ("a staged change of another path", "echo 9 >b; git add b"),
    ("a staged new file", "echo 9 >n; git add n"),
    ("a touched file", "touch -d 2001-01-01 a"),
    ("an untracked file in the way", "echo 9 >new; echo 9 >u"),
    ("an ignored file in the way", "echo 9 >x.o"),
    ("a directory in the way", "mkdir new; echo x >new/x"),
    ("an earlier commit", "git checkout -q HEAD~1"),
    ("a local deletion", "rm b"),
    ("a local deletion of the path", "rm a"),
];

/// Commands that stash, the commands since then, and the form that brings the changes back.
struct Case(&'static str, (&'static str, &'static str), &'static [&'static str]);

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case(stashed, (name, _), form) = self;
        write!(f, "{stashed}; {name}: {form:?}")
    }
}

#[test]
fn brings_back_as_git_does() {
    let mut cases = Vec::new();
    for stashed in [
        "echo 3 >a; git stash -q",
        "echo 3 >a; git add a; echo 4 >a; git stash -q",
        "echo 3 >a; rm dir/c; git mv dir/deep/d moved; echo n >new; git add new; git stash -q",
        "echo 3 >a; echo n >new; git add new; echo u >u; echo o >x.o; git stash -q -a",
        "echo u >u; git stash -qu",
        "chmod +x a; ln -sfn b link; git stash -q",
    ] {
        for since in SINCE {
            let forms: [&[&str]; 3] = [&["pop"], &["apply", "-q"], &["pop", "--index"]];
            cases.extend(forms.map(|form| Case(stashed, *since, form)));
        }
    }
    bounded(cases, 100, |Case(stashed, (_, since), form)| {
        Pair::new().both(stashed).both(since).same(form).native(&["list"]);
    });
}

#[test]
fn is_native_without_merges_of_contents() {
    for since in
        ["true", "echo 9 >b; git commit -qam b", "echo 9 >b", "echo 9 >n; git add n", "touch -d 2001-01-01 a"]
    {
        for stashed in [
            "echo 3 >a; git stash -q",
            "echo 3 >a; rm dir/c; echo n >new; git add new; echo u >u; git stash -q -u",
        ] {
            println!("{stashed}; {since}");
            let pair = Pair::new();
            if since.contains(">n;") && stashed.contains("rm ") {
                // Both sides add a file, and one of them may have renamed its file.
                pair.both(stashed).both(since).handed_over(&["apply"], "renames");
                continue;
            }
            pair.both(stashed).both(since).native(&["apply"]);
            pair.both("git reset -q --hard; git clean -fdq").native(&["pop", "-q"]).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; git add a; echo 4 >a; echo n >new; git add new; echo 5 >b; git stash -q");
    pair.native(&["apply", "--index"]).both("git reset -q --hard").native(&["pop", "--index"]);
    pair.both("git config stash.index true; git stash -q").native(&["pop"]);
}

#[test]
fn leaves_merges_to_git() {
    for (since, why) in [
        ("echo 8 >a; git commit -qam a", "merges of contents"),
        ("echo 9 >a", "local changes in the place"),
        ("git rm -q a; git commit -qm a; echo x >y; git add y; git commit -qm y", "merges of contents"),
    ] {
        println!("{since}");
        let pair = Pair::new();
        pair.both("echo 3 >a; git stash -q").both(since).handed_over(&["pop"], why);
    }
    let pair = Pair::new();
    pair.both("git mv dir moved; git stash -q; echo 9 >dir/n; git add dir; git commit -qm n");
    pair.handed_over(&["pop"], "renames");
}

#[test]
fn makes_a_branch() {
    for since in ["true", "echo 9 >a; git commit -qam a", "echo 9 >b", "echo 9 >a"] {
        for form in [
            &["branch", "new"][..],
            &["branch", "new", "stash@{0}"],
            &["branch", "main"],
            &["branch"],
            &["branch", "x", "7"],
        ] {
            println!("{since}: {form:?}");
            let pair = Pair::new();
            pair.both("echo 3 >a; git add a; echo 4 >a; echo n >new-file; git add new-file; git stash -q");
            pair.both(since).same(form).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; git add a; echo 4 >b; git stash -q; echo 9 >a; git commit -qam a");
    pair.native(&["branch", "new"]);
}

/// Returns a repository with one commit on a disk of its own. `None` if no disk can be mounted.
fn repo_on_ext4(sandbox: &Sandbox) -> Option<(Disk, Repo<'_>)> {
    let at = sandbox.path().join("disk");
    fs::create_dir(&at).expect("made");
    let disk = Disk::on_file(Format::Ext4, 64, &sandbox.path().join("image"), &at)?;
    let repo = sandbox.init("disk/repo");
    repo.write("a", "1\n");
    repo.commit("one");
    Some((disk, repo))
}

/// Restored files are made durable by one call on a file system that can do it, not by one for each
/// file.
#[test]
fn many_files_need_few_flushes() {
    testkit::need_program("strace");
    let sandbox = Sandbox::new();
    let Some((_disk, repo)) = repo_on_ext4(&sandbox) else { return };
    let counts = [20, 1500].map(|count| {
        (0..count).for_each(|number| repo.write(format!("d{}/f{number}", number % 7), "x\n"));
        repo.git(&["stash", "push", "-q", "-u"]);
        // Bytes of other programs that wait for a disk would count.
        assert!(Command::new("sync").status().is_ok_and(|status| status.success()));
        let log = sandbox.path().join("strace");
        let mut command = repo.command("strace".as_ref());
        command.args(["-f", "-o"]).arg(&log).args(["-e", "trace=fsync,fdatasync,syncfs"]);
        let output = command.args([SAPWOOD, "stash", "pop"]).output().expect("strace can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_dir(repo.join("d1")).expect("restored").count(), (count + 5) / 7);
        repo.git(&["clean", "-fdq"]);
        let log = fs::read_to_string(log).expect("written by strace");
        let of = |call: &str| log.matches(call).count();
        [of(" syncfs("), of(" fsync(")]
    });
    let [[none, each], [one, few]] = counts;
    assert!(none == 0 && each >= 20, "{counts:?}");
    assert!(one == 1 && few < 20, "{counts:?}");
}

/// After one flush for all files, an error of writing that the kernel remembers for a file ends the
/// command, and the stash stays.
#[test]
fn a_lost_page_is_an_error_after_one_flush_for_all() {
    testkit::need_program("strace");
    let sandbox = Sandbox::new();
    let Some((_disk, repo)) = repo_on_ext4(&sandbox) else { return };
    (0..100).for_each(|number| repo.write(format!("f{number}"), "x\n"));
    repo.git(&["stash", "push", "-q", "-u"]);
    assert!(Command::new("sync").status().is_ok_and(|status| status.success()));
    let log = sandbox.path().join("strace");
    let mut command = repo.command("strace".as_ref());
    command.args(["-f", "-o"]).arg(&log).args(["-e", "trace=syncfs,sync_file_range"]);
    command.args(["-e", "inject=sync_file_range:error=EIO", SAPWOOD, "stash", "pop"]);
    let output = command.output().expect("strace can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot sync 'f"), "{said}");
    assert!(said.contains("Input/output error"), "{said}");
    let log = fs::read_to_string(log).expect("written by strace");
    assert_eq!(log.matches(" syncfs(").count(), 1, "{log}");
    assert_eq!(repo.git(&["stash", "list"]).stdout.to_string().lines().count(), 1);
}
