//! Runs `lab clone` on a small tree: it takes, verifies and reports each sample, with the bytes of
//! the server and the time of the server alone.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use small::Small;
use testkit::{Sandbox, weather};

#[test]
fn a_small_tree_over_https() {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 30, 4);
    let lab = |args: &[&str]| {
        let common = ["clone", "--on", "nfs", "--over", "https", "--runs", "1", "--few-refs", "--check"];
        let output = small.lab(&[&common, args].concat(), "--tree", "/bin/true").output();
        let output = output.expect("it can be run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let cases = ["--case", "full", "--case", "fetch10", "--case", "nothing"];
    let (code, said) = lab(&[&cases[..], &["--tool", "git"]].concat());
    assert_eq!(code, Some(0), "{said}");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(small.record()).expect("it was written")).expect("JSON");
    assert_eq!(record["kind"], "clone", "{record:#}");
    let cases = record["cases"].as_array().expect("a list");
    let names: Vec<_> = cases.iter().map(|case| case["case"].as_str().expect("a text")).collect();
    assert_eq!(names, ["full-https", "fetch-10-https", "nothing-new-https"], "{record:#}");
    assert_eq!(cases[0]["at_most"]["git"], 0.15, "{record:#}");
    for case in cases {
        let tools = case["tools"].as_array().expect("a list");
        assert!(tools[0]["tool"].as_str().is_some_and(|tool| tool.starts_with("git-")), "{case:#}");
        let served = tools[0]["samples"][0]["served"].as_str().expect("a text");
        let bytes = served.split_once(" bytes from the server").expect("it counts").0;
        assert!(bytes.parse::<u64>().expect("a number") > 500, "{case:#}");
        assert_eq!(tools[1]["tool"], "server", "{case:#}");
        assert!(tools[1]["samples"][0]["wall"].as_f64() > Some(0.0), "{case:#}");
    }
    // The stand-in clones nothing, so its time does not count.
    let (code, said) = lab(&["--case", "full", "--tool", "sapwood"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`git status --porcelain` failed") || said.contains("wrote no files"), "{said}");
}
