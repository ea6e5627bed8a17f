//! Reset as an operation.

use sapwood::{
    Error, PlanError, Repository, Silent,
    bstr::ByteSlice as _,
    reset::{self, Mode, Report, Request},
};
use testkit::Repo;

use crate::{open, pathspecs, silent_oracle};

/// Three commits, of which the second one has another file and the third one changes a kind.
fn history(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "one\n");
    repo.write("kept", "kept\n");
    repo.commit("first");
    repo.write("a", "two\n");
    repo.write_executable("tool", "#!/bin/sh\n");
    repo.commit("second");
    repo.write("a", "three\n");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.commit("third");
}

/// Local changes that no mode refuses.
fn local_changes(repo: &Repo<'_>) {
    repo.write("kept", "changed\n");
    repo.write("untracked", "untracked\n");
    repo.write("added", "added\n");
    repo.git(&["add", "added"]);
}

fn request(mode: Mode, revision: &str) -> Request {
    Request { mode, revision: revision.into(), ..Request::default() }
}

fn run(repository: &Repository, request: Request) -> Report {
    reset::plan(repository, request).expect("a plan").run(&Silent).expect("a reset")
}

fn refused(repository: &Repository, request: Request) -> Error {
    match reset::plan(repository, request) {
        Err(PlanError::Failed(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is refused"),
    }
}

#[test]
fn resets_what_git_resets_in_every_mode() {
    for mode in [Mode::Mixed, Mode::Soft, Mode::Hard, Mode::Merge, Mode::Keep] {
        for revision in ["HEAD", "HEAD~1", "HEAD~2"] {
            let oracle = silent_oracle(history);
            oracle.both(local_changes);
            oracle.git().git(&["reset", "-q", &format!("--{}", mode.name()), revision]);
            let ours = oracle.ours();
            let commit = |revision: &str| ours.git(&["rev-parse", revision]).stdout.to_string();
            let (old, new) = (commit("HEAD"), commit(revision));
            let report = run(&open(&ours), request(mode, revision));
            oracle.same_state(&[mode.name(), revision]);
            assert_eq!(report.old.map(|oid| format!("{oid}\n")), Some(old));
            assert_eq!(report.new.map(|oid| format!("{oid}\n")), Some(new));
            assert!(!report.is_incomplete);
        }
    }
}

#[test]
fn names_the_files_that_differ() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    local_changes(&ours);
    let report = run(&open(&ours), request(Mode::Mixed, "HEAD~1"));
    let changed: Vec<String> = report
        .changed
        .iter()
        .map(|change| format!("{} {}", char::from(change.kind.letter()), change.path))
        .collect();
    assert_eq!(changed, ["M a", "M dir/b", "M kept"]);
    let quick = Request { refresh: false, ..request(Mode::Mixed, "HEAD") };
    assert!(run(&open(&ours), quick).changed.is_empty());
}

#[test]
fn resets_paths_of_the_index() {
    let oracle = silent_oracle(history);
    oracle.git().git(&["reset", "-q", "HEAD~2", "--", "a", "dir"]);
    let paths = Request { pathspecs: pathspecs(&["a", "dir"]), ..request(Mode::Mixed, "HEAD~2") };
    run(&open(&oracle.ours()), paths.clone());
    oracle.same_state(&["a", "dir"]);
    let hard = Request { mode: Mode::Hard, ..paths };
    assert_eq!(refused(&open(&oracle.ours()), hard).to_string(), "Cannot do hard reset with paths.");
}

/// Each refusal is Git's, and nothing has changed after it.
#[test]
fn a_refusal_changes_nothing() {
    let oracle = silent_oracle(history);
    oracle.both(|repo| repo.write("a", "changed\n"));
    let ours = oracle.ours();
    let repository = open(&ours);
    let refuse = |request: Request, text: &str| {
        let error = refused(&repository, request).to_string();
        assert!(error.contains(text), "{error}");
        oracle.same_state(&[text]);
    };
    let blocked = "Entry 'a' not uptodate. Cannot merge.";
    refuse(request(Mode::Keep, "HEAD~1"), blocked);
    refuse(request(Mode::Merge, "HEAD~1"), blocked);
    refuse(request(Mode::Mixed, "nowhere"), "Failed to resolve 'nowhere' as a valid revision.");
    refuse(request(Mode::Hard, "HEAD^{tree}"), "Could not parse object 'HEAD^{tree}'.");
    oracle.both(|repo| repo.write(".git/MERGE_HEAD", ""));
    refuse(request(Mode::Soft, "HEAD~1"), "Cannot do a soft reset in the middle of a merge.");
    oracle.both(|repo| {
        repo.remove(".git/MERGE_HEAD");
        repo.write(".git/refs/heads/main.lock", "");
    });
    let locked = refused(&repository, request(Mode::Hard, "HEAD~1"));
    assert!(matches!(locked, Error::CannotMoveHead { .. }), "{locked}");
    oracle.both(|repo| repo.remove(".git/refs/heads/main.lock"));
    oracle.same_state(&["a locked branch"]);
}

/// A plan locks the index and shows its steps. Once it is dropped, nothing has changed.
#[test]
fn a_dropped_plan_leaves_no_lock() {
    let oracle = silent_oracle(history);
    let ours = oracle.ours();
    let before = ours.read(".git/index");
    let repository = open(&ours);
    let plan = reset::plan(&repository, request(Mode::Hard, "HEAD~1")).expect("a plan");
    assert!(ours.exists(".git/index.lock"));
    let object = |name: &str| ours.git(&["rev-parse", name]).stdout.trim_end().as_bstr().to_string();
    let (a, b) = (object("HEAD~1:a"), object("HEAD~1:dir/b"));
    assert_eq!(plan.to_string(), format!("remove dir\nwrite 100644 {a} a\nwrite 100644 {b} dir/b\n"));
    drop(plan);
    assert_eq!(ours.read(".git/index"), before);
    oracle.same_state(&["a dropped plan"]);
}
