//! Status as an operation.

use sapwood::{
    PlanError, Silent,
    status::{self, Difference, Request, Untracked},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

/// A repository with a commit, and a staged, a changed and an untracked file.
fn changed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("staged", "1\n");
    repo.write("changed", "1\n");
    repo.write("same", "1\n");
    repo.commit("one");
    repo.write("staged", "2\n");
    repo.git(&["add", "staged"]);
    repo.write("changed", "22\n");
    repo.write("dir/untracked", "");
    repo
}

#[test]
fn finds_what_git_finds() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    let repository = open(&repo);
    let status =
        status::plan(&repository, Request::default()).expect("a plan").run(&Silent).expect("a status");
    let found: Vec<String> = status
        .changes
        .iter()
        .map(|(path, change)| format!("{path} {:?} {:?}", change.index, change.worktree))
        .collect();
    let modified = Some(Difference::Modified);
    assert_eq!(
        found,
        [
            format!("changed {:?} {modified:?}", None::<Difference>),
            format!("staged {modified:?} {:?}", None::<Difference>),
        ]
    );
    assert_eq!(status.untracked, ["dir/"]);
    assert!(status.is_dirty && status.is_committable && !status.is_initial);
    let all = Request { untracked: Untracked::All, ..Request::default() };
    let status = status::plan(&repository, all).expect("a plan").run(&Silent).expect("a status");
    assert_eq!(status.untracked, ["dir/untracked"]);
}

/// The settings of untracked paths and renames, with `git status` as the oracle.
#[test]
fn configured_options_find_what_git_finds() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    repo.git(&["mv", "same", "renamed"]);
    let settings: [&[(&str, &str)]; 4] = [
        &[],
        &[("status.showUntrackedFiles", "all"), ("status.renames", "false")],
        &[("status.showUntrackedFiles", "false"), ("diff.renames", "copies")],
        &[("diff.renames", "false"), ("status.renames", "true"), ("status.showUntrackedFiles", "true")],
    ];
    for settings in settings {
        settings.iter().for_each(|(key, value)| drop(repo.git(&["config", *key, *value])));
        let repository = open(&repo);
        let request = Request::configured(&repository).expect("valid settings");
        let status = status::plan(&repository, request).expect("a plan").run(&Silent).expect("a status");
        let sources = status.changes.values().filter(|change| change.rename.is_some()).count();
        let theirs = repo.git(&["status", "--porcelain"]).stdout.to_string();
        let lines = |start: &str| theirs.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((sources, status.untracked.len()), (lines("R"), lines("??")), "{settings:?}");
        settings.iter().for_each(|(key, _)| drop(repo.git(&["config", "--unset", *key])));
    }
    repo.git(&["config", "status.showUntrackedFiles", "some"]);
    let refused = Request::configured(&open(&repo)).expect_err("a wrong value").to_string();
    assert_eq!(refused, "Invalid untracked files mode 'some'");
    assert!(repo.try_git(&["status"]).stderr.to_string().contains(&refused));
}

/// Only a plan that runs writes the index.
#[test]
fn a_plan_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    // Its stat data differ, its content does not.
    repo.remove("same");
    repo.write("same", "1\n");
    let index = repo.path.join(".git/index");
    let before = std::fs::read(&index).expect("an index");
    let repository = open(&repo);
    let plan = status::plan(&repository, Request::default()).expect("a plan");
    assert_eq!(plan.status().changes.len(), 2);
    assert_eq!(std::fs::read(&index).expect("an index"), before);
    plan.run(&Silent).expect("a status");
    assert_ne!(std::fs::read(&index).expect("an index"), before);
    assert_eq!(repo.git(&["diff-files", "--name-only"]).stdout, "changed\n");
}

/// The notices of planning wait until the plan runs.
#[test]
fn notices_come_with_the_run() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    std::os::unix::fs::symlink(".gitignore", repo.path.join(".gitignore")).expect("a link");
    let repository = open(&repo);
    let plan = status::plan(&repository, Request::default()).expect("a plan");
    let heard = Heard::default();
    plan.run(&heard).expect("a status");
    let heard = heard.0.into_inner();
    assert!(heard.len() == 1 && heard[0].starts_with("unable to access '.gitignore'"), "{heard:?}");
}

#[test]
fn a_bare_repository_has_no_status() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.git(&["config", "core.bare", "true"]);
    let Err(PlanError::Failed(error)) = status::plan(&open(&repo), Request::default()) else {
        panic!("it has no worktree")
    };
    assert_eq!(error.to_string(), "this operation must be run in a work tree");
}

#[test]
fn stops_if_the_caller_asks() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox);
    let repository = open(&repo);
    repository.interrupt().store(true, std::sync::atomic::Ordering::Relaxed);
    let Err(PlanError::Failed(error)) = status::plan(&repository, Request::default()) else {
        panic!("it stops")
    };
    assert_eq!(error.to_string(), "interrupted");
}
