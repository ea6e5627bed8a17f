//! Tests of `reset`: its results and its output.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates three commits, a branch that conflicts, and files of each kind.
fn history(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("kept", "kept\n");
    repo.commit("first");
    repo.git(&["branch", "topic"]);
    repo.write("a", "two\n");
    repo.write_executable("tool", "#!/bin/sh\n");
    repo.commit("second");
    repo.write("a", "three\n");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.commit("third");
    repo.git(&["switch", "-q", "topic"]);
    repo.write("a", "topic\n");
    repo.commit("on topic");
    repo.git(&["switch", "-q", "main"]);
}

/// Makes local changes of every kind.
fn local_changes(repo: &Repo<'_>) {
    repo.write("kept", "changed\n");
    repo.write("untracked", "untracked\n");
    repo.write("added", "added\n");
    repo.git(&["add", "added"]);
    repo.remove("tool");
}

#[test]
fn resets_local_changes_in_every_mode() {
    for mode in ["--soft", "--mixed", "--hard", "--merge", "--keep", "-q"] {
        for target in ["HEAD", "HEAD~1", "HEAD~2", "topic"] {
            let oracle = Oracle::new(SAPWOOD, history);
            oracle.both(local_changes);
            oracle.same(&["reset", mode, target]);
            oracle.same(&["reset", "--hard", "ORIG_HEAD"]);
        }
    }
}

#[test]
fn refuses_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| repo.write("a", "changed\n"));
    oracle.same(&["reset", "--merge", "HEAD~1"]);
    oracle.same(&["reset", "--keep", "HEAD~1"]);
    oracle.same(&["reset", "--hard", "nowhere"]);
    oracle.same(&["reset", "nowhere", "--"]);
    oracle.same(&["reset", "--hard", "--", "a"]);
    oracle.same(&["reset", "--mixed", "--", "a"]);
    oracle.same(&["reset", "-N", "--hard"]);
    oracle.same(&["reset", "nowhere"]);
    oracle.same(&["reset", "main^{tree}"]);
}

#[test]
fn resets_a_stopped_merge() {
    for args in [
        &["reset"][..],
        &["reset", "--hard"],
        &["reset", "--merge"],
        &["reset", "--keep"],
        &["reset", "--soft", "HEAD~1"],
        &["reset", "--", "a"],
        &["reset", "-q", "--", "kept"],
    ] {
        let oracle = Oracle::new(SAPWOOD, history);
        oracle.both(|repo| {
            repo.try_git(&["merge", "topic"]);
        });
        oracle.same(args);
    }
}

#[test]
fn resets_paths() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(local_changes);
    oracle.same(&["reset", "--", "added"]);
    oracle.same(&["reset", "HEAD~2", "--", "dir", "tool"]);
    oracle.same(&["reset", "HEAD~2", "a"]);
    oracle.same(&["reset", "-q", "."]);
    oracle.same(&["reset", "topic", "*"]);
    oracle.same(&["reset", "-N", "HEAD~2", "--", "tool", "dir"]);
    oracle.same(&["reset", "nothing"]);
    oracle.same(&["reset", "--", "nothing"]);
    oracle.same(&["reset", "--no-refresh"]);
    oracle.both(|repo| repo.write("main", "a file called like a branch\n"));
    oracle.same(&["reset", "main"]);
    oracle.same(&["reset", "main", "--"]);
}

#[test]
fn resets_an_unborn_branch() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("a", "a\n");
        repo.git(&["add", "a"]);
    });
    oracle.same(&["reset"]);
    oracle.both(|repo| {
        repo.git(&["add", "a"]);
    });
    oracle.same(&["reset", "--", "a"]);
    oracle.same(&["reset", "--soft"]);
    oracle.same(&["reset", "--hard"]);
}

#[test]
fn resets_a_detached_head() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.git(&["checkout", "-q", "--detach"]);
    });
    oracle.same(&["reset", "--hard", "@~1"]);
    oracle.same(&["reset", "@"]);
}

#[test]
fn runs_in_the_git_directory() {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        repo.write("a", "changed\n");
        repo.git(&["add", "a"]);
    });
    for args in [&["reset"][..], &["reset", "HEAD~1"], &["reset", "--soft", "topic"], &["reset", "--hard"]] {
        oracle.same_in(".git", args);
    }
    oracle.both(|repo| {
        repo.git(&["config", "core.bare", "true"]);
    });
    oracle.same_in(".git", &["reset"]);
}

#[test]
fn prints_the_subject_in_the_encoding_of_logs() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.git(&["-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-m", "\u{e4}"]);
    });
    oracle.same(&["reset", "--hard"]);
    oracle.same(&["-c", "i18n.logOutputEncoding=ISO-8859-1", "reset", "--hard"]);
    oracle.same(&["-c", "i18n.logOutputEncoding=no-such", "reset", "--hard"]);
    oracle.same(&["checkout", "--detach"]);
}
