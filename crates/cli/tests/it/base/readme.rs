//! The script of the README's section "For a fleet", with a shared directory in the place of the
//! bucket.

use std::{fs, path::Path};

use super::Fleet;
use crate::SAPWOOD;

/// Returns the shell script in the section of the README with this title.
fn script(title: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(path).expect("the README");
    let (_, section) = text.split_once(title).expect("a section with this title");
    let (_, code) = section.split_once("```sh\n").expect("a script");
    code.split_once("```").expect("the end of the script").0.to_owned()
}

#[test]
fn a_fleet_runs_as_written() {
    let script = script("## For a fleet");
    assert!(script.lines().count() <= 12);
    let fleet = Fleet::new();
    let programs = fleet.sandbox.path().join("bin");
    fs::create_dir(&programs).expect("a directory");
    fs::copy(SAPWOOD, programs.join("sapwood")).expect("a copy");
    // The address of the script leads to this machine.
    let script = script.replace("s3://ci-bases/app", &fleet.remote());
    assert!(script.contains(&fleet.remote()));
    let origin = fleet.origin();
    let mut shell = origin.command(Path::new("sh"));
    let path = std::env::var("PATH").unwrap_or_default();
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    let git = Path::new(&git).parent().expect("a program in a directory");
    shell.env("PATH", format!("{}:{}:{path}", programs.display(), git.display()));
    let output = shell.args(["-exc", &script]).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(fleet.stored("commits").len(), 1);
    assert!(out.ends_with("nothing to commit, working tree clean\n"), "{out}{err}");
}
