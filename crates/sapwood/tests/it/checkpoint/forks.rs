//! Forks: workspaces that begin with the state of another worktree.

use sapwood::{Silent, checkpoint::fork, workspace::create::Backend};
use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{
    checkpoint, committed,
    model::{Model, everything},
    undo,
};
use crate::open;

pub(super) fn fork(repo: &Repo<'_>, name: &str, backend: Option<Backend>) -> fork::Report {
    let request = fork::Request { name: name.into(), backend, ..fork::Request::default() };
    fork::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a fork")
}

#[test]
fn a_fork_has_the_uncommitted_work() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    repo.write("a", "staged\n");
    repo.git(&["add", "a"]);
    repo.write("a", "above\n");
    repo.remove("dir/b");
    repo.write("new/file", "new\n");
    repo.write("ignored.o", "ignored\n");
    for backend in [None, Some(Backend::Copy)] {
        let before = (Model::of(&repo), everything(&repo));
        let name = if backend.is_none() { "best" } else { "copy" };
        let report = fork(&repo, name, backend);
        assert_eq!((Model::of(&repo), everything(&repo)), before);
        let forked = sandbox.repo(report.workspace.path.to_str().expect("a plain path"));
        let (model, original) = (Model::of(&forked), before.0);
        assert_eq!(
            (model.files, model.index, model.status),
            (original.files, original.index, original.status)
        );
        let branch = forked.git(&["symbolic-ref", "HEAD"]).stdout;
        assert_eq!(branch, format!("refs/heads/{name}\n"));
        assert!(!forked.exists("ignored.o"));
        // Its first entry is the state it began with.
        let begun = Model::of(&forked);
        forked.write("a", "later\n");
        forked.git(&["add", "-A"]);
        undo(&forked);
        assert_eq!(Model::of(&forked), begun);
        assert_eq!(forked.git(&["fsck"]).stderr, "");
        // A fork of the fork.
        let again = fork(&forked, &format!("{name}-again"), backend);
        let again = sandbox.repo(again.workspace.path.to_str().expect("a plain path"));
        assert_eq!(Model::of(&again).files, begun.files);
    }
    checkpoint(&repo, "");
}

#[test]
fn a_fork_needs_a_commit_and_a_new_branch() {
    let sandbox = Sandbox::new();
    let empty = sandbox.init("empty");
    let plan = |repo: &Repo<'_>| {
        let request = fork::Request { name: "main".into(), ..fork::Request::default() };
        let repository = open(repo);
        let refused = fork::plan(&repository, request).map(|plan| plan.run(&Silent).map(drop));
        match refused {
            Err(error) => error.to_string(),
            Ok(run) => run.expect_err("it is refused").to_string(),
        }
    };
    assert_eq!(plan(&empty), "You do not have a valid HEAD.");
    let repo = committed(&sandbox);
    assert_eq!(plan(&repo), "a branch named 'main' already exists");
    assert!(!sandbox.repo("repo.workspaces").exists("main"));
}
