//! Runs `lab weather` on a small tree: it takes, counts and reports each sample, and lists the
//! targets that it could not measure.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use small::Small;
use testkit::{Sandbox, weather};

#[test]
fn a_small_tree_on_a_network_mount() {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 40, 7);
    let record = small.record();
    let args =
        ["weather", "--on", "nfs", "--tool", "git-1", "--tool", "git-2", "--runs", "1", "--files", "10"];
    // The test measures only Git, so sapwood can be a stand-in.
    let mut lab = small.lab(&args, "--tree", "/bin/true");
    let output = lab.args(["--check", "--note=A test."]).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    // Exit code 2: some targets were not measured.
    assert_eq!(output.status.code(), Some(2), "{said}{errors}");
    assert!(said.contains("small: 40 files in 7 directories, 6 in the fullest (Spread)"), "{said}{errors}");
    for case in ["clone", "full", "switch-10"] {
        for tool in ["git-1", "git-2"] {
            let line = said.lines().find(|line| line.contains(case) && line.contains(tool));
            assert!(
                line.is_some_and(|line| line.starts_with("small      nfs")),
                "{case} {tool}: {said}{errors}"
            );
        }
    }
    assert!(said.contains("not measured small, full on nfs"), "{said}{errors}");
    let record = std::fs::read(&record).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(record["kind"], "weather", "{record:#}");
    assert_eq!(record["notes"], serde_json::json!(["A test."]), "{record:#}");
    assert!(record["machine"]["cores"].as_u64() > Some(0), "{record:#}");
    assert!(record["versions"]["git"].as_str().is_some_and(|git| git.contains("git version")), "{record:#}");
    let command = record["command"].as_str().expect("a text");
    assert!(command.starts_with("just weather --on nfs --tool git-1"), "{command}");
    assert!(!command.contains("--record") && !command.contains("--note"), "{command}");
    let cases = record["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 3, "{record:#}");
    for case in cases {
        assert!(case["at_most"]["git"].as_f64().is_some(), "{case:#}");
        for figure in case["tools"].as_array().expect("a list") {
            for sample in figure["samples"].as_array().expect("a list") {
                assert!(sample["operations"].as_u64() > Some(20), "{case:#}");
                // At least ten requests are sequential, and each takes a millisecond.
                assert!(sample["wall"].as_f64() > Some(0.01), "{case:#}");
            }
        }
    }
}
