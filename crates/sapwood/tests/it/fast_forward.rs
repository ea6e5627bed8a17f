//! Fast-forwards as an operation, compared with `git merge`.

use sapwood::{
    Error, PlanError, Repository, Silent,
    fast_forward::{self, Report, Request},
    transaction::Done,
};
use testkit::Repo;

use crate::{open, silent_oracle};

/// A branch `topic` two commits ahead of `main`, which is checked out.
fn history(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("kept", "kept\n");
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "topic"]);
    repo.write("a", "two\n");
    repo.write_executable("tool", "#!/bin/sh\n");
    repo.commit("second");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.commit("third");
    repo.git(&["switch", "-q", "main"]);
}

fn hook(repo: &Repo<'_>) {
    repo.write_executable(".git/hooks/post-merge", "#!/bin/sh\necho $* >merged\n");
}

fn request(revision: &str) -> Request {
    Request { revision: revision.into(), ..Request::default() }
}

fn run(repository: &Repository, request: Request) -> Report {
    fast_forward::plan(repository, request).expect("a plan").run(&Silent).expect("a fast-forward")
}

fn refused(repository: &Repository, revision: &str) -> PlanError {
    fast_forward::plan(repository, request(revision)).err().expect("it is refused")
}

/// Files, index, refs and reflogs are Git's, also for a commit that HEAD has already.
#[test]
fn forwards_as_git_does() {
    for revision in ["topic", "topic~1", "HEAD"] {
        let oracle = silent_oracle(history);
        oracle.both(|repo| {
            hook(repo);
            repo.write("kept", "changed\n");
        });
        oracle.git().git(&["merge", "-q", "--ff-only", revision]);
        let ours = oracle.ours();
        let report = run(&open(&ours), request(revision));
        oracle.same_state(&[revision]);
        assert_eq!(report.done, Done::Complete);
        assert_eq!(report.old == report.new, revision == "HEAD");
        assert_eq!(ours.exists("merged"), revision != "HEAD");
        let head = ours.git(&["rev-parse", "HEAD"]).stdout.to_string();
        assert_eq!(report.new.map(|oid| format!("{oid}\n")), Some(head));
    }
}

/// Nothing has changed after a refusal, or after a plan that is dropped.
#[test]
fn a_refusal_changes_nothing() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    let refuse = |revision: &str, text: &str| {
        let error = refused(&open(&ours), revision).to_string();
        assert!(error.contains(text), "{error}");
        oracle.same_state(&[text]);
    };
    drop(fast_forward::plan(&open(&ours), request("topic")).expect("a plan"));
    oracle.same_state(&["a dropped plan"]);
    refuse("nowhere", "nowhere - not something we can merge");
    oracle.both(|repo| repo.write("a", "mine\n"));
    refuse("topic", "would be overwritten by merge");
    oracle.both(|repo| {
        repo.write("a", "one\n");
        repo.git(&["config", "merge.ff", "false"]);
    });
    assert!(matches!(refused(&open(&ours), "topic"), PlanError::Unsupported("merges with a new commit")));
    oracle.both(|repo| {
        repo.git(&["config", "--unset", "merge.ff"]);
        repo.git(&["commit", "-q", "--allow-empty", "-m", "ours"]);
    });
    let diverged = refused(&open(&ours), "topic");
    assert!(matches!(diverged, PlanError::Failed(Error::Diverged { .. })), "{diverged}");
    oracle.both(|repo| {
        let head = repo.git(&["rev-parse", "topic"]).stdout;
        repo.write(".git/MERGE_HEAD", head);
    });
    refuse("topic", "Exiting because of unfinished merge.");
}

/// Another process moves the branch between plan and run.
#[test]
fn a_moved_branch_keeps_its_files() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    let repository = open(&ours);
    let plan = fast_forward::plan(&repository, request("topic")).expect("a plan");
    ours.git(&["update-ref", "refs/heads/main", "topic~1"]);
    let refused = plan.run(&Silent).expect_err("it is refused");
    assert_eq!(refused.to_string(), "HEAD was moved meanwhile; try again");
    assert_eq!(ours.read("a"), "one\n");
    assert!(!ours.exists(".git/index.lock") && !ours.exists(".git/ORIG_HEAD"));
}
