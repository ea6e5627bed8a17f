//! Broken and dangling refs, and arguments that name other files: the messages of commands about
//! them.

use std::{fs, path::Path};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo, Sandbox};

use crate::SAPWOOD;

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
    repo.git(&["branch", "packed"]);
    repo.git(&["pack-refs", "--all"]);
    repo.write("f", "2\n");
    repo.commit("two");
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    for name in ["broken", "packed"] {
        fs::write(repo.join(format!(".git/refs/heads/{name}")), "").expect("written");
    }
}

#[test]
fn passes_over_broken_and_dangling_refs() {
    let oracle = Oracle::new(SAPWOOD, setup);
    for name in ["broken", "packed", "dangling", "config", "COMMIT_EDITMSG", "objects", "refs"] {
        for command in [&["checkout"][..], &["switch"], &["switch", "-c", "new"], &["reset", "--hard"]] {
            oracle.same(&[command, &[name]].concat());
        }
    }
    oracle.both(|repo| repo.write("broken", "a file\n"));
    oracle.both(|repo| drop(repo.git(&["add", "broken"])));
    oracle.both(|repo| repo.write("broken", "changed\n"));
    oracle.same(&["checkout", "broken"]);
}

#[test]
fn leaves_a_detached_commit_despite_a_broken_ref() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        repo.git(&["checkout", "-q", "--detach"]);
        repo.git(&["commit", "-q", "--allow-empty", "-m", "nobody's"]);
    });
    oracle.same(&["checkout", "main"]);
}

/// The time zone: named, unset, empty, or invalid.
#[test]
fn reflog_has_the_same_time_zone_as_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("f", "1\n");
    repo.commit("one");
    let zone = |program: &Path, zone: Option<&str>| {
        let mut command = repo.command(program);
        command.env_remove("GIT_COMMITTER_DATE").env_remove("TZ").args(["reset", "-q", "--soft", "HEAD"]);
        command.envs(zone.map(|zone| ("TZ", zone)));
        assert!(command.status().expect("runs").success(), "{zone:?}");
        let log = repo.read(".git/logs/HEAD");
        let line = log.lines().next_back().expect("a line").to_owned();
        let zone = line
            .split(|&byte| byte == b'\t')
            .next()
            .and_then(|line| line.rsplit(|&byte| byte == b' ').next());
        zone.expect("a zone").as_bstr().to_string()
    };
    let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    for said in [
        None,
        Some(""),
        Some("UTC"),
        Some("Europe/Berlin"),
        Some(":Asia/Kathmandu"),
        Some("America/New_York"),
        Some("<+0330>-3:30"),
        Some("XYZ0:30:15"),
        Some("XYZ9"),
        Some("Nowhere/At/All"),
        Some(":/dev/null"),
    ] {
        assert_eq!(zone(Path::new(&git), said), zone(Path::new(SAPWOOD), said), "{said:?}");
    }
    assert_eq!(zone(Path::new(SAPWOOD), Some("XYZ9")), "-0900");
}

/// Makes `main` a symbolic ref to `trunk`, as after a rename that keeps the old name usable.
fn aliased(repo: &Repo<'_>) {
    for number in 0..3 {
        repo.write("f", format!("{number}\n"));
        repo.commit("more");
    }
    repo.git(&["branch", "side", "HEAD~1"]);
    repo.git(&["branch", "-m", "main", "trunk"]);
    repo.git(&["symbolic-ref", "refs/heads/main", "refs/heads/trunk"]);
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    repo.git(&["config", "branch.trunk.remote", "."]);
    repo.git(&["config", "branch.trunk.merge", "refs/heads/side"]);
}

#[test]
fn follows_a_symbolic_branch() {
    for steps in [
        &[&["status"][..], &["status", "-sb"], &["status", "--porcelain=v2", "--branch"]][..],
        &[&["reset", "--hard", "HEAD~1"], &["reset", "--soft", "trunk@{1}"], &["reset", "--mixed", "side"]],
        &[&["switch", "side"], &["switch", "-"]],
        &[&["checkout", "-b", "new"], &["checkout", "main"]],
        &[&["checkout", "--detach"], &["checkout", "-"], &["checkout", "@{u}"]],
        &[&["switch", "main"], &["switch", "trunk"]],
        &[&["checkout", "-B", "main", "side"]],
        &[&["checkout", "-B", "trunk", "side"]],
        &[&["switch", "side"], &["switch", "-C", "main", "side"]],
        &[&["worktree", "list"], &["worktree", "add", "-q", "--no-checkout", "w", "trunk"]],
    ] {
        let oracle = Oracle::new(SAPWOOD, aliased);
        steps.iter().for_each(|args| drop(oracle.same(args)));
    }
}

/// Paths are relative to the directory in which Git works: the root of the worktree if there is
/// one, or the directory given by an option.
#[test]
fn names_files_of_the_git_directory_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("sub/f", "1\n");
        repo.commit("one");
        let relative = ["-c", "worktree.useRelativePaths=true"];
        repo.git(&[&relative[..], &["worktree", "add", "-q", "-b", "other", "linked"]].concat());
        // A stale lock keeps the directory.
        fs::create_dir_all(repo.join(".git/refs/heads/x")).expect("made");
        fs::write(repo.join(".git/refs/heads/x/y.lock"), "").expect("written");
        repo.write(".git/info/exclude", "ignored\nlinked\n");
        // The reflog of a deleted branch.
        fs::create_dir_all(repo.join(".git/logs/refs/heads/z")).expect("made");
        fs::write(repo.join(".git/logs/refs/heads/z/y"), "").expect("written");
    });
    for (dir, globals) in [
        ("", &[][..]),
        ("sub", &[]),
        ("linked", &[]),
        (".git", &[]),
        (".git/refs", &[]),
        ("", &["-C", "sub"]),
        ("", &["--git-dir=.git"]),
        ("", &["--git-dir=./.git"]),
        ("sub", &["--git-dir=../.git"]),
        ("sub", &["--git-dir=../.git", "--work-tree=.."]),
        ("sub", &["--work-tree=.."]),
        (".git", &["--work-tree=."]),
        ("linked", &["--git-dir=.git"]),
        ("..", &["--git-dir=repo/.git"]),
        ("..", &["--git-dir=repo/.git", "--work-tree=repo"]),
    ] {
        for args in
            [&["checkout", "-b", "x"][..], &["checkout", "-b", "z"], &["check-ignore", "-v", "ignored"]]
        {
            oracle.same_in(dir, &[globals, args].concat());
        }
    }
    oracle.same_in(".git", &["worktree", "add", "../w", "-b", "x"]);
}
