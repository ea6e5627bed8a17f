//! `sapwood.workspaceSync`, `workspace sync`, and the messages after a crash of the machine.

use std::{fs, path::PathBuf, process::Command};

use bstr::ByteSlice as _;

use super::create::Place;
use crate::SAPWOOD;

/// Returns the options of the mount of a workspace.
fn options(place: &Place, name: &str) -> String {
    let top = place.workspace(name).path;
    let table = fs::read_to_string("/proc/self/mountinfo").expect("Linux has a mount table");
    let line = table.lines().find(|line| line.split(' ').nth(4) == top.to_str());
    line.expect("it is mounted").to_owned()
}

fn state(place: &Place, name: &str) -> PathBuf {
    place.repo().join(".git/sapwood/workspaces").join(name)
}

/// Ends all mounts as a crash does, and empties a file of the upper layer that the disk had not
/// got.
fn crash(place: &Place, name: &str, torn: &str) {
    let upper = state(place, name).join("upper").join(torn);
    place.reboot();
    let modified = fs::metadata(&upper).and_then(|found| found.modified()).expect("in the upper layer");
    let file = fs::File::options().write(true).open(&upper).expect("opened");
    file.set_len(0).and_then(|()| file.set_modified(modified)).expect("torn");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    for mark in ["mounted", "unsynced"] {
        let path = state(place, name).join(mark);
        let text = fs::read_to_string(&path).expect("a mark");
        fs::write(&path, text.replace(boot.trim_end(), "another")).expect("written");
    }
}

#[test]
fn the_setting_decides_at_each_mount() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    assert!(options(&place, "one").contains("volatile"));
    assert!(state(&place, "one").join("unsynced").exists());
    place.repo().git(&["config", "sapwood.workspaceSync", "always"]);
    place.done(&["unmount", "-q", "one"]);
    assert!(!state(&place, "one").join("unsynced").exists(), "an unmount syncs");
    place.done(&["mount", "-q", "one"]);
    assert!(!options(&place, "one").contains("volatile"));
    place.done(&["create", "-q", "two", "--detach", "--backend", "overlay", "--volatile"]);
    assert!(options(&place, "two").contains("volatile"));
    place.repo().git(&["config", "sapwood.workspaceSync", "auto"]);
    place.done(&["create", "-q", "three", "--detach", "--backend", "image"]);
    assert!(options(&place, "three").contains("volatile"));
    place.repo().git(&["config", "sapwood.workspaceSync", "sometimes"]);
    place.done(&["unmount", "-q", "one"]);
    let refused = place.run(&["mount", "one"]);
    assert_eq!(refused.code, 1);
    let expected = "bad value 'sometimes' for sapwood.workspaceSync: it is 'auto' or 'always'";
    assert!(refused.stderr.contains_str(expected), "{}", refused.stderr);
}

#[test]
fn a_crash_is_told_until_a_commit() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "-b", "topic", "--backend", "overlay"]);
    let workspace = place.workspace("one");
    workspace.write("new", "mine\n");
    let append = |text: &str| {
        let content = workspace.read("dir/deep/file");
        workspace.write("dir/deep/file", format!("{content}{text}"));
    };
    append("again\n");
    crash(&place, "one", "dir/deep/file");
    // Each command that mounts repairs the workspace.
    let run = place.run(&["exec", "one", "--", "cat", "dir/deep/file"]);
    assert_eq!((run.code, run.stdout.to_string()), (0, "more\n".to_owned()), "{}", run.stderr);
    let told = "'dir/deep/file' was incomplete and held nothing of yours: it is as in the base";
    assert!(run.stderr.contains_str(told), "{}", run.stderr);
    let again = place.run(&["exec", "one", "--", "true"]);
    assert_eq!(again.stderr, "", "it is told once");
    assert!(place.done(&["list"]).contains("(1 path to look at after a crash)"));
    let found = &place.json()[0]["crash"][0];
    assert_eq!((&found["path"], &found["damage"]), (&"dir/deep/file".into(), &"restored".into()));
    assert_eq!(place.git("one", &["status", "--porcelain"]), "?? new\n");
    for args in [&["add", "new"][..], &["commit", "-qm", "three"]] {
        let run = workspace.run(SAPWOOD.as_ref(), args);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    assert_eq!(place.json()[0]["crash"], serde_json::json!([]));
}

#[test]
fn a_commit_and_a_sync_make_files_durable() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "-b", "topic", "--backend", "overlay"]);
    let workspace = place.workspace("one");
    let syncs = |directory: &str, args: &[&str]| {
        let log = place.sandbox.path().join("trace");
        let mut command = place.sandbox.repo(directory).command("strace".as_ref());
        command.args(["-f", "-y", "-e", "trace=fsync,syncfs", "-o"]).arg(&log).arg(SAPWOOD).args(args);
        assert!(command.status().expect("strace is installed").success(), "{args:?}");
        let upper = state(&place, "one").join("upper");
        let trace = fs::read_to_string(&log).expect("a trace");
        let of_upper = |line: &&str| line.contains(upper.to_str().expect("a plain name"));
        trace.lines().filter(of_upper).map(str::to_owned).collect::<Vec<_>>()
    };
    let here = "repo.workspaces/one";
    workspace.write("dir/deep/file", "mine\n");
    assert_eq!(syncs(here, &["add", "-A"]), Vec::<String>::new(), "the object is what was acknowledged");
    // The file, and the three directories with its name.
    assert_eq!(syncs(here, &["commit", "-qm", "three"]).len(), 4);
    for number in 0..40 {
        workspace.write(format!("many/{number}"), "mine\n");
    }
    syncs(here, &["add", "-A"]);
    let many = syncs(here, &["commit", "-qm", "four"]);
    assert!(many.len() == 1 && many[0].contains("syncfs"), "{many:?}");
    workspace.write("file", "mine\n");
    syncs(here, &["add", "-A"]);
    assert_eq!(syncs(here, &["-c", "core.fsync=none", "commit", "-qm", "five"]), Vec::<String>::new());
    assert_eq!(syncs("repo", &["workspace", "sync", "one"]).len(), 1);
    assert_eq!(syncs("repo", &["workspace", "remove", "--force", "one"]), Vec::<String>::new());
}

#[test]
fn what_is_synced_is_the_users() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    // The mark of the sync gets a later time.
    fs::File::create(place.workspace("one").join("file")).expect("emptied");
    std::thread::sleep(std::time::Duration::from_millis(30));
    place.done(&["sync", "--all"]);
    crash(&place, "one", "file");
    // `crash` changed the time of the file, as no crash does.
    let mark = state(&place, "one").join("unsynced");
    let text = fs::read_to_string(&mark).expect("read");
    let (boot, _) = text.split_once("since").expect("two lines");
    fs::write(&mark, format!("{boot}since 99999999999.0\n")).expect("written");
    let run = place.run(&["mount", "one"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains_str("the machine stopped"), "{}", run.stderr);
    assert_eq!(place.workspace("one").read("file"), "");
}

#[test]
fn the_files_of_a_stash_are_synced_in_the_upper_layer() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    let workspace = place.workspace("one");
    workspace.write("file", "mine\n");
    let run = workspace.run(SAPWOOD.as_ref(), &["stash"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let log = place.sandbox.path().join("trace");
    let mut command: Command = workspace.command("strace".as_ref());
    command.args(["-f", "-y", "-e", "trace=fsync", "-o"]).arg(&log).args([SAPWOOD, "stash", "pop", "-q"]);
    assert!(command.status().expect("strace is installed").success());
    let synced = fs::read_to_string(&log).expect("a trace");
    let file = state(&place, "one").join("upper/file");
    assert!(synced.contains(file.to_str().expect("a plain name")), "{synced}");
    assert_eq!(workspace.read("file"), "mine\n");
}
