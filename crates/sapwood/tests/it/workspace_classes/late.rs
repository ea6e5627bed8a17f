//! Work that comes while a workspace is about to be removed.

use std::{cell::Cell, sync::Arc};

use engine::crew::Meter;
use sapwood::{
    Events, Silent,
    events::Phase,
    workspace::{
        budget,
        freeze::{self, Activity},
        remove,
    },
};
use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{class, committed, create, script};
use crate::open;

/// Works in a workspace once, while a status examines its files: the commit was checked before, and
/// the index was read.
struct Late<'a> {
    workspace: &'a Repo<'a>,
    work: &'a str,
    is_done: Cell<bool>,
}

impl Events for Late<'_> {
    fn begin(&self, phase: Phase, _: usize) -> Option<Arc<Meter>> {
        assert_eq!(phase, Phase::RefreshIndex);
        if !self.is_done.replace(true) {
            script(self.workspace, self.work);
        }
        None
    }
}

#[test]
fn work_between_the_check_and_the_unmount_stays() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let works = [
        ("commit", "git commit -q --allow-empty -m late"),
        ("index", "git update-index --chmod=+x a"),
        ("branch", "git symbolic-ref HEAD refs/heads/unborn"),
        ("file", "echo late >a"),
        ("ignored", "echo '*.o' >>$(git rev-parse --git-path info/exclude); echo late >late.o"),
    ];
    for (name, work) in works {
        let workspace = create(&sandbox, &repo, name);
        workspace.git(&["checkout", "-q", "--detach"]);
        let late = Late { workspace: &workspace, work, is_done: Cell::new(false) };
        let repository = open(&repo);
        let request = remove::Request { name: name.into(), force: false };
        let plan = remove::plan(&repository, request).expect("a plan");
        let refused = plan.run(&late).expect_err("it is refused").to_string();
        assert!(late.is_done.get(), "{name}");
        assert!(refused.contains("changed meanwhile") || refused.contains("--force"), "{name}: {refused}");
        assert!(workspace.exists("a"), "{name}: it is mounted again");
        let kept = match name {
            "commit" => workspace.git(&["log", "-1", "--format=%s"]).stdout == "late\n",
            "branch" => workspace.git(&["symbolic-ref", "HEAD"]).stdout == "refs/heads/unborn\n",
            "ignored" => workspace.exists("late.o"),
            _ => !workspace.git(&["status", "--porcelain"]).stdout.is_empty(),
        };
        assert!(kept, "{name}");
    }
}

/// The plan selected the workspaces before.
#[test]
fn a_removal_by_class_looks_again_when_it_runs() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let works = [
        ("commit", "git commit -q --allow-empty -m late"),
        ("file", "echo late >new"),
        ("index", "git update-index --chmod=+x a"),
        ("lock", "echo mine >$(git rev-parse --git-dir)/locked"),
        ("pick", "git rev-parse HEAD >$(git rev-parse --git-dir)/CHERRY_PICK_HEAD"),
        ("frozen", ""),
        ("again", ""),
        ("none", ""),
    ];
    let workspaces = works.map(|(name, _)| {
        let workspace = create(&sandbox, &repo, name);
        workspace.write(format!("own-{name}"), "mine\n");
        workspace.commit("own");
        repo.git(&["merge", "-q", "--no-edit", name]);
        workspace
    });
    let repository = open(&repo);
    let request = budget::Request { landed: true, ..budget::Request::default() };
    let plan = budget::plan(&repository, request).expect("a plan");
    assert_eq!(plan.steps().len(), works.len());
    for (workspace, (_, work)) in workspaces.iter().zip(works) {
        script(workspace, work);
    }
    let frozen = freeze::Request { name: "frozen".into(), activity: Activity::Frozen };
    freeze::plan(&repository, frozen).expect("a plan").run(&Silent).expect("frozen");
    // Another workspace has the name by then.
    let forced = remove::Request { name: "again".into(), force: true };
    remove::plan(&repository, forced).expect("a plan").run(&Silent).expect("by force");
    create(&sandbox, &repo, "again");
    let report = plan.run(&Silent).expect("a report");
    assert_eq!(report.removed, ["none"], "{report:?}");
    assert_eq!(report.kept.len(), works.len() - 1);
    assert_eq!(class(&repo, "again").unsaved, None);
}
