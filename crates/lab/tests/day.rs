//! Runs a short `lab day` in a small repository: the shim must give Git's results for all callers,
//! including concurrent ones.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{path::Path, process::Command};

#[test]
fn a_short_day() {
    let lab = Path::new(env!("CARGO_BIN_EXE_lab"));
    let sapwood = lab.with_file_name("sapwood");
    // Outputs are compared, so the test needs the Git version whose output sapwood reproduces.
    let Some(git) = std::env::var_os("SAPWOOD_TEST_GIT").filter(|_| sapwood.exists()) else {
        println!("skipped: no SAPWOOD_TEST_GIT, or no {}", sapwood.display());
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory for tests");
    let record = scratch.path().join("day.json");
    let output = Command::new(lab)
        .args([
            "day",
            "--made",
            "300",
            "--commands",
            "140",
            "--agents",
            "4",
            "--worktrees",
            "1",
            "--runs",
            "1",
        ])
        .arg("--sapwood")
        .arg(sapwood)
        .arg("--git")
        .arg(git)
        .arg("--scratch")
        .arg(scratch.path())
        .arg("--record")
        .arg(&record)
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("all of these"), "{said}{errors}");
    println!("{said}");
    let record = std::fs::read(&record).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let all = &record["cases"][0];
    assert_eq!(all["case"], "all", "{record:#}");
    let [calls, native] = [0, 1].map(|at| all["calls"][at].as_u64().expect("a number"));
    assert!(native > 0 && native <= calls, "{all:#}");
}
