//! Runs `lab agents` in its quick form: agents at once, in workspaces and in worktrees of Git, end
//! with the same files.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{path::Path, process::Command};

#[test]
fn a_few_agents_at_once() {
    let lab = Path::new(env!("CARGO_BIN_EXE_lab"));
    let sapwood = lab.with_file_name("sapwood");
    let Some(git) = std::env::var_os("SAPWOOD_TEST_GIT").filter(|_| sapwood.exists()) else {
        println!("skipped: no SAPWOOD_TEST_GIT, or no {}", sapwood.display());
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory for tests");
    let mount = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(scratch.path()).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: only root may mount");
        return;
    }
    let unmounted = Command::new("umount").arg(scratch.path()).status().expect("it can be run");
    assert!(unmounted.success());
    let record = scratch.path().join("agents.json");
    let mut command = Command::new(lab);
    command.args(["agents", "--quick", "--runs", "2"]);
    command.arg("--sapwood").arg(&sapwood).arg("--git").arg(git);
    command.arg("--scratch").arg(scratch.path().join("scratch")).arg("--record").arg(&record);
    command.env("CARGO_TARGET_DIR", scratch.path().join("target"));
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    let record = std::fs::read(&record).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(record["kind"], "agents");
    let cases = record["cases"].as_array().expect("a list");
    let names: Vec<&str> = cases.iter().filter_map(|case| case["case"].as_str()).collect();
    assert_eq!(names, ["all", "create", "checkpoint", "commit", "land"], "{record:#}");
    for case in cases {
        for tool in ["sapwood", "git-2"] {
            let figures = case["tools"].as_array().expect("a list");
            let figure = figures.iter().find(|figure| figure["tool"] == tool).expect("it was measured");
            let samples = figure["samples"].as_array().expect("a list");
            assert_eq!(samples.len(), 2, "{tool}: {case:#}");
            for sample in samples {
                assert!(sample["waits"].is_u64() && sample["wall"].as_f64() > Some(0.0), "{tool}: {case:#}");
                assert!(case["case"] != "all" || sample["disk"].as_i64() > Some(100), "{tool}: {case:#}");
            }
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("a file of the kernel");
    assert!(!mounts.contains(&scratch.path().display().to_string()), "{mounts}");
}
