//! Conditions that a command finds while it works: it becomes the real Git if it has changed and
//! shown nothing, and ends with an error otherwise.

use std::{fs, path::PathBuf};

use bstr::ByteSlice as _;
use testkit::{Repo, Run, Sandbox};

use super::{Shim, finished, one, oracle_path};

/// Makes HEAD, and the branch `twice`, a commit whose tree holds a name twice. Only Git reads such
/// a tree. Then stages a file.
pub(super) fn hold_a_name_twice(repo: &Repo<'_>) {
    let script = "blob=$(git hash-object -w a)
        entry() { printf '100644 a\\0'; printf %s $blob | sed 's/../\\\\x&/g' | xargs -0 printf; }
        tree=$({ entry; entry; } | git hash-object -t tree -w --stdin --literally)
        git update-ref HEAD $(git commit-tree -m twice $tree)
        git branch twice";
    let mut command = repo.command("bash".as_ref());
    let made = finished(command.args(["-c", script]).env("PATH", oracle_path(repo)));
    assert_eq!(made.code, 0, "{}", made.stderr);
    repo.write("new", "new\n");
    repo.git(&["add", "new"]);
}

const NOT_SUPPORTED: &str = "fatal: trees that hold a name twice are not supported yet\n";

#[track_caller]
fn ended_with_an_error(shim: &Shim, run: &Run, args: &[&str]) {
    assert_eq!(run.code, 128, "{args:?}: {}", run.stderr);
    assert!(run.stderr.ends_with_str(NOT_SUPPORTED), "{args:?}: {}", run.stderr);
    shim.was_native_with(args, 128);
}

#[test]
fn nothing_was_changed() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    hold_a_name_twice(&repo);
    for args in [
        &["status", "--porcelain"][..],
        &["diff-index", "--cached", "HEAD"],
        &["reset", "-q", "--hard", "twice"],
        &["checkout", "-q", "-f", "twice"],
        &["fetch", "--filter=auto", "."],
    ] {
        let run = shim.run(&repo, args);
        assert!(!run.stderr.contains_str("are not supported yet"), "{args:?}: {}", run.stderr);
        let why = if args[0] == "fetch" { "filters that the server chooses" } else { "hold a name twice" };
        shim.was_handed_over(args, why);
    }
}

/// Locks and traces are no changes, nor are the objects and the message that wait for a commit.
#[test]
fn steps_that_git_does_not_notice() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    hold_a_name_twice(&repo);
    repo.git(&["config", "core.lockfilePid", "true"]);
    repo.write("a", "changed\n");
    for args in [
        &["commit", "--dry-run"][..],
        &["commit", "-m", "one"],
        &["commit", "--allow-empty", "-a", "-m", "two"],
    ] {
        repo.git(&["update-ref", "HEAD", "twice"]);
        let mut command = shim.command(&repo);
        command.env("GIT_TRACE2_EVENT", shim.path("trace")).env("GIT_TRACE", "2").args(args);
        let run = finished(&mut command);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        shim.was_handed_over(args, "hold a name twice");
        assert!(!repo.exists(".git/index.lock") && !repo.exists(".git/index~pid.lock"), "{args:?}");
    }
}

/// The hook runs once: Git would run it again.
#[test]
fn a_hook_is_a_change() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    hold_a_name_twice(&repo);
    repo.write_executable(".git/hooks/pre-commit", "#!/bin/sh\necho ran >>ran\n");
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let args = ["commit", "-m", "message"];
    ended_with_an_error(&shim, &shim.run(&repo, &args), &args);
    assert_eq!(repo.read("ran"), "ran\n");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, head);
    assert!(!repo.exists(".git/index.lock"));
}

/// Git repeats a warning.
#[test]
fn a_message_is_no_result() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    hold_a_name_twice(&repo);
    repo.git(&["tag", "twice"]);
    let args = ["reset", "-q", "--hard", "twice"];
    let run = shim.run(&repo, &args);
    assert!(run.stderr.starts_with_str("warning: refname 'twice' is ambiguous.\n"), "{}", run.stderr);
    assert!(!run.stderr.contains_str("are not supported yet"), "{}", run.stderr);
    shim.was_handed_over(&args, "hold a name twice");
}

/// Objects that a partial clone fetches to read them are where Git expects them.
#[test]
fn fetched_objects_are_no_change() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    hold_a_name_twice(&repo);
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", repo.path.display());
    let clone = sandbox.path().join("clone").into_os_string().into_string().expect("a plain name");
    repo.git(&["clone", "-q", "--filter=tree:0", "--no-checkout", &url, &clone]);
    let clone = sandbox.repo("clone");
    let packs = || -> Vec<PathBuf> {
        let names = fs::read_dir(clone.join(".git/objects/pack")).expect("a repository");
        names.map(|name| name.expect("readable").path()).collect()
    };
    let before = packs().len();
    let args = ["reset", "-q", "--hard", "twice"];
    clone.git(&["branch", "twice", "origin/twice"]);
    let mut command = shim.command(&clone);
    // The real Git cannot be found, so the handover is an error, and only sapwood has fetched.
    command.env("SAPWOOD_GIT", "/nowhere").args(args);
    let run = finished(&mut command);
    assert!(run.stderr.contains_str("SAPWOOD_GIT names '/nowhere'"), "{}", run.stderr);
    assert!(packs().len() > before, "it has fetched the tree");
}
