//! `sapwood doctor` beside the shim: they have to agree about each command in each kind of repository.

use bstr::ByteSlice as _;
use testkit::{Repo, Sandbox};

use super::{Shim, one};
use crate::SAPWOOD;

/// For each command a command line that is native unless the repository is an obstacle.
const LINES: &[(&str, &[&str])] = &[
    ("check-attr", &["check-attr", "text", "a"]),
    ("check-ignore", &["check-ignore", "-q", "a"]),
    ("checkout", &["checkout", "-q", "main"]),
    ("checkout-index", &["checkout-index", "-q", "-a"]),
    ("clean", &["clean", "-n"]),
    ("clone", &["clone", "-q", ".", "../copy"]),
    ("count-objects", &["count-objects"]),
    ("diff-files", &["diff-files"]),
    ("diff-index", &["diff-index", "HEAD"]),
    ("ls-files", &["ls-files"]),
    ("read-tree", &["read-tree", "-m", "HEAD"]),
    ("reset", &["reset", "-q"]),
    ("restore", &["restore", "."]),
    ("sparse-checkout add", &["sparse-checkout", "add", "dir"]),
    ("sparse-checkout check-rules", &["sparse-checkout", "check-rules"]),
    ("sparse-checkout clean", &["sparse-checkout", "clean", "-n"]),
    ("sparse-checkout disable", &["sparse-checkout", "disable"]),
    ("sparse-checkout init", &["sparse-checkout", "init"]),
    ("sparse-checkout list", &["sparse-checkout", "list"]),
    ("sparse-checkout reapply", &["sparse-checkout", "reapply"]),
    ("sparse-checkout set", &["sparse-checkout", "set", "dir"]),
    ("status", &["status"]),
    ("switch", &["switch", "-q", "main"]),
    ("update-index", &["update-index", "-q", "--refresh"]),
    ("worktree add", &["worktree", "add", "-q", "--detach", "../linked"]),
    ("worktree list", &["worktree", "list"]),
    ("worktree lock", &["worktree", "lock", "nowhere"]),
    ("worktree move", &["worktree", "move", "nowhere", "elsewhere"]),
    ("worktree prune", &["worktree", "prune"]),
    ("worktree remove", &["worktree", "remove", "nowhere"]),
    ("worktree repair", &["worktree", "repair"]),
    ("worktree unlock", &["worktree", "unlock", "nowhere"]),
];

/// Kinds of repositories, as shell scripts that run in a new one with two commits.
const KINDS: &[(&str, &str)] = &[
    ("plain", "true"),
    ("a locked index", "touch .git/index.lock"),
    ("a locked HEAD", "touch .git/HEAD.lock"),
    ("a partial clone", "git config remote.origin.promisor true; git config remote.origin.url nowhere"),
    ("sparse", "git sparse-checkout set dir"),
    ("a sparse index", "git sparse-checkout set --sparse-index dir"),
    ("a submodule", "git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -qm sub"),
    (
        "a recursive submodule",
        "git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -qm sub; git config submodule.recurse true",
    ),
    (
        "a hook of Git's",
        "mkdir -p .git/hooks; printf '#!/bin/sh\\n' >.git/hooks/reference-transaction; chmod +x .git/hooks/reference-transaction",
    ),
    ("grafts", "touch .git/info/grafts"),
    ("a setting of all", "git config attr.tree HEAD"),
    ("a wrong boolean", "git config submodule.recurse nonsense"),
    ("a setting of status", "git config status.color nonsense"),
    ("a setting of diffs", "git config diff.dirstat lines"),
    ("a process filter", "git config filter.x.process cat"),
    ("a pager", "git config pager.status less"),
    ("an unknown condition", "git config includeIf.worktree:x.path y"),
    ("an untracked cache", "git update-index --untracked-cache"),
    ("a split index", "git update-index --split-index"),
    ("an index that is not one", "echo nonsense >.git/index"),
];

/// The commands that `doctor` reports, and whether each is native.
fn report(repo: &Repo<'_>) -> Vec<(String, bool)> {
    let doctor = repo.run(SAPWOOD.as_ref(), &["doctor"]);
    assert!(doctor.code <= 1, "{}", doctor.stderr);
    let lines = doctor.stdout.lines().filter_map(|line| line.to_str().ok()?.split_once(": "));
    let verdicts = lines.filter_map(|(command, verdict)| {
        let native = verdict.starts_with("native");
        (native || verdict.starts_with("handed over")).then(|| (command.to_owned(), native))
    });
    verdicts.collect()
}

#[test]
fn doctor_and_shim_agree() {
    let mut wrong = Vec::new();
    for (kind, script) in KINDS {
        let sandbox = Sandbox::new();
        let make = |name: &str| {
            let repo = sandbox.repo(name);
            std::fs::create_dir_all(repo.path()).expect("a new directory");
            let mut shell = repo.command("sh".as_ref());
            let first = "git init -q -b main; mkdir dir; echo 1 >a; echo 2 >dir/b; git add .; git commit -qm one; git branch topic";
            let made = shell.args(["-ec", &format!("{first}; {script}")]).output().expect("a shell");
            assert!(made.status.success(), "{kind}: {}", made.stderr.as_bstr());
            repo
        };
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
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
