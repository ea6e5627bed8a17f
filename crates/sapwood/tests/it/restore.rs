//! Restore as an operation.

use sapwood::{
    Error, PlanError, Repository, Silent,
    restore::{self, ConflictSide, Report, Request},
};
use testkit::Repo;

use crate::{open, pathspecs, silent_oracle};

/// Two commits, then local changes: in the worktree, in the index, and a removed file.
fn changed(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("dir/c", "one\n");
    repo.commit("first");
    repo.write("a", "two\n");
    repo.write_executable("dir/new", "two\n");
    repo.commit("second");
    repo.write("a", "mine\n");
    repo.remove("dir/b");
    repo.write("dir/c", "staged\n");
    repo.git(&["add", "dir/c"]);
    repo.write("dir/untracked", "");
}

fn run(repository: &Repository, request: Request) -> Report {
    restore::plan(repository, request).expect("a plan").run(&Silent).expect("a restore")
}

fn refused(repository: &Repository, request: Request) -> Error {
    match restore::plan(repository, request) {
        Err(PlanError::Failed(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is refused"),
    }
}

fn paths(specs: &[&str]) -> Request {
    Request { pathspecs: pathspecs(specs), ..Request::default() }
}

/// Each request leaves what a command of Git leaves.
#[test]
fn restores_what_git_restores() {
    let from = |source: &str, request| Request { source: Some(source.into()), ..request };
    let staged = |request| Request { index: true, worktree: false, ..request };
    let both = |request| Request { index: true, ..request };
    let cases: Vec<(&[&str], Request)> = vec![
        (&["restore", "a"], paths(&["a"])),
        (&["restore", "dir", "a"], paths(&["dir", "a"])),
        (&["restore", "--staged", "dir"], staged(from("HEAD", paths(&["dir"])))),
        (&["restore", "-s", "HEAD~1", "dir"], from("HEAD~1", paths(&["dir"]))),
        (&["restore", "-s", "HEAD~1", "-S", "-W", "."], both(from("HEAD~1", paths(&["."])))),
        (
            &["checkout", "HEAD~1", "--", "."],
            Request { overlay: true, ..both(from("HEAD~1", paths(&["."]))) },
        ),
    ];
    for (command, request) in cases {
        let oracle = silent_oracle(changed);
        oracle.git().git(command);
        let report = run(&open(&oracle.ours()), request);
        oracle.same_state(command);
        assert!(!report.is_incomplete, "{command:?}");
    }
}

#[test]
fn takes_a_side_of_a_conflict() {
    let oracle = silent_oracle(|repo| {
        repo.write("a", "one\n");
        repo.write("b", "one\n");
        repo.commit("first");
        repo.git(&["switch", "-q", "-c", "topic"]);
        repo.write("a", "theirs\n");
        repo.commit("theirs");
        repo.git(&["switch", "-q", "main"]);
        repo.write("a", "ours\n");
        repo.commit("ours");
        repo.try_git(&["merge", "topic"]);
        repo.write("b", "changed\n");
    });
    let repository = open(&oracle.ours());
    let error = refused(&repository, paths(&["."]));
    assert_eq!(error.to_string(), "path 'a' is unmerged");
    oracle.same_state(&["unmerged"]);
    oracle.git().git(&["restore", "--theirs", "a"]);
    run(&repository, Request { side: Some(ConflictSide::Theirs), ..paths(&["a"]) });
    oracle.same_state(&["theirs"]);
    oracle.git().git(&["restore", "--ignore-unmerged", "."]);
    let report = run(&repository, Request { ignore_unmerged: true, ..paths(&["."]) });
    oracle.same_state(&["ignored"]);
    assert_eq!((report.unmerged, report.written), (vec!["a".into()], 1));
}

#[test]
fn reports_the_hook() {
    let oracle = silent_oracle(changed);
    oracle.both(|repo| {
        repo.write_executable(".git/hooks/post-checkout", "#!/bin/sh\necho \"$3\" >hook\nexit 3\n");
    });
    oracle.git().try_git(&["restore", "a"]);
    assert_eq!(run(&open(&oracle.ours()), paths(&["a"])).hook, 3);
    oracle.same_state(&["hook"]);
}

/// Each refusal is Git's, and nothing has changed after it.
#[test]
fn a_refusal_changes_nothing() {
    let oracle = silent_oracle(changed);
    let repository = open(&oracle.ours());
    let refuse = |request: Request, text: &str| {
        assert_eq!(refused(&repository, request).to_string(), text);
        oracle.same_state(&[text]);
    };
    refuse(Request::default(), "you must specify path(s) to restore");
    let unmatched = "pathspec 'nothing' did not match any file(s) known to git";
    refuse(paths(&["a", "nothing"]), unmatched);
    let from = Request { source: Some("nowhere".into()), ..paths(&["a"]) };
    refuse(from, "could not resolve 'nowhere'");
    let staged = Request { index: true, worktree: false, ..paths(&["a"]) };
    refuse(staged, "'--worktree' must be used when '--source' is not specified");
    let nowhere = Request { worktree: false, ..paths(&["a"]) };
    refuse(nowhere, "neither '--staged' or '--worktree' is specified");
}

/// A plan locks the index and shows its steps. Once it is dropped, nothing has changed.
#[test]
fn a_dropped_plan_leaves_no_lock() {
    let oracle = silent_oracle(changed);
    let ours = oracle.ours();
    let before = ours.read(".git/index");
    let repository = open(&ours);
    let request = Request { source: Some("HEAD~1".into()), ..paths(&["."]) };
    let plan = restore::plan(&repository, request).expect("a plan");
    assert!(ours.exists(".git/index.lock"));
    let one = ours.git(&["rev-parse", "HEAD~1:a"]).stdout.to_string();
    let write = |path: &str| format!("write 100644 {} {path}\n", one.trim_end());
    let steps = ["remove dir/new\n", &write("a"), &write("dir/b"), &write("dir/c")].concat();
    assert_eq!(plan.to_string(), steps);
    drop(plan);
    assert_eq!(ours.read(".git/index"), before);
    oracle.same_state(&["a dropped plan"]);
}
