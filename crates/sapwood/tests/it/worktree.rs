//! Worktrees as operations, compared with Git.

use std::{fmt::Write as _, path::Path};

use sapwood::{
    Silent,
    worktree::{
        add,
        list::{self, WorktreeHeadKind},
        lock, prune, relocate, remove, repair, unlock,
    },
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open};

/// A repository with a commit.
fn committed<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo
}

fn add(repo: &Repo<'_>, path: &str, branch: Option<&str>) -> add::Report {
    let request =
        add::Request { path: path.into(), branch: branch.map(Into::into), ..add::Request::default() };
    add::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a worktree")
}

/// Returns the list in the format of `git worktree list --porcelain`.
fn listed(repo: &Repo<'_>) -> String {
    let report = list::plan(&open(repo), list::Request::default()).expect("a plan").run(&Silent);
    let mut text = String::new();
    for found in report.expect("a list").worktrees {
        write!(text, "worktree {}\nHEAD {}\n", found.worktree.path.display(), found.head.oid)
            .expect("memory");
        text += &match found.head.kind {
            WorktreeHeadKind::Branch(name) => format!("branch {name}\n"),
            WorktreeHeadKind::Detached => "detached\n".to_owned(),
            WorktreeHeadKind::Unreadable => String::new(),
        };
        text += &found.locked.map_or_else(String::new, |reason| {
            if reason.is_empty() { "locked\n".to_owned() } else { format!("locked {reason}\n") }
        });
        text += &found.prunable.map_or_else(String::new, |reason| format!("prunable {reason}\n"));
        text += "\n";
    }
    text
}

fn refused<T>(result: Result<T, impl std::error::Error>) -> String {
    match result {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it is refused"),
    }
}

#[test]
fn adds_what_git_adds() {
    let sandbox = Sandbox::new();
    let (ours, theirs) = (committed(&sandbox, "ours/repo"), committed(&sandbox, "theirs/repo"));
    let report = add(&ours, "../new", Some("topic"));
    theirs.git(&["worktree", "add", "-b", "topic", "../new"]);
    assert_eq!(report.path, sandbox.path().join("ours/repo/../new"));
    assert_eq!(report.git_dir, ours.path.join(".git/worktrees/new"));
    for name in ["HEAD", "commondir", "logs/HEAD", "ORIG_HEAD"] {
        let read = |repo: &Repo<'_>| {
            let content = std::fs::read(repo.path.join(".git/worktrees/new").join(name));
            String::from_utf8(content.expect(name)).expect("text")
        };
        assert_eq!(read(&ours), read(&theirs), "{name}");
    }
    for repo in [&ours, &theirs] {
        let new = sandbox.repo(&format!("{}/new", repo.path.parent().expect("a parent").display()));
        assert_eq!(new.git(&["status", "--porcelain", "--branch"]).stdout, "## topic\n");
        assert_eq!(new.read("dir/b"), "2\n");
        assert_eq!(repo.git(&["fsck"]).stdout, "");
    }
    add(&ours, "../detached", None);
    assert_eq!(listed(&ours), ours.git(&["worktree", "list", "--porcelain"]).stdout);
    ours.git(&["worktree", "lock", "--reason", "a reason", "../new"]);
    std::fs::remove_dir_all(sandbox.path().join("ours/detached")).expect("a worktree");
    let list = ours.git(&["worktree", "list", "--porcelain"]).stdout.to_string();
    assert!(list.contains("locked a reason\n") && list.contains("prunable "), "{list}");
    assert_eq!(listed(&ours), list);
}

#[test]
fn a_plan_adds_nothing_and_says_what_it_would_add() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    let request = add::Request { path: "../new".into(), ..add::Request::default() };
    let plan = add::plan(&open(&repo), request.clone()).expect("a plan");
    assert_eq!(plan.to_string(), "add worktree '../new' (branch 'new' at HEAD)");
    assert!(!sandbox.path().join("new").exists());
    assert_eq!(repo.git(&["branch", "--list", "new"]).stdout, "");
    let heard = Heard::default();
    plan.run(&heard).expect("a worktree");
    let heard = heard.0.into_inner();
    assert!(heard[0] == "Preparing worktree (new branch 'new')", "{heard:?}");
    assert!(heard[1].starts_with("HEAD is now at "), "{heard:?}");
    assert_eq!(refused(add::plan(&open(&repo), request)), "'../new' already exists");
}

/// A hook that fails removes nothing, as in Git.
#[test]
fn reports_the_hook() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    repo.write_executable(".git/hooks/post-checkout", "#!/bin/sh\ntest -f dir/b || exit 1\nexit 7\n");
    let report = add(&repo, "../new", None);
    assert_eq!(report.hook, 7);
    assert!(report.path.join("a").exists());
}

#[test]
fn removes_only_what_is_not_lost() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    add(&repo, "../new", None);
    let new = sandbox.repo("new");
    let plan = |force| {
        remove::plan(&open(&repo), remove::Request { worktree: "../new".into(), force })
            .map(|plan| plan.run(&Silent))
    };
    let changed = "'../new' contains modified or untracked files, use --force to delete it";
    new.write("untracked", "");
    assert_eq!(refused(plan(0)), changed);
    new.remove("untracked");
    let repository = open(&repo);
    let request = remove::Request { worktree: "new".into(), force: 0 };
    let late = remove::plan(&repository, request).expect("a plan");
    new.write("a", "22\n");
    assert!(refused(late.run(&Silent)).ends_with("use --force to delete it"));
    assert_eq!(new.read("a"), "22\n");
    let report = plan(1).expect("a plan").expect("a removal");
    assert!(report.is_complete && !Path::new(&report.path).exists());
    assert!(!repo.exists(".git/worktrees"));
    assert_eq!(listed(&repo), repo.git(&["worktree", "list", "--porcelain"]).stdout);
    // Nothing works in the background: the trash is empty.
    let trash = std::fs::read_dir(repo.path.join(".git/sapwood/trash")).map_or(0, Iterator::count);
    assert_eq!(trash, 0);
    let main = remove::Request { worktree: ".".into(), force: 2 };
    assert_eq!(refused(remove::plan(&open(&repo), main)), "'.' is a main working tree");
}

/// A lock, another worktree at the same path, and files where none were.
#[test]
fn a_removal_looks_again_when_it_runs() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    add(&repo, "../new", None);
    let new = sandbox.repo("new");
    let repository = open(&repo);
    let plan = |force| {
        let request = remove::Request { worktree: "../new".into(), force };
        remove::plan(&repository, request).expect("a plan")
    };
    let locked = plan(1);
    repo.git(&["worktree", "lock", "../new"]);
    assert!(refused(locked.run(&Silent)).starts_with("cannot remove a locked working tree;"));
    let forced = plan(2);
    repo.git(&["worktree", "unlock", "../new"]);

    repo.git(&["worktree", "remove", "../new"]);
    repo.git(&["worktree", "add", "../new"]);
    new.write("a", "mine\n");
    let replaced = "'../new' was replaced by another worktree meanwhile";
    assert_eq!(refused(forced.run(&Silent)), replaced);
    assert_eq!(new.read("a"), "mine\n");

    std::fs::remove_dir_all(&new.path).expect("a worktree");
    let gone = plan(2);
    new.write("a", "mine\n");
    assert!(refused(gone.run(&Silent)).starts_with("validation failed, cannot remove working tree: "));
    assert_eq!(new.read("a"), "mine\n");
}

#[test]
fn locks_and_unlocks() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    add(&repo, "../new", None);
    let repository = open(&repo);
    let request = |name: &str| lock::Request { worktree: name.into(), reason: "a reason".into() };
    let late = lock::plan(&repository, request("../new")).expect("a plan");
    assert!(!repo.exists(".git/worktrees/new/locked"));
    lock::plan(&repository, request("new")).expect("a plan").run(&Silent).expect("a lock");
    assert_eq!(repo.read(".git/worktrees/new/locked"), "a reason\n");
    assert_eq!(listed(&repo), repo.git(&["worktree", "list", "--porcelain"]).stdout);
    let taken = "'../new' is already locked, reason: a reason";
    assert_eq!(refused(late.run(&Silent)), taken);
    assert_eq!(refused(lock::plan(&repository, request("../new"))), taken);
    let main = "The main working tree cannot be locked or unlocked";
    assert_eq!(refused(lock::plan(&repository, request("."))), main);
    let request = unlock::Request { worktree: "../new".into() };
    let plan = || unlock::plan(&repository, request.clone());
    let (first, late) = (plan().expect("a plan"), plan().expect("a plan"));
    assert!(first.run(&Silent).expect("no lock").is_complete);
    assert_eq!(refused(late.run(&Silent)), "'../new' is not locked");
    assert_eq!(refused(plan()), "'../new' is not locked");
    assert!(!repo.exists(".git/worktrees/new/locked"));
}

#[test]
fn moves_as_git_moves() {
    let sandbox = Sandbox::new();
    let (ours, theirs) = (committed(&sandbox, "ours/repo"), committed(&sandbox, "theirs/repo"));
    for repo in [&ours, &theirs] {
        repo.git(&["worktree", "add", "-q", "../new"]);
        repo.write("../into/x", "");
    }
    let repository = open(&ours);
    let plan = |to: &str, force| {
        let (worktree, to) = ("new".into(), to.into());
        relocate::plan(&repository, relocate::Request { worktree, to, force, relative: None })
    };
    let first = plan("../into", 0).expect("a plan");
    assert!(first.to_string().ends_with("' to '../into/new'"), "{first}");
    let late = plan("../elsewhere", 0).expect("a plan");
    let report = first.run(&Silent).expect("a move");
    theirs.git(&["worktree", "move", "new", "../into"]);
    assert!(report.path.ends_with("ours/into/new"), "{}", report.path.display());
    let list = |repo: &Repo<'_>| {
        let parent = repo.path.parent().expect("a parent").to_str().expect("text").to_owned();
        repo.git(&["worktree", "list", "--porcelain"]).stdout.to_string().replace(&parent, "")
    };
    assert_eq!(list(&ours), list(&theirs));
    assert_eq!(sandbox.repo("ours/into/new").git(&["status", "--porcelain"]).stdout, "");
    assert!(refused(late.run(&Silent)).starts_with("validation failed, cannot move working tree: "));
    assert!(refused(plan("../repo/a", 0)).contains("already exists"));
    ours.git(&["worktree", "lock", "new"]);
    assert!(refused(plan("../other", 1)).starts_with("cannot move a locked working tree;"));
    plan("../other", 2).expect("a plan").run(&Silent).expect("a move");
    assert!(sandbox.path().join("ours/other/dir/b").exists());
}

/// A plan keeps the record of a missing worktree at the new place. The run removes it.
#[test]
fn a_forced_move_replaces_a_record() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    for path in ["../new", "../lost"] {
        add(&repo, path, None);
    }
    std::fs::remove_dir_all(sandbox.path().join("lost")).expect("a worktree");
    let repository = open(&repo);
    let plan = |force| {
        let (worktree, to) = ("new".into(), "../lost".into());
        relocate::plan(&repository, relocate::Request { worktree, to, force, relative: None })
    };
    let missing = "'../lost' is a missing but already registered worktree;\nuse 'move -f' to override";
    assert!(refused(plan(0)).starts_with(missing));
    std::mem::drop(plan(1).expect("a plan"));
    assert!(repo.exists(".git/worktrees/lost"));
    plan(1).expect("a plan").run(&Silent).expect("a move");
    assert!(!repo.exists(".git/worktrees/lost"));
    assert!(sandbox.path().join("lost/a").exists());
}

#[test]
fn prunes_what_git_prunes() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    for path in ["../one", "../two", "../three", "../four"] {
        add(&repo, path, None);
    }
    for gone in ["one", "two"] {
        std::fs::remove_dir_all(sandbox.path().join(gone)).expect("a worktree");
    }
    // Two records name one worktree.
    repo.write(".git/worktrees/three/gitdir", repo.read(".git/worktrees/four/gitdir"));
    let repository = open(&repo);
    let plan = || prune::plan(&repository, prune::Request::default()).expect("a plan");
    let theirs = repo.git(&["worktree", "prune", "--dry-run"]).stderr.to_string();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&plan().to_string()), sorted(&theirs));
    let late = plan();
    // Another process removes one of the two records, so that the other one is no duplicate.
    let other = theirs.lines().find(|line| line.ends_with("duplicate entry")).expect("a duplicate");
    let other = if other.contains("/three:") { "four" } else { "three" };
    std::fs::remove_dir_all(repo.path.join(".git/worktrees").join(other)).expect("a record");
    let mut removed = late.run(&Silent).expect("a prune").removed;
    removed.sort();
    assert_eq!(removed, ["one", "two"]);
    assert_eq!(repo.git(&["worktree", "prune", "--dry-run"]).stderr, "");
    assert_eq!(plan().to_string(), "");
    // The record that is left names the main worktree.
    let left = if other == "four" { "three" } else { "four" };
    let main = format!("{}\n", repo.path.join(".git").display());
    repo.write(format!(".git/worktrees/{left}/gitdir"), main);
    assert_eq!(plan().run(&Silent).expect("a prune").removed, [left]);
}

/// A worktree that is there again, a lock, and another worktree with the name.
#[test]
fn a_prune_looks_again_when_it_runs() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox, "repo");
    let names = ["back", "locked", "replaced", "gone"];
    let place = |name: &str| sandbox.path().join(name);
    for name in names {
        add(&repo, &format!("../{name}"), None);
        std::fs::rename(place(name), place("away").with_extension(name)).expect("moved away");
    }
    let repository = open(&repo);
    let plan = prune::plan(&repository, prune::Request::default()).expect("a plan");
    assert_eq!(plan.records().len(), names.len());
    std::fs::rename(place("away").with_extension("back"), place("back")).expect("moved back");
    repo.write(".git/worktrees/locked/locked", "later\n");
    std::fs::remove_dir_all(repo.join(".git/worktrees/replaced")).expect("pruned");
    repo.git(&["worktree", "add", "-q", "--force", "../replaced", "replaced"]);
    std::fs::rename(place("replaced"), place("away").with_extension("again")).expect("moved away");
    let report = plan.run(&Silent).expect("a prune");
    let index = |name: &str| repo.exists(format!(".git/worktrees/{name}/index"));
    assert_eq!(names.map(index), [true, true, true, false], "{report:?}");
    assert_eq!(report.kept, Vec::<std::ffi::OsString>::new());
    let back = sandbox.repo("back");
    assert_eq!(back.git(&["status", "--porcelain"]).stdout, "");
}

#[test]
fn repairs_what_git_repairs() {
    let sandbox = Sandbox::new();
    let mut answers = Vec::new();
    for name in ["theirs", "ours"] {
        let repo = committed(&sandbox, &format!("{name}/repo"));
        repo.git(&["worktree", "add", "-q", "../one"]);
        repo.git(&["worktree", "add", "-q", "../two"]);
        repo.git(&["worktree", "add", "-q", "../three"]);
        let place = |path: &str| sandbox.path().join(name).join(path);
        std::fs::rename(place("one"), place("moved")).expect("a worktree");
        std::fs::write(place("two/.git"), "gitdir: nowhere\n").expect("a file");
        let text = if name == "theirs" {
            repo.try_git(&["worktree", "repair", "../moved", "../none"]).stderr.to_string()
        } else {
            let paths = vec!["../moved".into(), "../none".into()];
            let request = repair::Request { paths, relative: None };
            let plan = repair::plan(&open(&repo), request).map(|plan| plan.run(&Silent));
            let report = plan.expect("a plan").expect("a repair");
            let level = |outcome| match outcome {
                repair::Outcome::Mended => "repair",
                repair::Outcome::Unrepairable => "error",
            };
            let lines = report.findings.iter().map(|finding| {
                format!("{}: {}: {}\n", level(finding.outcome), finding.message, finding.path.display())
            });
            lines.collect()
        };
        let list = repo.git(&["worktree", "list", "--porcelain"]).stdout.to_string();
        let root = sandbox.path().join(name);
        let root = root.to_str().expect("text");
        answers.push((text.replace(root, ""), list.replace(root, "")));
    }
    assert_eq!(answers[0], answers[1], "git left, ours right");
}
