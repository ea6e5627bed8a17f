//! Clean as an operation.

use sapwood::{
    Silent,
    clean::{self, Event, Ignored, Request},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// A repository with an untracked file and directory, an ignored file, and another repository.
fn littered(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write(".gitignore", "*.o\n");
    repo.write("tracked", "1\n");
    repo.commit("one");
    repo.write("file", "");
    repo.write("dir/file", "");
    repo.write("a.o", "");
    repo.git(&["init", "-q", "nested"]);
    repo
}

fn left(repo: &Repo<'_>) -> Vec<&'static str> {
    let all = ["tracked", "file", "dir/file", "a.o", "nested/.git/HEAD"];
    all.into_iter().filter(|path| repo.exists(path)).collect()
}

#[test]
fn removes_what_git_removes() {
    let sandbox = Sandbox::new();
    let repo = littered(&sandbox);
    let theirs = repo.git(&["clean", "-nd"]).stdout;
    let repository = open(&repo);
    let request = Request { directories: true, ..Request::default() };
    let report = clean::plan(&repository, request).expect("a plan").run(&Silent).expect("a clean");
    let removed = report.paths.iter().flat_map(|(_, outcome)| &outcome.events);
    let removed: Vec<String> = removed
        .filter_map(|event| match event {
            Event::Removed(path) => Some(format!("Would remove {path}\n")),
            _ => None,
        })
        .collect();
    assert_eq!(removed.concat(), theirs);
    assert!(!report.is_incomplete());
    assert_eq!(left(&repo), ["tracked", "a.o", "nested/.git/HEAD"]);
}

/// Somebody adds a file and a part of a directory between plan and run.
#[test]
fn what_is_tracked_by_then_stays() {
    let sandbox = Sandbox::new();
    let repo = littered(&sandbox);
    let repository = open(&repo);
    let request = Request { directories: true, ..Request::default() };
    let plan = clean::plan(&repository, request).expect("a plan");
    repo.git(&["add", "file", "dir/file"]);
    repo.write("dir/other", "");
    let report = plan.run(&Silent).expect("a clean");
    assert!(report.paths.is_empty(), "{report:?}");
    assert_eq!(left(&repo), ["tracked", "file", "dir/file", "a.o", "nested/.git/HEAD"]);
}

#[test]
fn a_plan_and_its_preview_remove_nothing() {
    let sandbox = Sandbox::new();
    let repo = littered(&sandbox);
    let before = left(&repo);
    let repository = open(&repo);
    let request = Request { ignored: Ignored::Only, ..Request::default() };
    let plan = clean::plan(&repository, request).expect("a plan");
    let preview = plan.preview().expect("a preview");
    assert_eq!(preview.paths.iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>(), ["a.o"]);
    assert_eq!(left(&repo), before);
    plan.run(&Silent).expect("a clean");
    assert_eq!(left(&repo), ["tracked", "file", "dir/file", "nested/.git/HEAD"]);
}
