//! Commit as an operation.

use std::fs;

use sapwood::{
    Error, PlanError, RunError, Silent,
    commit::{self, Report, Request, Selection},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// A repository with two commits' worth of changes: one staged, the other not.
fn changed<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    ["one", "two", "dir/three"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("first");
    repo.write("one", "22\n");
    repo.git(&["add", "one"]);
    repo.write("two", "22\n");
    repo.write("dir/three", "22\n");
    repo
}

fn run(repo: &Repo<'_>, request: Request) -> Result<Report, Error> {
    let repository = open(repo);
    let plan = match commit::plan(&repository, request) {
        Ok(plan) => plan,
        Err(PlanError::Failed(error)) => return Err(error),
        Err(error) => panic!("{error}"),
    };
    plan.run(&Silent).map_err(|RunError(error)| error)
}

/// The commit, its message, and the state of the worktree.
fn state(repo: &Repo<'_>) -> String {
    let text = |args: &[&str]| repo.git(args).stdout.to_string();
    let commit = text(&["log", "-1", "--format=%T %P %an <%ae> %cn <%ce>%n%B"]);
    commit + &text(&["status", "-s"]) + &text(&["reflog", "-1", "--format=%gs"])
}

#[test]
fn commits_what_git_commits() {
    let cases: [&[&str]; 5] = [&[], &["-a"], &["-i", "dir"], &["-o", "two"], &["-a", "--amend"]];
    for options in cases {
        let sandbox = Sandbox::new();
        let (repo, other) = (changed(&sandbox, "ours"), changed(&sandbox, "theirs"));
        other.git(&[&["commit", "-q", "-m", " a message \n\n\nand more"], options].concat());
        let has = |option| options.contains(&option);
        let paths = &options[options.iter().filter(|option| option.starts_with('-')).count()..];
        let pathspecs = open(&repo).pathspecs(paths).expect("pathspecs");
        let selection = Selection { pathspecs, all: has("-a"), include: has("-i"), only: has("-o") };
        let amend = has("--amend");
        let message = Some(" a message \n\n\nand more".into());
        let report =
            run(&repo, Request { message, selection, amend, ..Request::default() }).expect("a commit");
        assert_eq!(state(&repo), state(&other), "{options:?}");
        assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, format!("{}\n", report.commit));
        assert!(!repo.exists(".git/index.lock"));
        repo.git(&["fsck", "--strict"]);
    }
}

#[test]
fn obeys_the_configured_cleanup() {
    for mode in ["default", "strip", "whitespace", "verbatim", "scissors"] {
        let sandbox = Sandbox::new();
        let (repo, other) = (changed(&sandbox, "ours"), changed(&sandbox, "theirs"));
        let message = "subject  \n\n\n# no comment\n; another\n";
        for repo in [&repo, &other] {
            repo.git(&["config", "commit.cleanup", mode]);
            repo.git(&["config", "core.commentChar", ";"]);
        }
        other.git(&["commit", "-q", "-m", message]);
        run(&repo, Request::staged(message)).expect("a commit");
        assert_eq!(state(&repo), state(&other), "{mode}");
    }
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox, "repo");
    repo.git(&["config", "commit.cleanup", "wrong"]);
    let refused = run(&repo, Request::staged("message")).expect_err("a refusal");
    assert_eq!(refused.to_string(), "Invalid cleanup mode wrong");
}

#[test]
fn the_first_commit_and_an_empty_one() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let refused = run(&repo, Request::staged("nothing")).expect_err("a refusal");
    assert!(matches!(refused, Error::NothingToCommit), "{refused}");
    let empty = Request { allow_empty: true, ..Request::staged("empty") };
    let first = run(&repo, empty).expect("a commit");
    assert_eq!(first.before, None);
    repo.write("file", "");
    repo.git(&["add", "file"]);
    let second = run(&repo, Request::staged("second")).expect("a commit");
    assert_eq!(second.before, Some(first.commit));
    let refused = run(&repo, Request::staged(" \n")).expect_err("a refusal");
    assert!(matches!(refused, Error::NothingToCommit | Error::EmptyMessage), "{refused}");
    assert_eq!(repo.git(&["log", "--format=%s"]).stdout, "second\nempty\n");
}

#[test]
fn a_plan_that_is_dropped_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox, "repo");
    let before = state(&repo);
    let repository = open(&repo);
    let plan = commit::plan(&repository, Request::all("never")).expect("a plan");
    assert_eq!(plan.whence(), commit::Whence::Commit);
    drop(plan);
    assert_eq!(state(&repo), before);
}

fn add_hook(repo: &Repo<'_>, name: &str, script: &str) {
    repo.write_executable(format!(".git/hooks/{name}"), format!("#!/bin/sh\n{script}\n"));
}

#[test]
fn hooks_take_part_and_refuse() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox, "repo");
    let hook = |name: &str, script: &str| add_hook(&repo, name, script);
    hook("prepare-commit-msg", "echo \"$2\" >>\"$1\"");
    hook("commit-msg", "echo checked >>\"$1\"");
    hook("post-commit", "git rev-parse HEAD >.git/seen");
    let report = run(&repo, Request::all("subject\n")).expect("a commit");
    assert_eq!(repo.git(&["log", "-1", "--format=%B"]).stdout, "subject\nmessage\nchecked\n\n");
    assert_eq!(repo.read(".git/seen"), format!("{}\n", report.commit));
    hook("pre-commit", "exit 1");
    let before = state(&repo);
    let empty = || Request { allow_empty: true, ..Request::staged("refused") };
    let refused = run(&repo, empty()).expect_err("a refusal");
    assert!(matches!(refused, Error::HookRefused("pre-commit")), "{refused}");
    assert_eq!(state(&repo), before);
    run(&repo, Request { no_verify: true, ..empty() }).expect("a commit");
}

#[test]
fn changes_that_pre_commit_stages_do_not_make_a_commit() {
    let sandbox = Sandbox::new();
    let (repo, other) = (changed(&sandbox, "ours"), changed(&sandbox, "theirs"));
    for repo in [&repo, &other] {
        repo.git(&["commit", "-q", "-m", "second"]);
        add_hook(repo, "pre-commit", "git add two");
    }
    assert_eq!(other.try_git(&["commit", "-q", "-m", "third"]).code, 1);
    let refused = run(&repo, Request::staged("third")).expect_err("a refusal");
    assert!(matches!(refused, Error::NothingToCommit), "{refused}");
    assert_eq!(state(&repo), state(&other));
    for repo in [&repo, &other] {
        add_hook(repo, "pre-commit", "git reset -q");
        repo.git(&["add", "two"]);
    }
    other.git(&["commit", "-q", "-m", "an empty one"]);
    run(&repo, Request::staged("an empty one")).expect("a commit");
    assert_eq!(state(&repo), state(&other));
}

#[test]
fn hooks_see_the_message_and_its_source_as_in_git() {
    let prepare: &[(&str, &[&[&str]])] = &[
        ("message", &[]),
        ("squash", &[&["stash", "-q"], &["merge", "-q", "--squash", "side"]]),
        ("merge", &[&["stash", "-q"], &["merge", "-q", "--no-ff", "--no-commit", "side"]]),
        ("pick", &[&["stash", "-q"], &["cherry-pick", "--no-commit", "side"]]),
        ("none", &[]),
    ];
    for (case, commands) in prepare {
        let sandbox = Sandbox::new();
        let (repo, other) = (changed(&sandbox, "ours"), changed(&sandbox, "theirs"));
        for repo in [&repo, &other] {
            repo.git(&["stash", "-q"]);
            repo.git(&["switch", "-q", "-c", "side"]);
            repo.write("side", "1\n");
            repo.commit("a side  \n\n\ncommit");
            repo.git(&["switch", "-q", "main"]);
            repo.git(&["stash", "pop", "-q", "--index"]);
            commands.iter().for_each(|args| drop(repo.git(args)));
            add_hook(
                repo,
                "prepare-commit-msg",
                "f=$1; shift; { echo \"$@\"; cat \"$f\"; } >.git/seen; test -s \"$f\" || echo x >\"$f\"",
            );
        }
        let message = (*case == "message").then_some("a  \n\n\nb\n\n");
        let args = message.map_or(vec!["--no-edit"], |message| vec!["-m", message]);
        other.git(&[&["commit", "-q"], args.as_slice()].concat());
        run(&repo, Request { message: message.map(Into::into), ..Request::default() }).expect("a commit");
        assert_eq!(repo.read(".git/seen"), other.read(".git/seen"), "{case}");
        assert_eq!(
            repo.git(&["log", "-1", "--format=%T%n%B"]).stdout,
            other.git(&["log", "-1", "--format=%T%n%B"]).stdout,
            "{case}"
        );
    }
}

#[test]
fn refuses_before_any_hook_if_a_hook_may_forbid_the_change() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox, "repo");
    add_hook(&repo, "reference-transaction", "exit 0");
    add_hook(&repo, "pre-commit", "touch .git/ran");
    let repository = open(&repo);
    let refused = commit::plan(&repository, Request::all("message")).err().expect("a refusal");
    assert!(matches!(refused, PlanError::Unsupported("hooks 'reference-transaction'")), "{refused}");
    assert!(!repo.exists(".git/ran"));
}

#[test]
fn an_unreadable_message_is_an_error() {
    let sandbox = Sandbox::new();
    let repo = changed(&sandbox, "repo");
    fs::create_dir(repo.join(".git/MERGE_MSG")).expect("made");
    let refused = run(&repo, Request::default()).expect_err("a refusal");
    assert_eq!(refused.to_string(), "could not read .git/MERGE_MSG: Is a directory");
}

/// Starts a merge of `main` and `side`, which both changed `file`.
fn start_merge(repo: &Repo<'_>) {
    assert_ne!(repo.try_git(&["merge", "-q", "side"]).code, 0);
}

fn diverged<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let repo = sandbox.init("repo");
    repo.write("file", "1\n");
    repo.commit("one");
    repo.git(&["switch", "-q", "-c", "side"]);
    repo.write("file", "side\n");
    repo.commit("side");
    repo.git(&["switch", "-q", "main"]);
    repo.write("file", "main\n");
    repo.commit("main");
    repo
}

#[test]
fn a_merge_that_began_after_the_plan_keeps_its_parent() {
    let sandbox = Sandbox::new();
    let repo = diverged(&sandbox);
    let repository = open(&repo);
    let plan = commit::plan(&repository, Request::staged("planned before")).expect("a plan");
    start_merge(&repo);
    repo.write("file", "both\n");
    repo.git(&["add", "file"]);
    let before = state(&repo);
    let RunError(refused) = plan.run(&Silent).expect_err("a refusal");
    assert!(refused.to_string().contains("since the commit was planned"), "{refused}");
    assert!(repo.exists(".git/MERGE_HEAD"));
    assert_eq!(state(&repo), before);
}

#[test]
fn conflicts_and_merges() {
    let sandbox = Sandbox::new();
    let repo = diverged(&sandbox);
    start_merge(&repo);
    let refused = run(&repo, Request::staged("too soon")).expect_err("a refusal");
    assert!(matches!(&refused, Error::Conflicts(paths) if paths == &["file"]), "{refused}");
    repo.write("file", "both\n");
    repo.git(&["add", "file"]);
    run(&repo, Request::staged("merged")).expect("a commit");
    assert_eq!(repo.git(&["log", "-1", "--format=%s %P"]).stdout.to_string().split(' ').count(), 3);
    assert!(!repo.exists(".git/MERGE_HEAD"));
}
