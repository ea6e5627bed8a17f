//! Runs `lab small`, `lab scale` and `lab memory` on repositories of some dozens of files: each
//! table has its rows.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod small;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use small::Small;
use testkit::Sandbox;

fn finished(mut command: Command) -> Output {
    let output = command.output().expect("it can be run");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    output
}

fn record(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("JSON")
}

/// Returns the cases with figures of both programs.
fn rows(record: &serde_json::Value) -> Vec<[String; 3]> {
    let cases = record["cases"].as_array().expect("a list");
    let both = cases.iter().filter(|case| {
        let tools: Vec<_> = case["tools"].as_array().expect("a list").iter().map(|of| &of["tool"]).collect();
        tools == ["git", "sapwood"]
    });
    both.map(|case| ["tree", "disk", "case"].map(|name| case[name].as_str().expect("a name").to_owned()))
        .collect()
}

#[test]
fn small_has_sixty_rows_and_the_sums() {
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 3, 1);
    let mut args = vec!["small", "--files", "12", "--runs", "1"];
    let is_counted = Command::new("strace").arg("-V").output().is_ok();
    if !is_counted {
        args.push("--no-counts");
    }
    finished(small.without_repo(&args, "git"));
    let record = record(&small.record());
    let rows = rows(&record);
    assert_eq!(rows.len(), 63, "{rows:?}");
    for caller in ["editor", "prompt", "agent"] {
        assert_eq!(rows.iter().filter(|[_, disk, _]| disk == caller).count(), 21, "{rows:?}");
    }
    let sum = record["cases"].as_array().expect("a list").iter().find(|case| case["case"] == "all");
    let sample = &sum.expect("a sum")["tools"][1]["samples"][0];
    assert!(sample["faults"].as_u64() > Some(1000), "{sample}");
    assert!(!is_counted || sample["calls"].as_u64() > Some(500), "{sample}");
}

#[test]
fn scale_has_its_rows_and_exponents() {
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 3, 1);
    let output = finished(small.without_repo(&["scale", "--files", "60,400", "--runs", "1"], "git"));
    let rows = rows(&record(&small.record()));
    for tree in ["deep-60", "deep-400"] {
        for case in ["status", "switch-100", "add-10", "commit-10", "sparse"] {
            assert!(rows.contains(&[tree, "local", case].map(str::to_owned)), "{tree} {case}: {rows:?}");
        }
    }
    // The stand-in for sapwood is Git, which has no workspaces.
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("60 files: workspace: "), "{errors}");
    let docs = sandbox.path().join("docs");
    fs::create_dir_all(docs.join("measurements")).expect("a new directory");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measurements");
    for entry in fs::read_dir(committed).expect("a directory").flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "json") {
            fs::copy(entry.path(), docs.join("measurements").join(entry.file_name())).expect("a copy");
        }
    }
    fs::copy(small.record(), docs.join("measurements/scale.json")).expect("a copy");
    let mut report = Command::new(env!("CARGO_BIN_EXE_lab"));
    report.arg("report").arg(&docs);
    finished(report);
    let page = fs::read_to_string(docs.join("measurements.md")).expect("a page");
    let (_, section) = page.split_once("## Cost against the number of files").expect("a section");
    assert!(section.contains("Exponent of the cost against the number of files:"), "{section}");
    assert!(section.contains("| `commit`, 10 files |"), "{section}");
    assert!(section.contains("(measurements/scale.svg)"), "{section}");
    let chart = fs::read_to_string(docs.join("measurements/scale.svg")).expect("a chart");
    assert!(chart.contains("status") && chart.contains("sparse checkout of 2%"), "{chart}");
}

#[test]
fn memory_has_a_row_for_each_command() {
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 40, 5);
    small.repo.write("dir0/file0", "other\n");
    small.repo.commit("another one");
    let output = finished(small.lab(&["memory", "--old", "HEAD~1", "--new", "HEAD"], "--repo", "git"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("cannot run here"), "{said}");
    let record = record(&small.record());
    let rows = rows(&record);
    assert!(rows.len() > 60, "{rows:?}");
    for command in ["status", "clone", "stash pop", "worktree move", "index-pack"] {
        assert!(rows.iter().any(|[_, _, case]| case == command), "{command}: {rows:?}");
    }
    let sample = &record["cases"][0]["tools"][0]["samples"][0];
    // The lab itself has 8 MB; Git's status of 40 files has less.
    assert!((500..8000).contains(&sample["peak_rss"].as_u64().expect("a number")), "{sample}");
}

#[test]
fn no_native_command_lacks_a_call() {
    let sapwood = Path::new(env!("CARGO_BIN_EXE_lab")).with_file_name("sapwood");
    if !sapwood.exists() {
        println!("skipped: no {}", sapwood.display());
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox, 40, 5);
    small.repo.write("dir0/file0", "other\n");
    small.repo.commit("another one");
    let sapwood = sapwood.display().to_string();
    let output = finished(small.lab(&["memory", "--old", "HEAD~1", "--new", "HEAD"], "--repo", &sapwood));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains("no call is known") && !said.contains("cannot run here"), "{said}");
}
