//! The examples: short programs that depend on this crate alone.

use std::path::{Path, PathBuf};

use testkit::{NoMountsBelow, Sandbox};

/// Returns the program of an example, which `cargo test` builds.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test program");
    let dir = test.parent().and_then(Path::parent).expect("the directory of the build");
    let program = dir.join("examples").join(name);
    assert!(program.exists(), "there is no '{}': cargo build -p sapwood --examples", program.display());
    program
}

#[test]
fn examples_are_short() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("an example");
        assert!(text.lines().count() <= 40, "{} has more than 40 lines", entry.path().display());
        let others = ["use engine", "use repo", "use store", "use format", "use sys"];
        assert!(!others.iter().any(|other| text.contains(other)), "{}", entry.path().display());
    }
}

#[test]
fn the_status_of_a_directory() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    repo.write("a", "22\n");
    repo.write("b", "");
    for (place, args) in
        [(&repo.path, &[][..]), (&sandbox.path(), &["repo"]), (&sandbox.path(), &["./repo/"])]
    {
        let run = sandbox.repo(place.to_str().expect("a plain name")).run(&program("status"), args);
        let expected = "a: index None, worktree Some(Modified)\nb: untracked\n";
        assert_eq!(run.stdout, expected, "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_commit_of_everything() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    let run = sandbox.repo("repo").run(&program("commit"), &[".", "first"]);
    assert_eq!(run.stdout, repo.git(&["rev-parse", "HEAD"]).stdout, "{}", run.stderr);
    assert_eq!(repo.git(&["status", "-s"]).stdout, "");
    let run = sandbox.repo("repo").run(&program("commit"), &[".", "second"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.to_string().contains("NothingToCommit"), "{}", run.stderr);
}

/// Plain Git sees the work of each agent, and of no other one.
#[test]
fn agents_in_workspaces() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    let run = sandbox.repo("repo").run(&program("agents"), &[".", "3"]);
    let paths = run.stdout.to_string();
    assert_eq!((run.stderr.to_string().as_str(), paths.lines().count()), ("", 3), "{paths}");
    for (number, path) in (1..).zip(paths.lines()) {
        let agent = sandbox.repo(path);
        let branch = format!("## agent-{number}\n");
        assert_eq!(agent.git(&["status", "--porcelain", "--branch"]).stdout, branch);
        let subjects = format!("work of agent-{number}\none\n");
        assert_eq!(repo.git(&["log", "--format=%s", &format!("agent-{number}")]).stdout, subjects);
        assert_eq!(agent.read("notes.txt"), format!("agent-{number} was here\n"));
        assert_eq!(agent.read("a"), "1\n");
    }
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(repo.git(&["fsck"]).stdout, "");
}
