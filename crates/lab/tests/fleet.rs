//! Runs `lab fleet` on a small tree: each way takes, verifies and reports a sample on each host.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::path::Path;

use testkit::Sandbox;

#[test]
fn two_hosts_and_a_small_tree() {
    let sandbox = Sandbox::new();
    if !Path::new("/proc/self/ns/net").exists() || !is_root() {
        println!("skipped: only root makes network namespaces");
        return;
    }
    let repo = sandbox.init("small");
    for number in 0..250 {
        repo.write(format!("dir{}/file{number}", number % 4), format!("{number}\n"));
    }
    repo.commit("all of it");
    let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    let stand_in = sandbox.path().join("sapwood");
    std::os::unix::fs::symlink("/bin/true", &stand_in).expect("a new name");
    let record = sandbox.path().join("fleet.json");
    let output = repo
        .command(Path::new(env!("CARGO_BIN_EXE_lab")))
        .args(["fleet", "--hosts", "2", "--runs", "1", "--tree"])
        .arg(&repo.path)
        .args([
            "--peer", "clone", "--peer", "shallow", "--peer", "bundle", "--peer", "mirror", "--peer", "tar",
        ])
        .args([Path::new("--git"), Path::new(&git), Path::new("--sapwood"), &stand_in])
        .args([Path::new("--scratch"), &sandbox.path().join("scratch"), Path::new("--record"), &record])
        .env("CARGO_TARGET_DIR", sandbox.path().join("target"))
        .output()
        .expect("it can be run");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&record).expect("it was written")).expect("JSON");
    let cases = record["cases"].as_array().expect("a list");
    let names: Vec<_> = cases.iter().map(|case| (case["disk"].as_str(), case["case"].as_str())).collect();
    assert_eq!(names, [(Some("2 hosts"), Some("first")), (Some("2 hosts"), Some("next"))]);
    for case in cases {
        let tools = case["tools"].as_array().expect("a list");
        assert_eq!(tools.len(), 5, "{case:#}");
        for tool in tools {
            let samples = tool["samples"].as_array().expect("a list");
            assert_eq!(samples.len(), 2, "{tool:#}");
            for sample in samples {
                // The simulated line has 5 ms latency, and a clone waits for a response.
                assert!(sample["wall"].as_f64() > Some(0.02), "{tool:#}");
                assert!(sample["received"].as_u64() > Some(500), "{tool:#}");
            }
        }
    }
    let left = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux has a mount table");
    assert!(!left.contains(&sandbox.path().display().to_string()), "{left}");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
