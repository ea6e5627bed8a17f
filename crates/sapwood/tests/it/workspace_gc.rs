//! The remains of killed commands that concern workspaces.

use std::fs;

use sapwood::{
    Silent,
    workspace::{create, gc},
};
use testkit::{NoMountsBelow, Repo, Sandbox};

use crate::open;

/// Returns the findings of a plan, as text.
fn found(repo: &Repo<'_>) -> String {
    let repository = open(repo);
    let plan = gc::plan(&repository).expect("a plan");
    assert!(plan.unread().is_empty());
    plan.to_string()
}

fn completed(repo: &Repo<'_>) -> Vec<String> {
    let repository = open(repo);
    let report = gc::plan(&repository).expect("a plan").run(&Silent).expect("it runs");
    assert_eq!(report.kept, []);
    report.completed.iter().map(ToString::to_string).collect()
}

#[test]
fn completes_a_killed_creation_and_keeps_its_files() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("file", "1\n");
    repo.commit("one");
    let create = |name: &str, backend| {
        let request = create::Request { name: name.into(), backend, ..create::Request::default() };
        create::plan(&open(&repo), request).expect("a plan").run(&Silent).expect("a workspace").path
    };
    let worked = create("worked", Some(create::Backend::Copy));
    fs::write(worked.join("new"), "mine\n").expect("written");
    create("whole", None);
    assert_eq!(found(&repo), "");
    // The state left by a creation that was killed before its last step.
    let reason = format!("sapwood workspace: initializing 4194303 {}\n", worked.display());
    repo.write(".git/worktrees/worked/locked", reason);
    let line = "workspace 'worked': its creation was interrupted, and it holds files: it is kept\n";
    assert_eq!(found(&repo), line);
    assert_eq!(found(&repo), line, "planning changes nothing");
    assert_eq!(completed(&repo), ["worked"]);
    assert_eq!(repo.read(".git/worktrees/worked/locked"), "sapwood workspace\n");
    assert_eq!(found(&repo), "");
    // Without its administrative directory, the workspace stays as long as it has files.
    fs::remove_dir_all(repo.join(".git/worktrees/worked")).expect("removed");
    let orphan = "workspace 'worked': it has no administrative directory, but holds files: it is kept\n";
    assert_eq!(found(&repo), orphan);
    completed(&repo);
    assert_eq!(fs::read(worked.join("new")).expect("kept"), b"mine\n");
    let repository = open(&repo);
    let force = sapwood::workspace::remove::Request { name: "whole".into(), force: true };
    sapwood::workspace::remove::plan(&repository, force).expect("a plan").run(&Silent).expect("removed");
}

/// Somebody goes on with the workspace between plan and run.
#[test]
fn looks_again_when_it_runs() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("file", "1\n");
    repo.commit("one");
    let top = sandbox.path().join("gone");
    repo.write(".git/worktrees/begun/commondir", "../..\n");
    let reason = format!("sapwood workspace: initializing 4194303 {}\n", top.display());
    repo.write(".git/worktrees/begun/locked", reason);
    assert_eq!(found(&repo), "workspace 'begun': the rest of an incomplete workspace\n");
    let repository = open(&repo);
    let plan = gc::plan(&repository).expect("a plan");
    repo.write(".git/worktrees/begun/locked", "by hand\n");
    assert_eq!(plan.run(&Silent).expect("it runs").completed, ["begun"]);
    assert!(repo.exists(".git/worktrees/begun"), "another process made it");
    repo.write(
        ".git/worktrees/begun/locked",
        format!("sapwood workspace: initializing 4194303 {}\n", top.display()),
    );
    assert_eq!(completed(&repo), ["begun"]);
    assert!(!repo.exists(".git/worktrees"));
}
