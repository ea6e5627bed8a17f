//! `switch` and `checkout <branch>`: their results and their output.

use std::path::Path;

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates two branches that differ, a tag, and a directory.
pub(crate) fn two_branches(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.commit("first");
    repo.git(&["tag", "v1"]);
    repo.git(&["branch", "topic"]);
    repo.write("a", "two\n");
    repo.write("new", "new\n");
    repo.commit("second");
    repo.git(&["switch", "-q", "topic"]);
    repo.write("dir/b", "topic\n");
    repo.commit("on topic");
    repo.git(&["switch", "-q", "main"]);
}

fn oracle() -> Oracle {
    Oracle::new(SAPWOOD, two_branches)
}

#[test]
fn to_a_branch_and_back() {
    let oracle = oracle();
    let run = oracle.same(&["switch", "topic"]);
    assert_eq!(run.stderr, "Switched to branch 'topic'\n");
    oracle.same(&["switch", "-"]);
    oracle.same(&["switch", "main"]);
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["checkout", "@{-1}"]);
    oracle.same(&["checkout"]);
    oracle.same(&["checkout", "-q", "topic", "--"]);
    oracle.same(&["checkout", "main", "-q"]);
}

#[test]
fn detached() {
    let oracle = oracle();
    oracle.same(&["switch", "v1"]);
    oracle.same(&["switch", "main~1"]);
    oracle.same(&["switch", "--detach", "topic"]);
    oracle.same(&["checkout", "v1"]);
    oracle.same(&["checkout", "main~0"]);
    oracle.same(&["checkout", "main"]);
    oracle.same(&["-c", "advice.detachedHead=false", "checkout", "v1"]);
    oracle.same(&["checkout", "--detach"]);
    oracle.same(&["switch", "-"]);
    oracle.same(&["switch", "-d"]);
}

#[test]
fn new_branches() {
    let oracle = oracle();
    oracle.same(&["switch", "-c", "one"]);
    oracle.same(&["switch", "-c", "one"]);
    oracle.same(&["switch", "-c", "two", "topic"]);
    oracle.same(&["switch", "-C", "two", "v1"]);
    oracle.same(&["switch", "-C", "one", "v1"]);
    oracle.same(&["checkout", "-b", "three"]);
    oracle.same(&["checkout", "-bfour", "topic"]);
    oracle.same(&["checkout", "-B", "four"]);
    oracle.same(&["checkout", "-B", "main", "topic"]);
    oracle.same(&["switch", "-c", "in..valid"]);
    oracle.same(&["switch", "-c", "five", "nowhere"]);
    oracle.same(&["checkout", "-b", "five", "nowhere"]);
    oracle.same(&["checkout", "-b", "a/b/c"]);
    oracle.same(&["checkout", "-b", "a/b"]);
}

#[test]
fn orphans() {
    let oracle = oracle();
    oracle.same(&["checkout", "--orphan", "bare"]);
    oracle.same(&["checkout", "-f", "main"]);
    oracle.same(&["switch", "--orphan", "empty"]);
    oracle.same(&["switch", "-c", "other"]);
    oracle.same(&["switch", "main"]);
    oracle.same(&["switch", "--orphan", "main"]);
    oracle.same(&["switch", "--orphan", "x", "topic"]);
}

#[test]
fn the_merge_base_of_two() {
    let oracle = oracle();
    oracle.same(&["checkout", "main...topic"]);
    oracle.same(&["checkout", "...topic"]);
    oracle.same(&["checkout", "-b", "new", "topic..."]);
    oracle.same(&["switch", "-C", "new", "topic...main"]);
    oracle.same(&["restore", "--source=topic...main", "."]);
    oracle.same(&["checkout", "topic...nowhere"]);
    oracle.same(&["checkout", "main...topic", "--", "a"]);
    // No merge base, and two.
    oracle.same(&["checkout", "--orphan", "alone"]);
    oracle.both(|repo| repo.commit("alone"));
    oracle.same(&["checkout", "main...alone"]);
    oracle.both(|repo| {
        repo.git(&["branch", "crossed", "topic"]);
        repo.git(&["checkout", "-q", "-f", "topic"]);
        repo.git(&["merge", "-q", "main"]);
        repo.git(&["checkout", "-q", "main"]);
        repo.git(&["merge", "-q", "-m", "crossed", "crossed"]);
    });
    oracle.same(&["checkout", "main...topic"]);
}

#[test]
fn names_that_mean_several_things() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["tag", "both", "topic"]);
        repo.git(&["branch", "both", "main~1"]);
        let short = repo.git(&["rev-parse", "--short", "main"]).stdout.to_string();
        repo.git(&["tag", short.trim(), "topic"]);
        let long = repo.git(&["rev-parse", "topic"]).stdout.to_string();
        repo.git(&["update-ref", &format!("refs/heads/{}", long.trim()), "main"]);
    });
    let name = |rev: &str| oracle.git().git(&["rev-parse", rev]).stdout.to_string().trim().to_owned();
    let (short, long) = (name("main")[..7].to_owned(), name("topic"));
    for args in [
        &["checkout", "both"][..],
        &["checkout", "both^0"],
        &["checkout", "both~1", "--", "a"],
        &["switch", "-c", "new", "heads/both"],
        &["switch", "-c", "newer", "both~0"],
        &["restore", "--source=both", "."],
        &["restore", "--source=both^{tree}", "."],
        &["checkout", "both...main"],
        &["reset", "both"],
        &["reset", "--hard", "both~0"],
        &["reset", "both", "--"],
        &["reset", "both", "--", "."],
        &["checkout", "-q", "-f", "main"],
        &["checkout", &short],
        &["checkout", &long],
        &["-c", "advice.objectNameWarning=false", "checkout", &long],
        &["-c", "core.warnAmbiguousRefs=false", "checkout", "both"],
        &["checkout", "-"],
        &["checkout", "@{-1}"],
    ] {
        oracle.same(args);
    }
}

#[test]
fn a_head_that_names_no_commit() {
    let oracle = oracle();
    oracle.both(|repo| repo.write(".git/HEAD", format!("{}\n", "0".repeat(40))));
    oracle.same(&["checkout", "main", "--"]);
    oracle.both(|repo| {
        let tree = repo.git(&["rev-parse", "HEAD^{tree}"]).stdout;
        repo.write(".git/HEAD", tree);
    });
    oracle.same(&["checkout", "topic"]);
    // A branch that cannot be created, because other branches are below it.
    oracle.both(|repo| {
        repo.git(&["branch", "outer/inner", "main"]);
        repo.git(&["symbolic-ref", "HEAD", "refs/heads/outer"]);
    });
    oracle.same(&["checkout", "main"]);
}

#[test]
fn reflogs_on_demand() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["config", "core.logAllRefUpdates", "false"]);
    });
    oracle.same(&["checkout", "-b", "without"]);
    oracle.same(&["checkout", "-l", "-b", "with"]);
    oracle.same(&["checkout", "--orphan", "orphan"]);
    oracle.same(&["checkout", "-l", "--orphan", "dir/orphan"]);
}

#[test]
fn prints_an_ellipsis_if_the_environment_asks() {
    let oracle = oracle();
    let with = |repo: &Repo<'_>, program: &str, value: &str| {
        let mut command = repo.command(Path::new(program));
        command.args(["checkout", "--detach", "topic"]).env("GIT_PRINT_SHA1_ELLIPSIS", value);
        String::from_utf8(command.output().expect("it runs").stderr).expect("text")
    };
    let said = with(&oracle.ours(), SAPWOOD, "Yes");
    assert!(said.starts_with("HEAD is now at ") && said.contains("... on topic"), "{said}");
    assert!(!with(&oracle.ours(), SAPWOOD, "no").contains("..."));
}

#[test]
fn an_unborn_branch() {
    let oracle = Oracle::new(SAPWOOD, |_| {});
    oracle.same(&["switch", "-c", "other"]);
    oracle.same(&["checkout", "-b", "third"]);
    oracle.same(&["switch", "nowhere"]);
    oracle.same(&["checkout", "nowhere"]);
    oracle.same(&["checkout", "--detach"]);
    oracle.same(&["checkout"]);
}

#[test]
fn local_changes_are_carried_and_listed() {
    let oracle = oracle();
    oracle.both(|repo| {
        repo.write("new", "changed\n");
        repo.write("staged", "staged\n");
        repo.git(&["add", "staged"]);
        repo.write("untracked", "untracked\n");
    });
    oracle.same(&["switch", "-c", "here"]);
    oracle.same(&["checkout", "main"]);
    oracle.both(|repo| repo.remove("new"));
    oracle.same(&["checkout", "here"]);
    oracle.both(|repo| repo.symlink("a", "new"));
    oracle.same(&["checkout", "main"]);
    oracle.same(&["checkout", "-q", "here"]);
}

#[test]
fn refusals_name_every_path() {
    let oracle = oracle();
    oracle.both(|repo| {
        repo.write("a", "local\n");
        repo.write("dir/b", "local\n");
    });
    oracle.same(&["switch", "topic"]);
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["-c", "advice.commitBeforeMerge=false", "checkout", "topic"]);
    oracle.both(|repo| {
        repo.git(&["checkout", "-q", "-f", "topic"]);
        repo.write("new", "untracked\n");
    });
    oracle.same(&["switch", "main"]);
    oracle.same(&["switch", "--discard-changes", "main"]);
    oracle.both(|repo| repo.write("a", "local\n"));
    oracle.same(&["checkout", "-f", "topic"]);
}

#[test]
fn commits_left_behind_are_listed() {
    let oracle = oracle();
    oracle.both(|repo| {
        repo.git(&["checkout", "-q", "--detach"]);
        repo.write("x", "1");
        repo.commit("lost one");
    });
    oracle.same(&["switch", "main"]);
    oracle.both(|repo| {
        repo.git(&["checkout", "-q", "@{-1}"]);
        repo.write("x", "2");
        repo.commit("lost two");
    });
    oracle.same(&["checkout", "main"]);
    for number in 3..7 {
        oracle.both(|repo| {
            repo.git(&["checkout", "-q", "@{-1}"]);
            repo.write("x", number.to_string());
            repo.commit("lost more");
        });
        oracle.same(&["checkout", "main"]);
    }
}

#[test]
fn tracking() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["init", "-q", "--bare", "../origin"]);
        repo.git(&["remote", "add", "origin", "../origin"]);
        repo.git(&["push", "-q", "origin", "main", "topic"]);
        repo.git(&["fetch", "-q"]);
        repo.git(&["branch", "-q", "-D", "topic"]);
    });
    let run = oracle.same(&["switch", "topic"]);
    assert_eq!(run.stdout, "branch 'topic' set up to track 'origin/topic'.\n");
    oracle.same(&["checkout", "main"]);
    oracle.same(&["checkout", "topic"]);
    oracle.both(|repo| repo.commit("ahead"));
    oracle.same(&["checkout", "topic"]);
    oracle.both(|repo| {
        repo.git(&["reset", "-q", "--hard", "HEAD~2"]);
    });
    oracle.same(&["checkout", "topic"]);
    oracle.both(|repo| repo.commit("diverged"));
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["-c", "advice.statusHints=false", "checkout", "topic"]);
    oracle.same(&["switch", "-c", "other", "origin/topic"]);
    oracle.same(&["switch", "-c", "plain", "--no-track", "origin/topic"]);
    oracle.same(&["switch", "-c", "local", "--track", "main"]);
    oracle.same(&["switch", "-c", "heir", "--track=inherit", "other"]);
    oracle.same(&["checkout", "-t", "origin/main"]);
    oracle.same(&["checkout", "-t", "origin/topic", "-b", "named"]);
    oracle.same(&["checkout", "-t"]);
    oracle.same(&["checkout", "--no-guess", "nothing"]);
    oracle.both(|repo| {
        repo.git(&["update-ref", "-d", "refs/remotes/origin/topic"]);
    });
    oracle.same(&["checkout", "other"]);
}

#[test]
fn the_same_branch_on_two_remotes() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        for remote in ["one", "two"] {
            let place = format!("../{remote}");
            repo.git(&["init", "-q", "--bare", &place]);
            repo.git(&["remote", "add", remote, &place]);
            repo.git(&["push", "-q", remote, "topic"]);
        }
        repo.git(&["branch", "-q", "-D", "topic"]);
    });
    oracle.same(&["switch", "topic"]);
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["-c", "checkout.guess=false", "checkout", "topic"]);
    oracle.same(&["-c", "checkout.defaultRemote=two", "checkout", "topic"]);
}

#[test]
fn words_that_mean_nothing() {
    let oracle = oracle();
    oracle.same(&["switch"]);
    oracle.same(&["switch", "nowhere"]);
    oracle.same(&["switch", "main", "topic"]);
    oracle.same(&["checkout", "nowhere"]);
    oracle.same(&["checkout", "nowhere", "--"]);
    oracle.same(&["checkout", "a", "b", "--"]);
    oracle.same(&["checkout", "main^{tree}"]);
    oracle.same(&["switch", "--detach", "main:a"]);
    oracle.same(&["switch", "-c", "x", "--detach"]);
    oracle.same(&["checkout", "--orphan", "x", "-t"]);
    oracle.same(&["checkout", "-b", "x", "-B", "y"]);
}

#[test]
fn operations_in_progress() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["switch", "-q", "topic"]);
        repo.write("a", "conflict\n");
        repo.commit("conflicts");
        repo.git(&["switch", "-q", "main"]);
    });
    oracle.both(|repo| {
        repo.try_git(&["merge", "topic"]);
    });
    oracle.same(&["switch", "topic"]);
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["checkout", "-f", "topic"]);
    oracle.both(|repo| {
        repo.try_git(&["cherry-pick", "main"]);
    });
    oracle.same(&["switch", "main"]);
    oracle.same(&["checkout", "-f", "main"]);
    oracle.both(|repo| {
        repo.git(&["bisect", "start"]);
    });
    oracle.same(&["switch", "topic"]);
}

#[test]
fn a_branch_in_use_elsewhere() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.git(&["worktree", "add", "-q", "../linked", "topic"]);
    });
    oracle.same(&["switch", "topic"]);
    oracle.same(&["checkout", "topic"]);
    oracle.same(&["checkout", "-B", "topic"]);
    oracle.same(&["checkout", "--detach", "topic"]);
    oracle.same(&["checkout", "--ignore-other-worktrees", "topic"]);
}

#[test]
fn post_checkout_gets_the_old_and_new_head() {
    let hook =
        "#!/bin/sh\necho \"$1 $2 $3 $(pwd)\" >>\"$(git rev-parse --git-dir)/seen\"\necho out; exit 3\n";
    let oracle = Oracle::new(SAPWOOD, |repo| {
        two_branches(repo);
        repo.write_executable(".git/hooks/post-checkout", hook);
    });
    let seen = |repo: &Repo<'_>| {
        let seen = repo.read(".git/seen").to_string();
        seen.replace(&repo.path.display().to_string(), "")
    };
    oracle.same(&["switch", "topic"]);
    oracle.same(&["checkout", "main", "--", "a"]);
    oracle.same_in("dir", &["checkout", "-q", "main"]);
    assert_eq!(seen(&oracle.git()), seen(&oracle.ours()));
    assert_eq!(seen(&oracle.ours()).lines().count(), 3);
}

#[test]
fn a_stale_lock_is_named() {
    for (lock, args) in [
        ("index.lock", &["switch", "topic"][..]),
        ("HEAD.lock", &["switch", "topic"]),
        ("HEAD.lock", &["switch", "--detach", "topic"]),
        ("refs/heads/x.lock", &["switch", "-c", "x"]),
        ("refs/heads/main.lock", &["reset", "--hard", "topic"]),
    ] {
        let oracle = oracle();
        let lock = format!(".git/{lock}");
        oracle.both(|repo| repo.write(&lock, ""));
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(Path::new(SAPWOOD), args);
        assert_eq!(ours.code, theirs.code, "{lock}: {}", ours.stderr);
        let path = oracle.ours().join(&lock).display().to_string();
        let said = ours.stderr.to_string();
        assert!(said.contains(&format!("Unable to create '{path}': File exists.")), "{lock}: {said}");
        let advice =
            format!("hint: if no other process uses the repository, remove the lock file: rm -f '{path}'\n");
        let said = said.strip_suffix(&advice).unwrap_or_else(|| panic!("{lock}: no advice in {said}"));
        // For a branch that HEAD points to, Git reports that it could not lock HEAD.
        let same_words = args[0] != "reset";
        if same_words && oracle.git().try_git(&["--version"]).stdout.to_string().contains("2.55") {
            let there = oracle.git().join("").display().to_string();
            let here = oracle.ours().join("").display().to_string();
            assert_eq!(said, theirs.stderr.to_string().replace(&there, &here), "{lock}: standard error");
        }
        assert_eq!(oracle.ours().read(&lock), "", "{lock}: somebody else's lock stays");
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let oracle = oracle();
    let before = oracle.snapshot(&oracle.ours());
    for args in [
        &["switch", "--dry-run", "topic"][..],
        &["checkout", "--dry-run", "-b", "x", "topic"],
        &["checkout", "--dry-run", "topic", "--", "dir"],
        &["reset", "--dry-run", "--hard", "topic"],
        &["reset", "--dry-run", "topic"],
        &["restore", "--dry-run", "--source=topic", "."],
    ] {
        let run = oracle.ours().run(SAPWOOD.as_ref(), args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        assert!(!run.stdout.is_empty(), "{args:?}");
        assert_eq!(oracle.snapshot(&oracle.ours()), before, "{args:?}");
    }
}

/// Git's `lstat` follows the link of the parent directory: the file behind it counts, and the link
/// is removed.
#[test]
fn a_link_in_a_directorys_place() {
    for behind in [None, Some("elsewhere/c"), Some("elsewhere/b")] {
        let oracle = oracle();
        oracle.both(|repo| {
            repo.remove("dir");
            if let Some(path) = behind {
                repo.write(path, "changed\n");
            }
            repo.symlink("elsewhere", "dir");
        });
        let run = oracle.same(&["switch", "topic"]);
        assert_eq!(run.code == 0, behind != Some("elsewhere/b"), "{behind:?}");
    }
}
