//! Runs `lab ci` on a small tree: it makes the clone of the job before, verifies each worktree, and
//! writes a record.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use small::Small;
use testkit::{Sandbox, weather};

#[test]
fn jobs_on_a_small_tree() {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 30, 4);
    let lab = |args: &[&str]| {
        let common = ["ci", "--on", "nfs", "--over", "https", "--runs", "1"];
        let output = small.lab(&[&common, args].concat(), "--tree", "/bin/true").output();
        let output = output.expect("it can be run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (code, said) = lab(&["--tool", "git"]);
    assert_eq!(code, Some(0), "{said}");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(small.record()).expect("it was written")).expect("JSON");
    assert_eq!(record["kind"], "ci", "{record:#}");
    let cases = record["cases"].as_array().expect("a list");
    let names: Vec<_> = cases.iter().map(|case| case["case"].as_str().expect("a text")).collect();
    assert_eq!(names, ["new-https", "next-https", "again-https"], "{record:#}");
    for case in cases {
        let served = case["tools"][0]["samples"][0]["served"].as_str().expect("a text");
        let bytes = served.split(" bytes from the server").next().expect("it counts");
        assert!(bytes.parse::<u64>().is_ok_and(|bytes| bytes > 100), "{case:#}");
    }
    // The stand-in makes no worktree, and leaves the files of the earlier job.
    for (case, reason) in [("new", "failed"), ("next", "Sapwood left the tree dirty")] {
        let (code, said) = lab(&["--tool", "sapwood", "--case", case]);
        assert!(code == Some(1) && said.contains(reason), "{case}: {said}");
    }
}
