//! An earlier program and this one take turns on the same repositories, workspaces, bases and
//! checkpoints, and the result is that of this program alone (docs/design/versions.md).
//!
//! `SAPWOOD_TEST_OLD_PROGRAM` names the earlier program; `just upgrade` builds one. Without it the
//! test says that it is skipped.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use testkit::Repo;

use crate::{SAPWOOD, bounded, workspace::create::Place};

/// A name, the steps, and questions at the end. Each step has its program, `S`. `$R` is the
/// repository, `$B` a directory for a remote of bases, and `D` prints the directory of a workspace.
type Scenario = (&'static str, &'static [&'static str], &'static str);

/// The state of a repository as Git sees it.
const GIT: &str = "git fsck --strict --no-dangling; git status --porcelain=v2 --branch; git ls-files -s
    git for-each-ref; git stash list; git config --local --list | sort; git worktree list --porcelain";

const SCENARIOS: &[Scenario] = &[
    (
        "a repository",
        &[
            "echo a >>file; S add -A; S commit -q -m three",
            "S switch -q -c topic; echo b >>file; S stash push -q",
            "S stash pop -q; S commit -q -a -m four; S update-ref refs/tags/v1 HEAD",
            "S switch -q main; S status --short; S commit-graph write --reachable; git repack -q; S multi-pack-index write",
            "S worktree add -q ../linked topic; S -C ../linked status --short",
        ],
        GIT,
    ),
    (
        "the index and its caches",
        &[
            "git update-index --untracked-cache; S status; echo new >new",
            "S status --short; git update-index --split-index; S add new",
            "S reset -q; S status --short; S update-index --index-version 4",
            "S sparse-checkout set dir; S status --short",
            "S sparse-checkout disable; S ls-files -t",
        ],
        "git status --porcelain; git ls-files -t --stage; find . -path ./.git -prune -o -type f -print | sort",
    ),
    (
        "a clone",
        &[
            "S clone -q --depth=1 file://$R ../made; echo c >>file; S commit -q -a -m three",
            "cd ../made; S pull -q --ff-only; echo d >>file; S commit -q -a -m four",
            "cd ../made; S fetch -q --unshallow; git log --oneline | wc -l",
            "cd ../made; git push -q origin HEAD:refs/heads/other; S fetch -q; S for-each-ref | wc -l",
        ],
        "cd ../made; git fsck; git for-each-ref; git status --porcelain=v2; test ! -e .git/shallow",
    ),
    (
        "checkpoints",
        &[
            "echo one >>file; S checkpoint -q -m one",
            "echo two >>file; echo new >new; S checkpoint -q -m two",
            "S checkpoints | grep -c '\\(one\\|two\\)$'; S undo -q; cat file",
            "S redo -q; cat file new",
            "S undo -q --to 1; echo three >>file; S checkpoint -q -m three",
        ],
        "cat file; git status --short; git for-each-ref --format='%(refname)'",
    ),
    (
        "a workspace that is a copy",
        &[
            "S workspace create -q --backend copy one",
            "cd $(D one); echo mine >>file; S add -A; S commit -q -m mine",
            "S workspace list --json | grep -c '\"one\"'; S workspace create -q --backend copy two",
            "S workspace move one ../moved >/dev/null; cd ../moved; echo more >new; S add new",
            "S -C ../moved commit -q -m more; S workspace land --onto landed one >/dev/null",
            "S workspace remove -q -f two; S workspace gc >/dev/null",
        ],
        "git log --all --format=%s; git worktree list | wc -l; git branch --list; find .git/sapwood/workspaces | sort",
    ),
    (
        "a workspace over a base",
        &[
            "S workspace create -q --backend image one",
            "cd $(D one); echo mine >>file; rm run; mkdir new; echo n >new/file; S status --short",
            "S workspace unmount one >/dev/null; S workspace list --json | grep -c '\"one\"'",
            "S workspace mount one >/dev/null; cd $(D one); cat file new/file; S add -A; S commit -q -m mine",
            "echo d >>file; S commit -q -a -m three; S workspace create -q --backend image two",
            "S workspace rebase -q two HEAD~1; cd $(D two); S status --short; cat file",
            "S workspace unmount one >/dev/null; S workspace unmount two >/dev/null; S workspace remove -q -f two; S workspace gc >/dev/null",
            "S workspace mount one >/dev/null; cd $(D one); S status --short; cat file",
            "S workspace remove -q -f one",
        ],
        "git log --all --format=%s; git worktree list | wc -l; find .git/sapwood/workspaces | sort",
    ),
    (
        "a workspace of a union in user space",
        &[
            "S workspace create -q --backend fuse one; cd $(D one); echo mine >>file; rm -r dir",
            "S workspace unmount one >/dev/null",
            "S workspace mount one >/dev/null; cd $(D one); S status --short; S add -A; S commit -q -m mine",
            "S workspace remove -q -f one",
        ],
        "git log --all --format=%s; git worktree list | wc -l; find .git/sapwood/workspaces | sort",
    ),
    (
        "a remote of bases",
        &[
            "mkdir $B; S base push -q $B HEAD~1",
            "S base push -q $B HEAD; S base verify $B HEAD >/dev/null",
            "git init -q ../host; cd ../host; git config sapwood.baseDir $B.host; git fetch -q --depth=1 $R main; S base pull -q $B FETCH_HEAD",
            "cd ../host; S workspace create -q --backend image one FETCH_HEAD; cat $(D one)/file",
            "cd ../host; S workspace remove -q -f one; S base list $B | wc -l",
            "echo d >>file; S commit -q -a -m three; S base push -q $B HEAD",
            "cd ../host; git fetch -q --depth=1 $R main; S base pull -q $B FETCH_HEAD",
            "cd ../host; S workspace create -q --backend image two FETCH_HEAD; cat $(D two)/file",
            "cd ../host; S workspace remove -q -f two",
        ],
        "cd ../host; git worktree list | wc -l; find .git/sapwood/workspaces | sort",
    ),
    (
        "the worktree of a job",
        &[
            "S ci checkout -q --ref=main --path=../job file://$R",
            "cd ../job; echo left >left; S switch -q -c job; S commit -q --allow-empty -m job",
            "CI=true S ci checkout -q --ref=main --path=../job file://$R",
            "cd ../job; CI=true S ci cleanup -q",
        ],
        "cd ../job; git status --porcelain=v2 --branch; git for-each-ref; ls -A",
    ),
];

/// Runs the steps, each with the next of `programs`, and then the questions. Returns all output.
fn outcome(scenario: &Scenario, programs: &[&Path]) -> String {
    let (name, steps, questions) = scenario;
    let place = Place::new();
    let repo = place.repo();
    // On a disk: the kernel mounts no image that lies in memory.
    let remote = place.bases().join("remote");
    let mut said = String::new();
    for (step, program) in steps.iter().zip(programs.iter().cycle()) {
        said += &format!("$ {step}\n{}", shell(&repo, &remote, step, program, name));
    }
    said += &shell(&repo, &remote, questions, Path::new(SAPWOOD), name);
    // Each run has a directory of its own.
    let top = place.sandbox.path().display().to_string();
    said.replace(&place.bases().display().to_string(), "BASES").replace(&top, "TOP")
}

fn shell(repo: &Repo<'_>, remote: &Path, script: &str, program: &Path, name: &str) -> String {
    let mut command = repo.command("sh".as_ref());
    command.env("PROGRAM", program).env("R", &repo.path).env("B", remote);
    const FUNCTIONS: &str = r#"S() { "$PROGRAM" "$@"; }
        D() { git worktree list --porcelain | sed -n "s|^worktree \(.*/$1\)\$|\1|p"; }"#;
    let output = command.args(["-ec", &format!("{FUNCTIONS}\n{script}")]).output().expect("a shell");
    assert!(
        output.status.success(),
        "{name}, with {}: {script}\n{}{}",
        program.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the earlier program.
fn old_program() -> Option<PathBuf> {
    let given = std::env::var_os("SAPWOOD_TEST_OLD_PROGRAM").filter(|path| !path.is_empty());
    if given.is_none() {
        println!(
            "skipped: SAPWOOD_TEST_OLD_PROGRAM names no earlier program; `just upgrade` builds that of the last \
             tag, or of a commit before the first one"
        );
    }
    given.map(PathBuf::from)
}

fn lacks(program: &Path, command: &str) -> bool {
    let output = Command::new(program).args([command, "-h"]).output().expect("it runs");
    String::from_utf8_lossy(&output.stderr).contains("is not a sapwood command")
}

/// Without an earlier program, the scenarios themselves run: they are valid for this one.
#[test]
fn programs_take_turns() {
    let new = Path::new(SAPWOOD);
    let old = old_program();
    let names = SCENARIOS.iter().map(|(name, ..)| *name).collect();
    bounded(names, usize::MAX, |name: &&str| {
        let scenario = SCENARIOS.iter().find(|(known, ..)| known == name).expect("in the table");
        let expected = outcome(scenario, &[new]);
        let Some(old) = old.as_deref() else { return };
        if scenario.1.iter().any(|step| step.contains("S ci ")) && lacks(old, "ci") {
            println!("{name}: skipped: the earlier program has no command `ci`");
            return;
        }
        // The first steps by the old one, as after an upgrade; then in turns.
        let first: Vec<&Path> =
            (0..scenario.1.len()).map(|step| if step < scenario.1.len() / 2 { old } else { new }).collect();
        let back: Vec<&Path> =
            (0..scenario.1.len()).map(|step| if step < scenario.1.len() / 2 { new } else { old }).collect();
        for programs in [&first[..], &[old, new], &[new, old], &back] {
            let turns: Vec<_> =
                programs.iter().map(|program| if *program == old { "old" } else { "new" }).collect();
            assert_eq!(outcome(scenario, programs), expected, "{name}: {}", turns.join(", "));
        }
    });
}
