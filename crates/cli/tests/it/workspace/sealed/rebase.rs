//! `workspace land --rebase`: as `git rebase` does it, without a worktree.

use std::{fs, process::Command};

use serde_json::{Value, json};
use testkit::Repo;

use super::super::create::Place;
use crate::killed::sapwood;

/// A repository with the branch `trunk`, which is not checked out, and a sealed workspace for each
/// name. Trunk got the patch `shared` meanwhile, and others.
fn diverged(names: &[&str]) -> Place {
    let place = Place::new();
    let repo = place.repo();
    repo.write("many", (0..20).map(|number| format!("{number}\n")).collect::<String>());
    repo.commit("many");
    repo.git(&["branch", "trunk"]);
    for name in names {
        place.done(&["create", "-q", "--sealed", "--backend", "overlay", name, "trunk"]);
    }
    repo.git(&["checkout", "-q", "trunk"]);
    repo.write("shared", "shared\n");
    repo.commit("shared");
    replace(&repo, "many", "0\n", "zero\n");
    repo.write("theirs", "theirs\n");
    repo.commit("theirs");
    repo.git(&["checkout", "-q", "-"]);
    place
}

/// Replaces the first `from` in a file.
fn replace(repo: &Repo<'_>, path: &str, from: &str, to: &str) {
    repo.write(path, repo.read(path).to_string().replacen(from, to, 1));
}

fn commit_as(repo: &Repo<'_>, args: &[&str]) {
    repo.git(&["add", "-A"]);
    repo.git(&[&["commit", "-q", "--allow-empty-message", "--cleanup=verbatim"], args].concat());
}

/// Commits of all kinds. The last one is empty from the start.
fn work(repo: &Repo<'_>) {
    repo.write("own", "own\n");
    commit_as(repo, &["-m", "subject\n\n# no comment\n\n\n  body  \n\n", "--author=\u{c4} B <a@b>"]);
    repo.write("shared", "shared\n");
    commit_as(repo, &["-m", "the patch that trunk has", "--date=2001-02-03T04:05:06+0130"]);
    replace(repo, "many", "19\n", "nineteen\n");
    repo.git(&["mv", "dir", "renamed"]);
    repo.write_executable("run", "#!/bin/sh\necho\n");
    repo.symlink("own", "to-own");
    commit_as(repo, &["-m", "many kinds", "--date=@86400 -0700"]);
    repo.write("own", "more\n");
    repo.git(&["add", "-A"]);
    repo.write("message", b"caf\xe9\n\n\xfc\n");
    repo.git(&["-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-F", "message", "own"]);
    repo.remove("message");
    repo.git(&["commit", "-q", "--allow-empty", "-m", "empty from the start"]);
    repo.write("theirs", "theirs\n");
    commit_as(repo, &["-m", "half of a patch that trunk has"]);
    commit_as(repo, &["--allow-empty", "-m", ""]);
}

fn landed(place: &Place, args: &[&str]) -> (i32, Value) {
    let run = place.run(&[&["land", "--json"], args].concat());
    (run.code, serde_json::from_str(&run.stdout.to_string()).expect("JSON"))
}

#[test]
fn a_rebase_makes_the_commits_that_git_rebase_makes() {
    let place = diverged(&["one"]);
    let repo = place.repo();
    let one = place.workspace("one");
    work(&one);
    let tip = one.git(&["rev-parse", "HEAD"]).stdout.to_string();
    // The oracle has the same objects, and the same clock.
    let path = repo.path.to_str().expect("a plain name");
    place.sandbox.repo("").git(&["clone", "-q", "--branch", "trunk", path, "oracle"]);
    let oracle = place.sandbox.repo("oracle");
    oracle.git(&["fetch", "-q", one.path.to_str().expect("a plain name"), "HEAD"]);
    oracle.git(&["checkout", "-q", "--detach", "FETCH_HEAD"]);
    oracle.git(&["rebase", "-q", "trunk"]);
    let expected = oracle.git(&["rev-parse", "HEAD"]).stdout.to_string();
    let before = (repo.git(&["status", "--porcelain"]).stdout, repo.git(&["rev-parse", "HEAD"]).stdout);
    let (code, report) = landed(&place, &["--rebase", "--onto", "trunk", "one"]);
    assert_eq!((code, &report[0]["change"]), (0, &json!("rebase")), "{report}");
    let shown = |repo: &Repo<'_>, tip: &str| repo.git(&["log", "--format=raw", "-p", tip]).stdout;
    assert_eq!(shown(&repo, "trunk"), shown(&oracle, "HEAD"));
    assert_eq!(repo.git(&["rev-parse", "trunk"]).stdout, expected);
    assert_eq!(
        (repo.git(&["status", "--porcelain"]).stdout, repo.git(&["rev-parse", "HEAD"]).stdout),
        before
    );
    assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "");
    assert!(repo.git(&["reflog", "trunk"]).stdout.to_string().contains("workspace land: one: rebase"));
    // The workspace is as it was. A second landing finds nothing.
    assert_eq!(one.git(&["rev-parse", "HEAD"]).stdout, tip);
    let (code, report) = landed(&place, &["--rebase", "--onto", "trunk", "one"]);
    assert_eq!((code, &report[0]["change"]), (0, &json!("none")), "{report}");
    assert_eq!(repo.git(&["rev-parse", "trunk"]).stdout, expected);
}

#[test]
fn a_rebase_of_a_root_commit_is_one_of_git() {
    let place = diverged(&["one"]);
    let (repo, one) = (place.repo(), place.workspace("one"));
    one.git(&["checkout", "-q", "--orphan", "other"]);
    one.git(&["rm", "-rfq", "."]);
    one.write("root", "root\n");
    one.commit("root");
    let path = repo.path.to_str().expect("a plain name");
    place.sandbox.repo("").git(&["clone", "-q", "--branch", "trunk", path, "oracle"]);
    let oracle = place.sandbox.repo("oracle");
    oracle.git(&["fetch", "-q", one.path.to_str().expect("a plain name"), "HEAD"]);
    oracle.git(&["checkout", "-q", "--detach", "FETCH_HEAD"]);
    oracle.git(&["rebase", "-q", "trunk"]);
    place.done(&["land", "-q", "--rebase", "--onto", "trunk", "one"]);
    assert_eq!(repo.git(&["rev-parse", "trunk"]).stdout, oracle.git(&["rev-parse", "HEAD"]).stdout);
}

/// Everything that a command shows, and the record of the workspace.
fn state(place: &Place, name: &str) -> (String, String, String) {
    let repo = place.repo();
    let record = repo.join(format!(".git/sapwood/workspaces/{name}/record"));
    let one = place.workspace(name).git(&["for-each-ref"]).stdout.to_string();
    let refs =
        repo.git(&["for-each-ref"]).stdout.to_string() + &repo.git(&["reflog", "trunk"]).stdout.to_string();
    (refs, fs::read_to_string(record).expect("a record"), one)
}

#[test]
fn a_conflict_names_the_commit_and_the_paths_and_changes_nothing() {
    let place = diverged(&["one", "two"]);
    let (one, two) = (place.workspace("one"), place.workspace("two"));
    one.write("fine", "fine\n");
    one.commit("fine");
    one.write("theirs", "mine\n");
    replace(&one, "many", "0\n", "null\n");
    one.commit("conflicts");
    let culprit = one.git(&["rev-parse", "HEAD"]).stdout.to_string();
    one.write("later", "later\n");
    one.commit("later");
    let before = state(&place, "one");
    let (code, report) = landed(&place, &["--rebase", "--onto", "trunk", "one"]);
    assert_eq!((code, &report[0]["landed"]), (1, &json!(false)), "{report}");
    assert_eq!(report[0]["commit"], json!(culprit.trim_end()), "{report}");
    assert_eq!(report[0]["conflicts"], json!(["many", "theirs"]), "{report}");
    assert_eq!(state(&place, "one"), before);
    let run = place.run(&["land", "--rebase", "--onto", "trunk", "one"]);
    assert!(run.stderr.to_string().contains(culprit.trim_end()), "{}", run.stderr);
    assert_ne!(place.run(&["remove", "one"]).code, 0, "nothing has landed");
    // A merge cannot be replayed.
    two.git(&["checkout", "-q", "-b", "side"]);
    two.write("side", "side\n");
    two.commit("side");
    two.git(&["checkout", "-q", "-"]);
    two.write("main", "main\n");
    two.commit("main");
    two.git(&["merge", "-q", "--no-edit", "side"]);
    let before = state(&place, "two");
    let run = place.run(&["land", "--rebase", "--onto", "trunk", "two"]);
    assert_eq!(run.code, 128, "{}", run.stderr);
    assert!(run.stderr.to_string().contains("merge commit"), "{}", run.stderr);
    assert_eq!(state(&place, "two"), before);
    place.done(&["land", "-q", "--onto", "trunk", "two"]);
}

#[test]
fn a_workspace_that_landed_by_a_rebase_can_be_removed() {
    let place = diverged(&["one"]);
    let (repo, one) = (place.repo(), place.workspace("one"));
    for name in ["a", "b"] {
        one.write(name, "own\n");
        one.commit(name);
    }
    one.git(&["branch", "earlier", "HEAD~1"]);
    assert_ne!(place.run(&["remove", "one"]).code, 0);
    place.done(&["land", "-q", "--rebase", "--onto", "trunk", "one"]);
    // Further work is not landed.
    one.write("c", "own\n");
    one.commit("c");
    let refused = place.run(&["remove", "one"]);
    assert!(refused.stderr.to_string().contains("has commits"), "{}", refused.stderr);
    one.git(&["reset", "-q", "--hard", "HEAD~1"]);
    // Without a ref that reaches the result, it would be lost.
    repo.git(&["branch", "-m", "trunk", "kept"]);
    repo.git(&["update-ref", "refs/heads/trunk", "kept~2"]);
    let kept = repo.git(&["rev-parse", "kept"]).stdout.to_string();
    repo.git(&["branch", "-D", "kept"]);
    let refused = place.run(&["remove", "one"]);
    assert!(refused.stderr.to_string().contains("has commits"), "{}", refused.stderr);
    repo.git(&["branch", "kept", kept.trim_end()]);
    place.done(&["remove", "one"]);
    assert_eq!(place.json(), json!([]));
}

#[test]
fn all_land_one_after_the_other_each_rebased_and_checked() {
    let place = diverged(&["a", "b", "c", "d"]);
    let repo = place.repo();
    for name in ["a", "b", "c", "d"] {
        let workspace = place.workspace(name);
        workspace.write(if name == "c" { "a" } else { name }, format!("{name}\n"));
        workspace.commit(name);
    }
    place.done(&["create", "-q", "--backend", "overlay", "linked", "HEAD", "-b", "linked"]);
    place.workspace("linked").write("linked", "linked\n");
    place.workspace("linked").commit("linked");
    let start = repo.git(&["rev-parse", "trunk"]).stdout.to_string();
    let check = "test -e theirs && ! test -e d";
    let (code, report) = landed(&place, &["--all", "--rebase", "--onto", "trunk", "--check", check]);
    assert_eq!(code, 1, "{report}");
    let changes: Vec<&Value> = (0..5).map(|at| &report[at]["change"]).collect();
    let rebase = json!("rebase");
    assert_eq!(changes, [&rebase, &rebase, &Value::Null, &Value::Null, &rebase], "{report}");
    assert_eq!(report[2]["conflicts"], json!(["a"]), "{report}");
    assert!(report[3]["reason"].to_string().contains("ended with 1"), "{report}");
    let range = format!("{}..trunk", start.trim_end());
    assert_eq!(repo.git(&["log", "--format=%s", &range]).stdout, "linked\nb\na\n");
    assert_eq!(repo.git(&["rev-list", "--merges", "trunk"]).stdout, "");
    assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "");
    assert_eq!(place.json().as_array().expect("a list").len(), 5, "a check has left its workspace");
    place.done(&["remove", "-q", "a", "b"]);
}

#[test]
fn git_syncs_what_the_branch_will_reach() {
    if !testkit::has_program("strace") {
        return;
    }
    for (name, how) in [("one", &["--rebase"][..]), ("two", &[])] {
        let place = diverged(&["one", "two"]);
        let repo = place.repo();
        place.workspace(name).write("sub/own", "own\n");
        place.workspace(name).commit("own");
        let trace = place.sandbox.path().join("trace");
        let land = sapwood(&repo, &[]);
        let mut traced = Command::new("strace");
        traced.args(["-f", "-y", "-s", "4096", "-e", "trace=fsync,fdatasync,execve", "-o"]).arg(&trace);
        traced.arg(land.get_program()).args(["workspace", "land", "-q", "--onto", "trunk", name]).args(how);
        let variables = land.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let run = traced.env_clear().envs(variables).current_dir(&repo.path).output().expect("strace runs");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let log = fs::read_to_string(&trace).expect("a trace");
        let merge = log.lines().find(|line| line.contains("execve") && line.contains("merge-tree"));
        let pid = merge.expect("Git merges").split(' ').next().expect("a number");
        let synced = log.lines().filter(|line| line.starts_with(pid) && line.contains("sync(")).count();
        assert!(synced > 0, "{name}: git merge-tree has synced nothing");
    }
}
