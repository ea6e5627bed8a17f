//! The branch of a push, and the remotes of a clone.

use std::{fs, path::Path};

use testkit::{Repo, Run};

use super::{Fleet, base, base_done, files_below};
use crate::SAPWOOD;

fn json(repo: &Repo<'_>, args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&base_done(repo, &[&["push", "--json"], args].concat())).expect("JSON")
}

#[test]
fn a_push_without_a_branch_sends_only_what_is_new() {
    let fleet = Fleet::new();
    let (origin, remote) = (fleet.origin(), fleet.remote());
    origin.git(&["switch", "-q", "--detach", "HEAD~1"]);
    let first = json(&origin, &["--no-mount", &remote]);
    assert!(first["contents"].as_u64() > Some(50), "{first}");
    assert!(fleet.stored("branches").is_empty(), "no branch has this tip");
    // An ancestor has a base; no record of a branch names it.
    let by_id = json(&origin, &["--no-mount", &remote, &fleet.commit("main")]);
    assert!(by_id["contents"].as_u64() < Some(4) && by_id["known"].as_u64() > Some(50), "{by_id}");
    assert_eq!(fleet.stored("branches").len(), 1, "main alone has this tip");
    // A runner's clone: detached, one commit deep, with the branch of the server.
    let runner = fleet.sandbox.repo("runner");
    let url = format!("file://{}", origin.path.display());
    origin.git(&["switch", "-q", "main"]);
    origin.write("file", "three\n");
    origin.commit("three");
    origin.git(&["clone", "-q", "--depth", "1", &url, runner.path.to_str().expect("plain")]);
    runner.git(&["switch", "-q", "--detach"]);
    let pushed = json(&runner, &["--no-mount", &remote]);
    assert_eq!(pushed["contents"], 1, "{pushed}");
    let list = base_done(&origin, &["list", &remote]);
    let newest = list.lines().find(|line| line.starts_with(&fleet.commit("main"))).expect("the base");
    assert!(newest.contains("main"), "{list}");
    // A new branch goes on from the bases of others.
    origin.git(&["switch", "-q", "-c", "feature"]);
    origin.write("file", "four\n");
    origin.commit("four");
    assert_eq!(json(&origin, &["--no-mount", &remote])["contents"], 1);
    // Two branches with this tip: the user decides.
    origin.git(&["branch", "feature2"]);
    origin.git(&["switch", "-q", "--detach"]);
    origin.write("file", "five\n");
    origin.commit("five");
    let run = base(&origin, &["push", "--no-mount", &remote]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.to_string().contains("name its branch with --branch"), "{}", run.stderr);
}

fn clone(fleet: &Fleet, name: &str, args: &[&str]) -> Run {
    let origin = fleet.origin();
    let url = format!("file://{}", origin.path.display());
    let dir = fleet.sandbox.path().join(name).display().to_string();
    let bases = format!("sapwood.baseDir={}", fleet.bases(name).display());
    let options = ["-c", "sapwood.baseRetry=1s", "clone", "-c", &bases];
    origin.run(SAPWOOD.as_ref(), &[&options, args, &[&url, &dir]].concat())
}

/// Damages all contents of a remote. Its records stay.
fn damage(dir: &Path) {
    for path in files_below(&dir.join("data")) {
        let mut bytes = fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("written");
    }
}

#[test]
fn a_clone_goes_on_when_a_remote_fails() {
    let fleet = Fleet::new();
    fleet.origin().git(&["config", "uploadpack.allowFilter", "true"]);
    fleet.push();
    let (good, bad) = (fleet.remote(), fleet.dir().with_file_name("bad"));
    fs::create_dir(&bad).expect("a new directory");
    let bad_remote = format!("file://{}", bad.display());
    base_done(&fleet.origin(), &["push", "-q", "--no-mount", &bad_remote]);
    damage(&bad);
    // Nobody listens on this port.
    let away = "http://127.0.0.1:1/bases";
    let expected = fleet.checkout(&fleet.commit("HEAD"));
    let whole = |name: &str, run: &Run| {
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        let repo = fleet.sandbox.repo(name);
        repo.git(&["fsck"]);
        let files = repo.run("sh".as_ref(), &["-ec", super::FILES]);
        assert_eq!(files.stdout, expected, "{name}");
        assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    };
    for (name, args, warnings) in [
        ("next", &["--base", away, "--base", &good][..], &["cannot connect"][..]),
        ("next-damaged", &["--base", &bad_remote, "--base", &good], &["is damaged"]),
        ("if-able", &["--base-if-able", away], &["cannot connect", "cloning without a base"]),
        ("if-able-damaged", &["--base-if-able", &bad_remote], &["is damaged", "cloning without a base"]),
        ("both", &["--base-if-able", away, "--base", &good], &["cannot connect"]),
    ] {
        let run = clone(&fleet, name, args);
        whole(name, &run);
        let said = run.stderr.to_string();
        for warning in warnings {
            assert!(said.contains(warning), "{name}: {said}");
        }
        assert!(!said.contains("fatal"), "{name}: {said}");
    }
    // A remote that is required, and no other that has the base.
    for (name, args) in [
        ("required", &["--base", away][..]),
        ("required-first", &["--base", away, "--base-if-able", &bad_remote]),
    ] {
        let run = clone(&fleet, name, args);
        assert_eq!(run.code, 128, "{name}: {}", run.stderr);
        assert!(!fleet.sandbox.path().join(name).exists(), "{name} is left");
    }
}
