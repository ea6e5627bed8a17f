//! Clones that write files while objects arrive have the same result as other clones, and as Git's.

use std::{
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, clone::tree};

/// Creates a source with attributes at several levels, symlinks, submodules, filters, and versions
/// that become deltas.
fn source(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("source");
    repo.git(&["config", "core.autocrlf", "false"]);
    for version in 0..3 {
        for number in 0..60 {
            let lines: String = (0..40).map(|line| format!("line {line} of {number}\n")).collect();
            repo.write(format!("d{}/e{number}/file.txt", number % 7), format!("{lines}version {version}\n"));
        }
        repo.write("top.txt", format!("{version}\n"));
        repo.commit("files");
    }
    repo.write(".gitattributes", "[attr]dos eol=crlf\n*.id ident\n*.smudged filter=twist\n");
    repo.write("d1/.gitattributes", "*.txt dos\n");
    repo.write("d1/e1/.gitattributes", "file.txt -text !eol\n");
    repo.write("d2/.gitattributes", "*.txt text working-tree-encoding=UTF-16LE\n");
    repo.write("deep/a/b/c/d.id", "$Id$\n");
    repo.write("x.smudged", "twist\n");
    repo.write("same/one", "same\n");
    repo.write("same/two", "same\n");
    repo.write("empty", "");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("top.txt", "link");
    repo.commit("attributes");
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let entry = format!("160000,{},sub", head.to_string().trim());
    repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repo.git(&["commit", "-q", "-m", "submodule"]);
    repo
}

/// Asserts that a clone is complete and equals another one.
#[track_caller]
fn assert_equal(sandbox: &Sandbox, ours: &str, theirs: &str) {
    let files = |name: &str| {
        let mut found = tree(&sandbox.path().join(name));
        found.retain(|path, _| path != ".git" && !path.starts_with(b".git/"));
        found
    };
    assert_eq!(files(ours), files(theirs), "{ours} {theirs}");
    let entries = |name: &str| sandbox.repo(name).git(&["ls-files", "--stage", "-t", "-v"]).stdout;
    assert_eq!(entries(ours), entries(theirs));
    let repo = sandbox.repo(ours);
    // Without a refresh: the index has the stat data of the files.
    assert_eq!(repo.git(&["diff-files", "--name-only"]).stdout, "");
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    assert!(!repo.exists(".git/sapwood-staging"));
    assert!(!repo.exists(".git/sapwood-clone"));
}

#[test]
fn a_pipelined_clone_is_the_plain_one() {
    let sandbox = Sandbox::new();
    let repo = source(&sandbox);
    let url = format!("file://{}", repo.path.display());
    let top = sandbox.repo("");
    top.git(&["clone", "-q", &url, "git"]);
    for (name, options) in [
        ("plain", &["-c", "sapwood.pipelinedClone=false"][..]),
        ("pipelined", &[]),
        ("shared", &["-c", "core.sharedRepository=group"]),
        ("shallow", &["--depth=1"]),
        ("delayed", &["-c", "checkout.workers=1"]),
    ] {
        let args = [&["clone", "-q"], options, &[&url, name]].concat();
        let run = top.run(Path::new(SAPWOOD), &args);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{name}");
        assert_equal(&sandbox, name, "git");
    }
}

#[test]
fn a_killed_pipelined_clone_is_finished_by_the_same_command() {
    let sandbox = Sandbox::new();
    let repo = source(&sandbox);
    let url = format!("file://{}", repo.path.display());
    let top = sandbox.repo("");
    top.git(&["clone", "-q", &url, "git"]);
    let args = ["clone", "-q", &url, "ours"];
    let started = Instant::now();
    assert_eq!(top.run(Path::new(SAPWOOD), &args).code, 0);
    let took = started.elapsed().min(Duration::from_secs(2));
    for part in [3, 5, 6, 7, 8, 9] {
        std::fs::remove_dir_all(sandbox.path().join("ours")).expect("removed");
        let mut command = top.command(Path::new(SAPWOOD));
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("started");
        thread::sleep(took * part / 10);
        let _ = child.kill();
        child.wait().expect("ended");
        // A clone without its marker is complete, whatever the exit status is.
        let git_dir = sandbox.path().join("ours/.git");
        if !git_dir.exists() || git_dir.join("sapwood-clone").exists() {
            let run = top.run(Path::new(SAPWOOD), &args);
            assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "killed at {part}/10");
        }
        assert_equal(&sandbox, "ours", "git");
    }
}
