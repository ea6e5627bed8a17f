//! Fifty workspaces created and removed in parallel, and several that compete for one name.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use testkit::disk::mounts_below;

use super::create::{Place, leftovers};
use crate::SAPWOOD;

const MANY: usize = 50;
const NO_PATHS: [PathBuf; 0] = [];

/// Runs `sapwood workspace` with each list of arguments, all in parallel.
fn at_once(place: &Place, commands: &[Vec<String>]) -> Vec<Output> {
    let start = |args: &Vec<String>| {
        let mut command: Command = place.repo().command(SAPWOOD.as_ref());
        command
            .arg("workspace")
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("it can be run")
    };
    let running: Vec<_> = commands.iter().map(start).collect();
    running.into_iter().map(|child| child.wait_with_output().expect("it ends")).collect()
}

fn words(of: &str) -> Vec<String> {
    of.split(' ').map(str::to_owned).collect()
}

fn assert_done(outputs: &[Output]) {
    for output in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(!said.contains("lock"), "{said}");
    }
}

/// Returns the lock files below `.git`, which a running command holds.
fn locks(place: &Place) -> Vec<String> {
    let find = Command::new("find").arg(place.repo().join(".git")).args(["-name", "*.lock"]).output();
    let found = find.expect("it can be run").stdout;
    String::from_utf8_lossy(&found).lines().map(str::to_owned).collect()
}

#[test]
fn fifty_at_once_do_not_race() {
    for backend in ["image", "overlay", "overlay-user", "copy"] {
        let place = Place::new();
        let names: Vec<String> = (0..MANY).map(|number| format!("agent-{number}")).collect();
        let create = |name: &String| words(&format!("create {name} -b topic-{name} --backend {backend} -q"));
        assert_done(&at_once(&place, &names.iter().map(create).collect::<Vec<_>>()));
        let all = place.json();
        let all = all.as_array().expect("a list");
        let listed: BTreeSet<&str> = all.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(listed, names.iter().map(String::as_str).collect(), "{backend}");
        let different = |field: &str| {
            let values: BTreeSet<&str> = all.iter().filter_map(|one| one[field].as_str()).collect();
            values.len()
        };
        assert_eq!((different("branch"), different("dir")), (MANY, MANY), "{backend}");
        assert!(all.iter().all(|one| one["backend"] == backend), "{all:?}");
        assert!(all.iter().all(|one| one["mounted"] == true), "{all:?}");
        let worktrees = place.repo().git(&["worktree", "list", "--porcelain"]).stdout.to_string();
        assert_eq!(worktrees.matches("worktree ").count(), MANY + 1, "{backend}: {worktrees}");
        for name in &names {
            assert!(worktrees.contains(&format!("branch refs/heads/topic-{name}\n")), "{worktrees}");
            assert_eq!(place.git(name, &["status", "--porcelain"]), "", "{backend} {name}");
        }
        assert_eq!(locks(&place), Vec::<String>::new(), "{backend}");
        // Each workspace has its own files.
        place.done(&["exec", "agent-7", "--", "sh", "-ec", "echo mine >file"]);
        assert_eq!(place.git("agent-7", &["status", "--porcelain"]), " M file\n");
        assert_eq!(place.git("agent-8", &["status", "--porcelain"]), "", "{backend}");
        let remove = |name: &String| words(&format!("remove --force {name}"));
        assert_done(&at_once(&place, &names.iter().map(remove).collect::<Vec<_>>()));
        assert_eq!(leftovers(&place), NO_PATHS, "{backend}");
        assert_eq!(place.json().as_array().map(Vec::len), Some(0));
        let worktrees = place.repo().git(&["worktree", "list", "--porcelain"]).stdout.to_string();
        assert_eq!(worktrees.matches("worktree ").count(), 1, "{backend}: {worktrees}");
        assert_eq!(mounts_below(&place.sandbox.path()), NO_PATHS, "{backend}");
        assert_eq!(mounts_below(place.bases()), NO_PATHS, "{backend}");
        assert_eq!(locks(&place), Vec::<String>::new(), "{backend}");
        place.repo().git(&["fsck"]);
    }
}

#[test]
fn one_of_several_gets_a_name() {
    for backend in ["image", "overlay", "overlay-user", "copy"] {
        let place = Place::new();
        let create = words(&format!("create one --detach --backend {backend} -q"));
        let outputs = at_once(&place, &vec![create; 8]);
        let done = outputs.iter().filter(|output| output.status.success()).count();
        let said: Vec<_> = outputs.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
        assert_eq!(done, 1, "{backend}: {said:?}");
        let refused = said.iter().filter(|said| said.contains("exists"));
        assert_eq!(refused.count(), 7, "{backend}: {said:?}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        assert_eq!(place.done(&["exec", "one", "--", "cat", "file"]), "changed\n");
        let worktrees = place.repo().git(&["worktree", "list", "--porcelain"]).stdout.to_string();
        assert_eq!(worktrees.matches("worktree ").count(), 2, "{backend}: {worktrees}");
        place.done(&["remove", "one"]);
        assert_eq!(leftovers(&place), NO_PATHS, "{backend}");
        assert_eq!(fs::read_dir(place.repo().join(".git/worktrees")).into_iter().flatten().count(), 0);
    }
}
