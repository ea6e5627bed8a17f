//! Runs `lab measure`: it refuses what spoils figures, and measures tables within their time.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{fs, path::PathBuf, process::Command};

use testkit::{Repo, Sandbox};

/// A repository that stands for the sources, and a stand-in for sapwood.
struct Sources<'s> {
    sandbox: &'s Sandbox,
    repo: Repo<'s>,
}

impl<'s> Sources<'s> {
    fn new(sandbox: &'s Sandbox) -> Sources<'s> {
        let repo = sandbox.init("sources");
        for number in 0..40 {
            repo.write(format!("dir{}/file{number}", number % 5), format!("{number}\n"));
        }
        repo.commit("all of it");
        Sources { sandbox, repo }
    }

    fn head(&self) -> String {
        String::from_utf8_lossy(&self.repo.git(&["rev-parse", "HEAD"]).stdout).trim().to_owned()
    }

    /// Makes a program that answers `--version` like this, and otherwise is Git.
    fn program(&self, build: &str) -> PathBuf {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".into());
        let path = self.sandbox.path().join("sapwood");
        let script = format!(
            "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 'sapwood version 0.1.0{build}'\nexec '{git}' \"$@\"\n"
        );
        testkit::write_program(&path, script);
        path
    }

    /// Runs `lab measure` on a program with this build. Returns its exit code and output.
    fn measure(&self, build: &str, args: &[&str]) -> (Option<i32>, String) {
        let mut lab = self.repo.command(env!("CARGO_BIN_EXE_lab").as_ref());
        lab.arg("measure").args(args).args(["--patience", "0"]);
        lab.arg("--git").arg(std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into()));
        lab.arg("--sapwood").arg(self.program(build)).arg("--sources").arg(&self.repo.path);
        lab.arg("--slow-tree")
            .arg(&self.repo.path)
            .arg("--tree")
            .arg(&self.repo.path)
            .args(["--old", "HEAD"]);
        lab.arg("--docs").arg(self.sandbox.path().join("docs"));
        lab.env("CARGO_TARGET_DIR", self.sandbox.path().join("target"));
        said(lab)
    }

    fn record(&self, name: &str) -> PathBuf {
        self.sandbox.path().join(format!("target/lab/measured/measurements/{name}.json"))
    }
}

fn said(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("it can be run");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn a_program_of_unknown_sources_is_refused() {
    let sandbox = Sandbox::new();
    let sources = Sources::new(&sandbox);
    let head = sources.head();
    for (build, reason) in [
        (String::new(), "names no commit"),
        (" (x86_64-unknown-linux-gnu)".into(), "names no commit"),
        (format!(" ({}-dirty, x86_64-unknown-linux-gnu)", &head[..12]), "changed sources"),
    ] {
        let (code, said) = sources.measure(&build, &["--anyway", "--table", "memory"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(reason), "{build}: {said}");
        assert!(!sources.record("memory").exists(), "{said}");
    }
}

#[test]
fn a_changed_tree_and_another_commit_are_refused() {
    let sandbox = Sandbox::new();
    let sources = Sources::new(&sandbox);
    let build = format!(" ({}, x86_64-unknown-linux-gnu)", &sources.head()[..12]);
    sources.repo.write("new", "untracked\n");
    let (code, said) = sources.measure(&build, &["--table", "memory"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`?? new`; --anyway measures"), "{said}");
    sources.repo.commit("another one");
    let (code, said) = sources.measure(&build, &["--table", "memory"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("build it again"), "{said}");
    let (code, said) = sources.measure(&build, &["--table", "no-such-table", "--anyway"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("small, status, status-slow, checkout"), "{said}");
}

#[test]
fn a_table_has_a_record_of_its_build_and_load() {
    let sandbox = Sandbox::new();
    let sources = Sources::new(&sandbox);
    sources.repo.write("dir0/file0", "other\n");
    sources.repo.commit("another one");
    let commit = sources.head()[..12].to_owned();
    let (code, said) = sources.measure(
        &format!(" ({commit}, x86_64-unknown-linux-gnu)"),
        &["--table", "memory", "--anyway", "--minutes", "20"],
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("memory: complete") && said.contains("replaces no records"), "{said}");
    let record = fs::read(sources.record("memory")).expect("it was written");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let version = record["versions"]["sapwood"].as_str().expect("a version");
    assert_eq!(version, format!("sapwood version 0.1.0, commit {commit}"));
    assert!(record["versions"]["git"].is_string() && record["machine"]["kernel"].is_string(), "{record:#}");
    assert_eq!(record["load"].as_array().map(Vec::len), Some(2), "{record:#}");
    assert_eq!(record["notes"][0], "`just measure` made this record.", "{record:#}");
    assert!(!sandbox.path().join("docs").exists(), "a part replaces no records");
}

#[test]
fn a_table_whose_time_is_over_gives_way_to_the_next() {
    let sandbox = Sandbox::new();
    let sources = Sources::new(&sandbox);
    let build = format!(" ({}, x86_64-unknown-linux-gnu)", &sources.head()[..12]);
    let (_, said) =
        sources.measure(&build, &["--table", "small", "--table", "memory", "--anyway", "--minutes", "0.05"]);
    for name in ["small", "memory"] {
        let ends = ["its time was over", "it was ended after"];
        let is_named = ends
            .iter()
            .any(|end| said.lines().any(|line| line.starts_with(&format!("{name}: ")) && line.contains(end)));
        assert!(is_named, "{name}: {said}");
    }
}
