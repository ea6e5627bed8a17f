//! The classes of workspaces, their removal by class, and conflicts between them, as operations.

mod history;
mod late;
mod live;
mod overlaps;
mod unsaved;

use std::process::Command;

use sapwood::{
    Events, Silent,
    workspace::{
        budget,
        class::Class,
        conflicts, create,
        list::{self, Found},
    },
};
use testkit::{NoMountsBelow, Repo, Sandbox};

use crate::open;

/// A caller that has the real Git.
struct WithGit<'a>(&'a Repo<'a>);

impl Events for WithGit<'_> {
    fn git(&self) -> Option<Command> {
        Some(self.0.git_command())
    }
}

fn create<'s>(sandbox: &'s Sandbox, repo: &Repo<'_>, name: &str) -> Repo<'s> {
    let request = create::Request { name: name.into(), ..create::Request::default() };
    let report = create::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a workspace");
    sandbox.repo(report.path.to_str().expect("a plain path"))
}

fn committed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo
}

fn classed(repo: &Repo<'_>) -> Vec<Found> {
    let plan = list::plan(&open(repo), list::Request { classes: true }).expect("a plan");
    plan.run(&Silent).expect("a list").workspaces
}

/// Returns the class of a workspace.
fn class(repo: &Repo<'_>, name: &str) -> Class {
    let found = classed(repo).into_iter().find(|found| found.workspace.name == *name);
    found.and_then(|found| found.class).unwrap_or_else(|| panic!("'{name}' is classed"))
}

/// Runs a script with the oracle as `git`; it must succeed.
fn script(repo: &Repo<'_>, script: &str) {
    let run = repo.run("sh".as_ref(), &["-ec", script]);
    assert_eq!(run.code, 0, "{script}: {}{}", run.stdout, run.stderr);
}

/// Removes all workspaces that may go by their class, whatever their size and age. Returns their
/// names.
fn reaped(repo: &Repo<'_>) -> Vec<String> {
    let idle = Some(std::time::Duration::ZERO);
    let request = budget::Request { landed: true, idle, budget: Some(0) };
    let repository = open(repo);
    let report = budget::plan(&repository, request).expect("a plan").run(&Silent).expect("a report");
    let mut names: Vec<String> = report.removed.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

#[test]
fn a_plan_names_what_its_run_removes() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    for name in ["one", "two"] {
        let workspace = create(&sandbox, &repo, name);
        workspace.write(name, "mine\n");
        workspace.git(&["add", "."]);
        workspace.commit(name);
        repo.git(&["merge", "-q", "--no-edit", name]);
    }
    let repository = open(&repo);
    let request = budget::Request { landed: true, ..budget::Request::default() };
    let plan = budget::plan(&repository, request).expect("a plan");
    let shown = plan.to_string();
    assert!(shown.starts_with("remove workspace 'one': its commits are in '"), "{shown}");
    assert_eq!(plan.steps().len(), 2, "{shown}");
    // As a frozen layer that no workspace uses. The number is of no process.
    repo.write(".git/sapwood/layers/4194304-1/built.o", "built\n");
    // Work comes between plan and run.
    let two = sandbox.repo("repo.workspaces/two");
    two.write("a", "changed\n");
    let report = plan.run(&Silent).expect("a report");
    assert_eq!(report.removed, ["one"]);
    assert!(!repo.exists(".git/sapwood/layers/4194304-1"), "the layer stays");
    assert_eq!(report.kept.len(), 1, "{report:?}");
    assert_eq!(two.read("a"), "changed\n");
    let left = classed(&repo);
    assert_eq!(left.len(), 1);
    let class = left[0].class.as_ref().expect("a class");
    assert!(class.unsaved.is_some() && class.landed.is_some() && class.has_moved, "{class:?}");
}

#[test]
fn conflicts_need_git_only_to_merge() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let (one, two) = (create(&sandbox, &repo, "one"), create(&sandbox, &repo, "two"));
    let find = |events: &dyn Fn(conflicts::Plan<'_>) -> Result<conflicts::Report, sapwood::RunError>| {
        events(conflicts::plan(&open(&repo), conflicts::Request::default()).expect("a plan"))
    };
    assert!(find(&|plan| plan.run(&Silent)).expect("a report").pairs.is_empty());
    one.write("a", "one\n");
    two.write("a", "two\n");
    two.commit("two");
    assert!(find(&|plan| plan.run(&Silent)).is_err());
    let report = find(&|plan| plan.run(&WithGit(&repo))).expect("a report");
    let expected = conflicts::Pair {
        names: ["one".into(), "two".into()],
        paths: vec!["a".into()],
        conflicts: vec!["a".into()],
    };
    assert_eq!(report.pairs, [expected]);
    assert_eq!(repo.git(&["count-objects"]).stdout, repo.git(&["count-objects"]).stdout);
    let unknown = conflicts::Request { names: vec!["none".into()] };
    assert!(conflicts::plan(&open(&repo), unknown).is_err());
}
