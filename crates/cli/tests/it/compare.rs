//! `try`: the repository is only read, and the table is complete.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde_json::Value;
use testkit::{Repo, Run, Sandbox};

use crate::SAPWOOD;

/// Content, mode, times and number of links of each entry.
fn everything(dir: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let stat = path.symlink_metadata().expect("an entry");
        let content = match stat.is_file() {
            true => format!("{:?}", fs::read(&path).expect("a file")),
            false => String::new(),
        };
        let facts =
            (stat.mode(), stat.nlink(), stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.ctime_nsec());
        if stat.is_dir() {
            everything(&path, found);
        }
        found.insert(path, format!("{facts:?} {content}"));
    }
}

fn state(repo: &Repo<'_>) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    everything(&repo.path, &mut found);
    found
}

fn compare(repo: &Repo<'_>, temporary: &Path, args: &[&str]) -> Run {
    let mut command = repo.command(Path::new(SAPWOOD));
    let output = command.env("TMPDIR", temporary).arg("try").args(args).output().expect("the program");
    Run {
        code: output.status.code().expect("no signal"),
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
    }
}

fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for commit in 0..7 {
        for file in 0..30 {
            repo.write(format!("dir{}/file{file}", file % 4), format!("{}\n", file * commit));
        }
        repo.commit("again");
    }
    repo
}

#[test]
fn nothing_in_the_repository_changes() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let temporary = sandbox.path().join("temporary");
    fs::create_dir(&temporary).expect("a new directory");
    // The stat data of the index are old, a file is changed, and one is untracked.
    for script in [
        "true",
        "touch dir0/file0; echo x >dir1/file1; echo y >new",
        "git config core.untrackedCache true; git config feature.manyFiles true; git status >/dev/null",
        "git config core.hooksPath \"$PWD/hooks\"; mkdir hooks; \
         for hook in post-checkout post-index-change; do echo 'touch ../ran' >hooks/$hook; chmod +x hooks/$hook; done",
        "git checkout -q --force --detach HEAD~3",
        "git worktree add -q ../linked",
        "printf '#!/bin/sh\\ntouch ../ran\\n' >hooks/monitor; chmod +x hooks/monitor; \
         git config core.fsmonitor hooks/monitor",
    ] {
        let shell = repo.command("sh".as_ref()).args(["-ec", script]).status().expect("a shell");
        assert!(shell.success(), "{script}");
        drop(fs::remove_file(sandbox.path().join("ran")));
        let before = state(&repo);
        let run = compare(&repo, &temporary, &["--rounds=1", "--json"]);
        assert_eq!(run.code, 0, "{script}: {}", run.stderr);
        assert_eq!(state(&repo), before, "{script}");
        assert_eq!(fs::read_dir(&temporary).expect("a directory").count(), 0, "{script}");
        assert!(!sandbox.path().join("ran").exists(), "{script}: a hook ran");
    }
    let linked = sandbox.repo("linked");
    let before = state(&repo);
    assert_eq!(compare(&linked, &temporary, &["--rounds=1"]).code, 0);
    assert_eq!(state(&repo), before, "from a linked worktree");
}

#[test]
fn the_table_and_the_document_are_complete() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let run = compare(&repo, &sandbox.path(), &["--json", "--rounds", "2"]);
    let document: Value = serde_json::from_slice(&run.stdout).expect("a document");
    assert_eq!((document["version"].as_u64(), document["entries"].as_u64()), (Some(1), Some(30)));
    assert_eq!(document["leftOut"], Value::Null);
    let rows = document["rows"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["command"].as_str()).collect();
    assert_eq!(names, ["status", "clone", "switch"]);
    for row in rows {
        assert_eq!(row["agrees"], true);
        for side in ["git", "sapwood"] {
            let times = row[side].as_array().expect("times");
            assert!(times.len() == 2 && times.iter().all(|time| time.as_f64() > Some(0.0)), "{row}");
        }
    }
    let run = compare(&repo, &sandbox.path(), &["--rounds=1"]);
    let text = run.stdout.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].contains("git ") && lines[0].ends_with("sapwood"), "{text}");
    assert!(lines[4].starts_with("In this repository of 30 files, "), "{text}");
    assert!(lines[4].ends_with(" for status, clone, switch."), "{text}");
}

/// A clone of a partial or sparse repository would fetch, or write files that the user left out.
#[test]
fn some_repositories_have_only_their_status_measured() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.git(&["sparse-checkout", "set", "dir1"]);
    let run = compare(&repo, &sandbox.path(), &["--rounds=1"]);
    assert!(
        run.stdout
            .to_string()
            .ends_with("not measured: the checkout is sparse, and a clone would write all files.\n")
    );
    repo.git(&["config", "remote.origin.promisor", "true"]);
    let run = compare(&repo, &sandbox.path(), &["--rounds=1"]);
    assert!(run.stdout.to_string().contains("partial clone"), "{}", run.stdout);
    for (args, reason) in [
        (&["--rounds=0"][..], "--rounds needs a number above zero"),
        (&["x"], "try takes no arguments"),
        (&["--dir=/nowhere", "--rounds=1"], "/nowhere"),
    ] {
        let plain = sandbox.init(&format!("other{}", args[0].len()));
        plain.write("a", "1\n");
        plain.commit("one");
        let run = compare(&plain, &sandbox.path(), args);
        assert!(run.code == 128 && run.stderr.to_string().contains(reason), "{args:?}: {}", run.stderr);
    }
    let bare = sandbox.repo("");
    bare.git(&["init", "-q", "--bare", "bare"]);
    assert_eq!(compare(&sandbox.repo("bare"), &sandbox.path(), &[]).code, 128);
}
