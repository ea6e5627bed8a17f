//! Runs `lab report`: the committed page and charts must match the committed records.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn report(docs: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lab")).arg("report").arg(docs).output().expect("it can be run")
}

/// Copies the committed records to a temporary directory for documents.
fn copy_of_records() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory for tests");
    fs::create_dir(copy.path().join("measurements")).expect("a new directory");
    for (name, content) in files(&docs()) {
        if name.ends_with(".json") {
            fs::write(copy.path().join(name), content).expect("a new file");
        }
    }
    copy
}

/// Reads the records, the page and the charts, with their names relative to `docs`.
fn files(docs: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for dir in ["", "measurements/"] {
        for entry in fs::read_dir(docs.join(dir)).expect("a directory") {
            let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
            if !dir.is_empty() || name.starts_with("measurements.") {
                let content = fs::read_to_string(docs.join(dir).join(&name)).expect("a file of text");
                files.insert(format!("{dir}{name}"), content);
            }
        }
    }
    files
}

#[test]
fn page_and_charts_are_those_of_the_records() {
    let copy = copy_of_records();
    let output = report(copy.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (made, committed) = (files(copy.path()), files(&docs()));
    assert_eq!(
        made.keys().collect::<Vec<_>>(),
        committed.keys().collect::<Vec<_>>(),
        "left: made by `lab report`; right: in docs"
    );
    for (name, content) in &made {
        assert!(
            *content == committed[name],
            "docs/{name} is not what `cargo run -p sapwood-lab -- report` writes"
        );
    }
    for chart in made.keys().filter(|name| name.starts_with("measurements/") && name.ends_with(".svg")) {
        assert!(made["measurements.md"].contains(&format!("({chart})")), "{chart} is on no page");
    }
}

#[test]
fn a_changed_figure_changes_page_and_chart() {
    let copy = copy_of_records();
    let record = copy.path().join("measurements/status.json");
    let text = fs::read_to_string(&record).expect("a record");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tools = value["cases"][0]["tools"].as_array_mut().expect("a list");
    let ours = tools.iter_mut().find(|figure| figure["tool"] == "sapwood").expect("sapwood was measured");
    let samples = serde_json::json!([{"wall": 7.001}, {"wall": 9.004}, {"wall": 8.002}]);
    *ours = serde_json::json!({"tool": "sapwood", "samples": samples});
    fs::write(&record, value.to_string()).expect("a file");
    let output = report(copy.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (made, committed) = (files(copy.path()), files(&docs()));
    assert!(made["measurements.md"].contains("| 8,002 (7,001 to 9,004) |"), "{}", made["measurements.md"]);
    // A record of several disks has a chart for each.
    let mut of_status = made.iter().filter(|(name, _)| name.starts_with("measurements/status"));
    assert!(of_status.any(|(name, chart)| name.ends_with(".svg") && *chart != committed[name]));
    assert!(made["measurements.svg"] != committed["measurements.svg"]);
}

#[test]
fn a_bad_record_is_named() {
    let copy = copy_of_records();
    fs::write(copy.path().join("measurements/weather.json"), "{\"kind\":\"rain\"}").expect("a file");
    let output = report(copy.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("measurements/weather.json: unknown variant `rain`"), "{errors}");
    fs::remove_file(copy.path().join("measurements/weather.json")).expect("it is there");
    let output = report(copy.path());
    assert!(output.status.success(), "the record alone was bad: {}", String::from_utf8_lossy(&output.stderr));
}

/// Replaces the samples of sapwood in the first case of the warm status, and those of Git by ones
/// with a spread, so that no figure of a record matters.
fn set_status(docs: &Path, walls: &[f64]) {
    let record = docs.join("measurements/status.json");
    let text = fs::read_to_string(&record).expect("a record");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tools = value["cases"][0]["tools"].as_array_mut().expect("a list");
    for (tool, walls) in [("sapwood", walls), ("git", &[0.137, 0.145, 0.200])] {
        let figure = tools.iter_mut().find(|figure| figure["tool"] == tool).expect("it was measured");
        let samples: Vec<_> = walls.iter().map(|wall| serde_json::json!({"wall": wall})).collect();
        *figure = serde_json::json!({"tool": tool, "samples": samples});
    }
    fs::write(&record, value.to_string()).expect("a file");
}

fn since(docs: &Path, since: &str) -> (Option<i32>, String) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    let output = lab.arg("report").arg(docs).arg("--since").arg(since).output().expect("it can be run");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_row_that_became_worse_is_named() {
    let (old, new) = (copy_of_records(), copy_of_records());
    let old_dir = old.path().display().to_string();
    let before = files(new.path());
    assert_eq!(since(new.path(), &old_dir).0, Some(0), "{}", since(new.path(), &old_dir).1);
    // Git's time has a spread of 137 to 200 ms, so sapwood's must exceed it.
    set_status(old.path(), &[0.078, 0.079, 0.080]);
    set_status(new.path(), &[0.080, 0.081, 0.084]);
    assert_eq!(since(new.path(), &old_dir).0, Some(0), "by 3% only");
    set_status(new.path(), &[0.180, 0.181, 0.184]);
    let (code, said) = since(new.path(), &old_dir);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("linux, local, `-unormal`: of git's time 0.54 to 1.25, +129%"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains('+')).count(), 1, "{said}");
    let written = files(new.path());
    assert_eq!(written.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "a page was written");
}

#[test]
fn a_commit_holds_the_older_records() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    for (name, content) in files(&docs()).into_iter().filter(|(name, _)| name.ends_with(".json")) {
        repo.write(format!("docs/{name}"), content);
    }
    repo.commit("records");
    let docs = repo.path.join("docs");
    assert_eq!(since(&docs, "HEAD").0, Some(0), "{}", since(&docs, "HEAD").1);
    // The committed record has one run of 679 ms.
    set_status(&docs, &[2.0, 2.1]);
    let (code, said) = since(&docs, "HEAD");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`-unormal`"), "{said}");
    let (code, said) = since(&docs, "no-such-commit");
    assert!(code != Some(0) && said.contains("no-such-commit"), "{said}");
}
