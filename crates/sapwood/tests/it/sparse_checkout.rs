//! The selection of files, compared with `git sparse-checkout`.

use sapwood::{
    PlanError, Silent,
    sparse_checkout::{self, Request, Task},
};
use testkit::Repo;

use crate::{Heard, open, silent_oracle};

fn files(repo: &Repo<'_>) {
    for path in ["top", "a/x", "a/b/x", "c/x", "d/e/x"] {
        repo.write(path, "1\n");
    }
    repo.commit("first");
}

fn state(repo: &Repo<'_>) -> (String, String, String) {
    let read = |path: &str| std::fs::read_to_string(repo.join(path)).unwrap_or_default();
    let marks = repo.git(&["ls-files", "-t", "--sparse"]).stdout.to_string();
    (marks, read(".git/info/sparse-checkout"), read(".git/config.worktree"))
}

fn words(words: &[&str]) -> Vec<sapwood::bstr::BString> {
    words.iter().map(|word| (*word).into()).collect()
}

#[test]
fn selects_what_git_selects() {
    let oracle = silent_oracle(files);
    let (git, ours) = (oracle.git(), oracle.ours());
    let request = |task: Task| Request { task, ..Request::default() };
    let steps: [(Request, &[&str]); 7] = [
        (request(Task::Begin), &["init"]),
        (request(Task::Set(words(&["a/b"]))), &["set", "a/b"]),
        (request(Task::Add(words(&["d"]))), &["add", "d"]),
        (Request { sparse_index: Some(true), ..request(Task::Reapply) }, &["reapply", "--sparse-index"]),
        (
            Request { cone: Some(false), ..request(Task::Set(words(&["/a/*", "!x"]))) },
            &["set", "--no-cone", "/a/*", "!x"],
        ),
        (request(Task::Add(words(&["/top"]))), &["add", "/top"]),
        (request(Task::Disable), &["disable"]),
    ];
    for (request, args) in steps {
        git.git(&[&["sparse-checkout"], args].concat());
        let before = state(&ours);
        let repository = open(&ours);
        let plan = sparse_checkout::plan(&repository, request).expect("a plan");
        assert_eq!(state(&ours), before, "the plan of {args:?} has changed something");
        assert!(plan.run(&Silent).expect("a run").is_complete());
        assert_eq!(state(&ours), state(&git), "{args:?}");
        assert_eq!(ours.git(&["status", "-s"]).stdout, git.git(&["status", "-s"]).stdout, "{args:?}");
    }
}

#[test]
fn refuses_mistakes_and_keeps_changed_files() {
    let oracle = silent_oracle(files);
    let repo = oracle.ours();
    let plan = |task: Task| {
        let repository = open(&repo);
        let planned = sparse_checkout::plan(&repository, Request { task, ..Request::default() });
        planned.map(|plan| {
            let heard = Heard::default();
            let report = plan.run(&heard).expect("a run");
            (report.is_complete(), heard.0.into_inner())
        })
    };
    let refused = |task: Task| match plan(task) {
        Err(PlanError::Failed(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Task::Reapply), "must be in a sparse-checkout to reapply sparsity patterns");
    assert_eq!(
        refused(Task::Set(words(&["/a"]))),
        "specify directories rather than patterns (no leading slash)"
    );
    assert!(refused(Task::Set(words(&["top"]))).starts_with("'top' is not a directory;"));
    assert_eq!(state(&repo).2, "");
    repo.write("a/x", "mine\n");
    let (_, heard) = plan(Task::Set(words(&["c"]))).expect("a plan");
    assert!(heard.iter().any(|text| text.contains("a/x")), "{heard:?}");
    assert_eq!(repo.read("a/x"), "mine\n");
}
