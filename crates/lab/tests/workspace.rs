//! Runs `lab workspace` with Git alone on a small tree: it takes each step, compares the output of
//! both programs, and records bytes next to times.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use small::Small;
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
    let small = Small::new(&sandbox, 40, 7);
    for number in 0..10 {
        small.repo.write(format!("more/file{number}"), format!("{number}\n"));
    }
    small.repo.commit("more of it");
    let record = small.record();
    let args = ["workspace", "--only-peers", "--peer", "git", "--git-workers", "2,1", "--runs", "2"];
    // Git's steps need no workspace, but the output of both programs is compared.
    let mut lab = small.lab(&args, "--repo", "git");
    let output = lab.args(["--repeats", "2", "--old", "HEAD~1"]).output().expect("it can be run");
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
    // Two worktrees in each of two runs; with the other number of workers, one.
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
