//! The referee with scripts of Git's own suite, real git on both sides: nothing may differ.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Returns Git's built source and its git: those in `SAPWOOD_TEST_SUITE` and `SAPWOOD_TEST_GIT`, or
/// those of `.ci/oracle`. Returns `None`, and prints the reason, if they are missing.
fn suite() -> Option<(PathBuf, PathBuf)> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracle");
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let source = named("SAPWOOD_TEST_SUITE").unwrap_or_else(|| oracle.join("source"));
    let git = named("SAPWOOD_TEST_GIT").unwrap_or_else(|| oracle.join("bin/git"));
    if source.join("t/helper/test-tool").exists() && git.exists() {
        return Some((source, git));
    }
    println!("skipped: no built source of Git at {}", source.display());
    None
}

fn referee(dir: &Path, source: &Path, git: &Path, shim: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_referee"));
    for (option, path) in [("--source", source), ("--git", git), ("--shim", shim), ("--scratch", dir)] {
        command.arg(option).arg(path);
    }
    command.arg("--json").arg(dir.join("found.json")).arg("--report").arg(dir.join("found.md")).args(more);
    command.output().expect("the referee can be run")
}

fn found(dir: &Path) -> serde_json::Value {
    let text = fs::read(dir.join("found.json")).expect("it was written");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn git_differs_in_nothing_from_itself() {
    let Some((source, git)) = suite() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    // t2006 does not count workers; t2080 does, through the replaced probe.
    let scripts = ["t2006", "t2080", "--workers", "2", "--jobs", "2"];
    let output = referee(dir.path(), &source, &git, &git, &scripts);
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));

    let found = found(dir.path());
    assert_eq!(found["differences"], serde_json::json!([]));
    let scripts = found["scripts"].as_array().expect("a list");
    let passed = |script: &serde_json::Value| script["git"]["passed"].as_u64().expect("a number");
    let all: u64 = scripts.iter().map(passed).sum();
    assert!(passed(&scripts[0]) >= 5 && passed(&scripts[1]) >= 5, "{found:#}");
    let skipped: u64 = scripts.iter().filter_map(|script| script["git"]["skipped"].as_u64()).sum();
    let last = format!("{all} passed, 0 failed, {skipped} skipped");
    assert_eq!(said.lines().last(), Some(&*last), "{found:#}");
    for script in scripts {
        assert_eq!(script["git"]["whole"], true);
        for run in script["shim"].as_array().expect("a list") {
            assert_eq!(run["counts"]["passed"], script["git"]["passed"]);
            assert_eq!(run["counts"]["whole"], true);
        }
    }
    let report = fs::read_to_string(dir.path().join("found.md")).expect("it was written");
    assert!(report.contains("## Cases that differ\n\nNone.\n"), "{report}");
}

#[test]
fn a_git_that_errs_is_found_out() {
    let Some((source, git)) = suite() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let shim = dir.path().join("shim");
    // A program that fails one command. It logs its calls and lists its native commands, as the
    // shim does.
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in 'help --native') echo checkout-index; exit ;; esac\n\
         echo '{{\"command\":\"'\"$1\"'\",\"outcome\":\"native\"}}' >>\"$SAPWOOD_SHIM_LOG\"\n\
         case $1 in checkout-index) exit 7 ;; esac\nexec '{}' \"$@\"\n",
        git.display()
    );
    testkit::write_program(&shim, text);
    let output = referee(dir.path(), &source, &git, &shim, &["t2006"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));

    let found = found(dir.path());
    let failed = found["totals"][0]["failed"].as_u64().expect("a number");
    assert!(failed > 5, "{found:#}");
    assert_eq!(found["differences"].as_array().map(Vec::len), usize::try_from(failed).ok());
    assert_eq!(found["differences"][0]["script"], "t2006-checkout-index-basic");
    let native = found["commands"]["checkout-index"]["native"].as_u64().expect("a number");
    assert!(native > 5, "{found:#}");
    assert_eq!(found["commands"]["init"], serde_json::Value::Null, "only what sapwood serves is counted");
}

#[test]
fn what_cannot_be_run_is_said() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = referee(dir.path(), dir.path(), "/bin/true".as_ref(), "/bin/true".as_ref(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is not Git's source, built with its test helpers"), "{said}");
}
