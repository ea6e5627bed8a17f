//! Runs `lab workspace` with Git alone on a small tree: it takes each step, compares the answers,
//! and records bytes beside times.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::path::Path;

use testkit::Sandbox;

#[test]
fn a_small_tree_with_git_alone() {
    let sandbox = Sandbox::new();
    let mount = sandbox.path().to_owned();
    let usable = std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&mount).output();
    if !usable.is_ok_and(|output| output.status.success()) {
        println!("skipped: only root may mount");
        return;
    }
    let unmounted = std::process::Command::new("umount").arg(&mount).status().expect("it can be run");
    assert!(unmounted.success());
    let repo = sandbox.init("small");
    for number in 0..40 {
        repo.write(format!("dir{}/file{number}", number % 7), format!("{number}\n"));
    }
    repo.commit("some of it");
    for number in 0..10 {
        repo.write(format!("more/file{number}"), format!("{number}\n"));
    }
    repo.commit("all of it");
    let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    // Git's steps need no workspace, but the answers of both programs are compared.
    let stand_in = sandbox.path().join("sapwood");
    std::os::unix::fs::symlink(&git, &stand_in).expect("a new name");
    let record = sandbox.path().join("records/workspace.json");
    let output = repo
        .command(Path::new(env!("CARGO_BIN_EXE_lab")))
        .args(["workspace", "--only-peers", "--peer", "git", "--git-workers", "2,1", "--runs", "2"])
        .args(["--repeats", "2", "--old", "HEAD~1"])
        .arg("--repo")
        .arg(&repo.path)
        .arg("--git")
        .arg(&git)
        .arg("--sapwood")
        .arg(&stand_in)
        .arg("--scratch")
        .arg(sandbox.path().join("scratch"))
        .arg("--record")
        .arg(&record)
        .env("CARGO_TARGET_DIR", sandbox.path().join("target"))
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    let record = std::fs::read(&record).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let cases = record["cases"].as_array().expect("a list");
    let samples = |case: &str, tool: &str| {
        let case = cases.iter().find(|of| of["case"] == case).expect("it was measured");
        let figure = case["tools"].as_array().expect("a list").iter().find(|of| of["tool"] == tool);
        figure.expect("it was measured")["samples"].as_array().expect("a list").clone()
    };
    // Two worktrees in each of two runs; the other number of workers makes one.
    assert_eq!(samples("create", "git-2").len(), 4, "{record:#}");
    assert_eq!(samples("create", "git-1").len(), 2, "{record:#}");
    assert_eq!(samples("git-status-0", "git-2").len(), 4, "{record:#}");
    assert_eq!(samples("status-10", "git-2").len(), 4, "{record:#}");
    assert_eq!(samples("remove", "git-2").len(), 2, "{record:#}");
    for sample in samples("create", "git-2") {
        assert!(sample["disk"].as_i64() > Some(100), "{sample:#}");
    }
    assert_eq!(samples("build-20000", "git-2").len(), 2, "{record:#}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("a file of the kernel");
    let scratch = sandbox.path().join("scratch").display().to_string();
    assert!(!mounts.contains(&scratch), "{mounts}");
}
