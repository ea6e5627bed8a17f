//! `sapwood doctor` and the shim must agree about each command in each kind of repository.

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use super::Shim;
use crate::SAPWOOD;

/// A command line for each command that is native unless the repository prevents it.
const LINES: &[(&str, &[&str])] = &[
    ("add", &["add", "a"]),
    ("check-attr", &["check-attr", "text", "a"]),
    ("check-ignore", &["check-ignore", "-q", "a"]),
    ("checkout", &["checkout", "-q", "main"]),
    ("checkout-index", &["checkout-index", "-q", "-a"]),
    ("clean", &["clean", "-n"]),
    ("clone", &["clone", "-q", "../../source", "../copy"]),
    ("commit", &["commit", "-q", "--allow-empty", "-m", "x"]),
    ("commit-tree", &["commit-tree", "HEAD:", "-m", "x"]),
    ("commit-graph", &["commit-graph", "write", "--reachable"]),
    ("config", &["config", "-l"]),
    ("count-objects", &["count-objects"]),
    ("diff-files", &["diff-files"]),
    ("diff-index", &["diff-index", "HEAD"]),
    ("fetch", &["fetch", "-q", "--no-recurse-submodules", "../../source"]),
    ("for-each-ref", &["for-each-ref"]),
    ("hash-object", &["hash-object", "a"]),
    ("index-pack", &["index-pack", "nowhere.pack"]),
    ("init", &["init", "-q", "../new"]),
    ("ls-files", &["ls-files"]),
    ("ls-remote", &["ls-remote", "-q", "../../source"]),
    ("mktree", &["mktree"]),
    ("multi-pack-index", &["multi-pack-index", "write"]),
    ("prune-packed", &["prune-packed"]),
    ("pull", &["pull", "-q", "--no-recurse-submodules", "--ff-only", "../../source"]),
    ("mv", &["mv", "dir/b", "dir/c"]),
    ("read-tree", &["read-tree", "-m", "HEAD"]),
    ("reset", &["reset", "-q"]),
    ("restore", &["restore", "."]),
    ("rev-parse", &["rev-parse", "HEAD^0"]),
    ("rm", &["rm", "-rf", "dir"]),
    ("show-ref", &["show-ref", "-d"]),
    ("sparse-checkout add", &["sparse-checkout", "add", "dir"]),
    ("sparse-checkout check-rules", &["sparse-checkout", "check-rules"]),
    ("sparse-checkout clean", &["sparse-checkout", "clean", "-n"]),
    ("sparse-checkout disable", &["sparse-checkout", "disable"]),
    ("sparse-checkout init", &["sparse-checkout", "init"]),
    ("sparse-checkout list", &["sparse-checkout", "list"]),
    ("sparse-checkout reapply", &["sparse-checkout", "reapply"]),
    ("sparse-checkout set", &["sparse-checkout", "set", "dir"]),
    ("stash apply", &["stash", "apply"]),
    ("stash branch", &["stash", "branch"]),
    ("stash clear", &["stash", "clear"]),
    ("stash create", &["stash", "create"]),
    ("stash drop", &["stash", "drop"]),
    ("stash list", &["stash", "list"]),
    ("stash pop", &["stash", "pop"]),
    ("stash push", &["stash", "push"]),
    ("stash save", &["stash", "save"]),
    ("stash store", &["stash", "store"]),
    ("status", &["status"]),
    ("submodule init", &["submodule", "init"]),
    ("submodule update", &["submodule", "update"]),
    ("submodule--helper update", &["submodule--helper", "update"]),
    ("switch", &["switch", "-q", "main"]),
    ("symbolic-ref", &["symbolic-ref", "HEAD"]),
    ("update-index", &["update-index", "-q", "--refresh"]),
    ("update-ref", &["update-ref", "refs/heads/new", "HEAD"]),
    ("worktree add", &["worktree", "add", "-q", "--detach", "../linked"]),
    ("worktree list", &["worktree", "list"]),
    ("worktree lock", &["worktree", "lock", "nowhere"]),
    ("worktree move", &["worktree", "move", "nowhere", "elsewhere"]),
    ("worktree prune", &["worktree", "prune"]),
    ("worktree remove", &["worktree", "remove", "nowhere"]),
    ("worktree repair", &["worktree", "repair"]),
    ("worktree unlock", &["worktree", "unlock", "nowhere"]),
    ("write-tree", &["write-tree"]),
];

/// The first commits of every repository.
const FIRST: &str = "git init -q -b main; mkdir dir; echo 1 >a; echo 2 >dir/b; git add .; git commit -qm one; git branch topic";

/// Kinds of repositories, as shell scripts that run in a new one with two commits.
const KINDS: &[(&str, &str)] = &[
    ("plain", "true"),
    ("a locked index", "touch .git/index.lock"),
    ("a partial clone", "git config remote.origin.promisor true; git config remote.origin.url nowhere"),
    ("sparse", "git sparse-checkout set dir"),
    ("a submodule", "git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -qm sub"),
    (
        "a recursive submodule",
        "git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -qm sub; git config submodule.recurse true",
    ),
    (
        "a hook of Git's",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\n' >.git/hooks/reference-transaction; chmod +x .git/hooks/reference-transaction",
    ),
    ("a setting of all", "git config attr.tree HEAD"),
    ("a wrong boolean", "git config submodule.recurse nonsense"),
    ("a setting of status", "git config status.color nonsense"),
    ("a process filter", "git config filter.x.process cat"),
    ("an unknown condition", "git config includeIf.worktree:x.path y"),
    ("an index that is not one", "echo nonsense >.git/index"),
];

/// Returns the commands that `doctor` reports, and true for each native one.
fn report(repo: &Repo<'_>) -> Vec<(String, bool)> {
    let doctor = repo.run(SAPWOOD.as_ref(), &["doctor", "--json"]);
    assert!(doctor.code <= 1, "{}", doctor.stderr);
    let document: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("one document");
    let commands = document["commands"].as_array().expect("a list");
    let verdict = |command: &serde_json::Value| {
        let name = command["name"].as_str().expect("a name").to_owned();
        let is_native = command["native"].as_bool().expect("a verdict");
        assert_eq!(is_native, command["reasons"] == serde_json::json!([]), "{name}");
        (name, is_native)
    };
    let verdicts: Vec<(String, bool)> = commands.iter().map(verdict).collect();
    let all_native = verdicts.iter().all(|(_, is_native)| *is_native);
    assert!(all_native || doctor.code == 1, "{verdicts:?}");
    verdicts
}

#[test]
fn doctor_and_shim_agree() {
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for half in KINDS.chunks(KINDS.len().div_ceil(2)) {
            scope.spawn(|| {
                half.iter().for_each(|(kind, script)| {
                    let found = differences(kind, script);
                    wrong.lock().expect("no panic").extend(found);
                })
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the commands on which `doctor` and the shim disagree in a repository created by
/// `script`.
fn differences(kind: &str, script: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let sandbox = Sandbox::new();
    let shell = |place: &str, script: &str| {
        let repo = sandbox.repo(place);
        std::fs::create_dir_all(&repo.path).expect("a new directory");
        let made = repo.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
        assert!(made.status.success(), "{kind}: {}", made.stderr.as_bstr());
        repo
    };
    shell("source", FIRST);
    shell("template", &format!("{FIRST}; {script}"));
    let make = |name: &str| shell(name, "cp -a \"$HOME/../template/.\" .");
    let verdicts = report(&make("doctor"));
    let known: Vec<&str> = LINES.iter().map(|(command, _)| *command).collect();
    for (command, native) in &verdicts {
        let line = LINES.iter().find(|(name, _)| name == command);
        let (_, line) = line.unwrap_or_else(|| panic!("{command} has no line in {known:?}"));
        let shim = Shim::new();
        let repo = make(&format!("{}/top", command.replace(' ', "-")));
        shim.run(&repo, line);
        let log = shim.log();
        let is_native = log.first().is_some_and(|entry| entry.contains("\"outcome\":\"native\""));
        if is_native != *native {
            let log = log.first().cloned().unwrap_or_default();
            wrong.push(format!("{kind}: {command}: doctor says native={native}, the shim: {log}"));
        }
    }
    assert!(verdicts.len() >= LINES.len() - 1, "{kind}: doctor reports every command: {verdicts:?}");
    wrong
}
