//! The script of the README, run as an ordinary user.

use std::{fs, path::Path, process::Command};

use testkit::{
    Sandbox,
    disk::{NoMountsBelow, as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
};

use crate::SAPWOOD;

/// Returns the shell script in the section of the README with this title.
pub(crate) fn script(title: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(path).expect("the README");
    let (_, section) = text.split_once(title).expect("a section with this title");
    let (_, code) = section.split_once("```sh\n").expect("a script");
    code.split_once("```").expect("the end of the script").0.to_owned()
}

#[test]
fn the_life_of_an_agent_runs_as_written() {
    let script = script("## A worktree for each agent");
    assert!(script.lines().count() <= 20);
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("file", "content\n");
    repo.commit("one");
    fs::create_dir(sandbox.path().join("bin")).expect("a directory");
    let programs = sandbox.path().join("bin");
    fs::copy(SAPWOOD, programs.join("sapwood")).expect("a copy");
    give_to_ordinary_user(&sandbox.path());
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    if ![&programs, Path::new(&git)].into_iter().all(ordinary_user_reaches) {
        println!("skipped: an ordinary user cannot reach the programs");
        return;
    }
    let mut shell = repo.command(Path::new("sh"));
    let path = std::env::var("PATH").unwrap_or_default();
    let git = Path::new(&git).parent().expect("a program in a directory");
    shell.env("PATH", format!("{}:{}:{path}", programs.display(), git.display()));
    let output = as_ordinary_user(shell.args(["-exc", &script])).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("Add a greeting"), "{out}{err}");
    assert!(out.ends_with("hello\n"), "{out}{err}");
    let left = Command::new(SAPWOOD).arg("-C").arg(&repo.path).args(["workspace", "list"]).output();
    assert!(left.expect("a list").stdout.is_empty(), "the workspaces are removed");
}
