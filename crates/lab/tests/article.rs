//! Runs `lab article` on a small tree with Git alone: cold and warm, local and on a slow disk,
//! plain and over unionfs-fuse.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use small::Small;
use testkit::{Sandbox, need_program};

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
    need_program("unionfs-fuse");
    need_program("strace");
    let small = Small::new(&sandbox, 40, 7);
    small.repo.write("more", "1\n");
    small.repo.commit("more");
    let record = small.record();
    let args = ["article", "--runs", "1", "--way", "plain", "--way", "unionfs", "--way", "unionfs-assumed"];
    let mut lab = small.lab(&args, "--repo", "git");
    let output = lab.args(["--old", "HEAD~1"]).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    let record = std::fs::read(&record).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let cases = record["cases"].as_array().expect("a list");
    for case in ["cold", "warm", "calls"] {
        for disk in ["local", "nfs"] {
            let found = cases.iter().find(|of| of["case"] == case && of["disk"] == disk);
            let tools = found.unwrap_or_else(|| panic!("{case}, {disk}: {record:#}"))["tools"].as_array();
            let tools: Vec<_> = tools.expect("a list").iter().map(|of| of["tool"].as_str()).collect();
            for tool in ["git", "sapwood", "unionfs", "unionfs-assumed"] {
                assert!(tools.contains(&Some(tool)), "{case}, {disk}, {tool}: {tools:?}");
            }
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("a file of the kernel");
    let scratch = sandbox.path().join("scratch").display().to_string();
    assert!(!mounts.contains(&scratch), "{mounts}");
}
